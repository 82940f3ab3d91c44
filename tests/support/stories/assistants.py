"""Askers: midturn's own agent in this process with a store on disk, configured for the command
line or in a program.
"""

from __future__ import annotations

import asyncio
import json
import threading
import time
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from msgspec.structs import replace

import midturn as mt
from midturn.agent.assembly.command_line import CommandArguments, CommandLine as Composed
from midturn.config.load import LoadRequest, load
from midturn.events.outcome import Outcome as ToolOutcome
from midturn.exchange import ToolCallPart, ToolDefinition
from midturn.ports import ToolRun
from midturn.question.form import Form
from midturn.question.json_value import SecretValue
from midturn.runtime.run_options import RunOptions
from midturn.stores.port import LockedBy
from midturn.stores.postgres.conversations import PostgresConversations
from midturn.stores.store import ConversationStore
from midturn.tools.ask_user_call import AskUserTool
from midturn.turn.inputs import TurnRequested
from midturn.turn.view import TurnView
from support.cli import CommandLine
from support.hooks import until
from support.nested_agents import RepeatingModel
from support.postgres import unused_schema
from support.stories.outcome import OPEN, Outcome, approval, outcome_of
from support.stories.scene import CHANGED, INQUIRIES, Scene
from support.stories.separate_processes import AskerInProcess, SilentPrompter


class Deploy(mt.Tool):
    """A tool that asks the questions in its arguments and returns the answers. It runs again
    with each answer.
    """

    def __init__(self, scene: Scene) -> None:
        self.run = scene.run

    @property
    def definition(self) -> ToolDefinition:
        """Accept any arguments."""
        return ToolDefinition(
            "deploy",
            "Deploy.",
            {"type": "object", "properties": {"ask": {}, "say": {}, "changed": {}}},
        )

    async def execute(self, run: ToolRun) -> ToolOutcome:
        """Ask for the missing answers."""
        arguments: Any = run.call.arguments
        questions = [mt.Question.from_json(question) for question in asked_now(arguments)]
        if any(question.id not in run.answers for question in questions):
            return mt.NeedsInput(Form(questions))
        known = {
            key: value.reveal() if isinstance(value, SecretValue) else value
            for key, value in run.answers.items()
        }
        return mt.Success(arguments.get("say") or json.dumps(known))


def asked_now(arguments: Any) -> Any:
    """Return the tool's questions, which may have been changed meanwhile."""
    changed = arguments.get("changed")
    return (
        changed["ask"] if changed and Path(changed["file"]).exists() else arguments.get("ask", [])
    )


def managing(tool: str, arguments: dict[str, Any], tools: Sequence[mt.Tool]) -> mt.Tool:
    """Return a tool in which an inner agent makes a call; it returns what the inner agent was
    told.
    """
    inner = mt.Agent(RepeatingModel(ToolCallPart("call_1", tool, arguments)).model, tools=tools)

    @mt.tool
    async def manage() -> str:
        """Have an agent deploy."""
        return (await inner.run("Deploy.")).text

    return manage


def outcome_with_inner_agents(store: ConversationStore, conversation: str) -> Outcome:
    """Return the outcome of a turn, including the questions of agents inside its tools. Those
    have their own conversations.
    """
    found = {
        id: outcome_of([event.to_json() for event in store.read_sync(id).events])
        for id in store.ids_sync()
    }
    outer = found.pop(conversation)
    assert all(inner.end == outer.end for inner in found.values()) or outer.end == OPEN, found
    return Outcome(
        outer.record + tuple(line for inner in found.values() for line in inner.record),
        outer.words,
        outer.end,
        outer.result,
    )


class Assistant(AskerInProcess):
    """The configured assistant in this process. Nobody is attached, so its questions wait.

    `store` contains the conversations. A command finds the same configuration under `user`.
    """

    waits = 'conversation.tools."*".detached = "{}"\n'
    """Configuration of the detached policy."""

    def __init__(
        self,
        scene: Scene,
        directory: Path,
        store: str | None = None,
        prompter: mt.Prompter | None = None,
    ) -> None:
        self.scene = scene
        self.user = CommandLine(directory)
        self.address = store or str(directory / "store")
        self._store = mt.open_store(self.address)
        self.prompter = prompter
        self.conversation = ""
        self.directory = directory
        model = self.user.script(scene.reply(directory), {"text": scene.last}, inquiries=INQUIRIES)
        self.user.configure(
            f'assistant.model.id = "{model}"\nprompt.settle_ms ='
            f" 0\n{self.waits.format(scene.detached)}"
        )
        self.have_a_tool()

    @property
    def store(self) -> ConversationStore:
        return self._store

    @property
    def others(self) -> Sequence[mt.Tool]:
        """Tools that are not commands."""
        return ()

    def have_a_tool(self) -> None:
        """Configure the called tool."""
        self.user.asker(run=self.scene.run, result=self.scene.result)

    def hold(self) -> None:
        """Make the call with a prompter attached."""
        self.prompter = SilentPrompter()
        Assistant.begin(self)

    def held(self) -> None:
        """Load the conversation."""
        self.conversation = self.store.ids_sync()[-1]

    def begin(self) -> None:
        """Make the call."""

        async def work() -> None:
            async with await self.store.create("Go") as journal:
                self.conversation = journal.conversation
                await (
                    self._composed()
                    .session(journal)
                    .run(TurnRequested("Go", schema=self.scene.schema))
                )

        asyncio.run(work())

    def go_on(self) -> None:
        if self.outcome().end == OPEN:
            Assistant.again(self)

    def again(self) -> None:

        async def work() -> None:
            async with await self.store.open(self.conversation) as journal:
                await self._composed().session(journal).resume()

        asyncio.run(work())

    def change(self) -> None:
        (self.directory / CHANGED).touch()

    def outcome(self) -> Outcome:
        return outcome_of(
            [event.to_json() for event in self.store.read_sync(self.conversation).events]
        )

    def _composed(self) -> Composed:
        user = self.user
        given = LoadRequest(
            cwd=user.root,
            root=user.root,
            environment={},
            cfg=(),
            flags=(),
            toggles=(),
            recorded=(),
            user_file=user.config,
            state=user.state,
        )
        parts = CommandArguments(
            settings=load(given).settings,
            root=user.root,
            attached=self.prompter is not None,
            others=self.others,
        )
        return Composed(parts, RunOptions(prompter=self.prompter))


class ReadyAssistant(Assistant):
    """Continues by `midturn resume --ready`, without a terminal."""

    def go_on(self) -> None:
        self.user.run("resume", "--ready", "--store", self.address)


class WatchedAssistant(Assistant):
    """Continues by `midturn resume --ready --watch`, which keeps running."""

    def begin(self) -> None:
        """Ask while nobody is attached, then start the watching command."""
        super().begin()
        self.watch()

    def held(self) -> None:
        """Start the watching command."""
        super().held()
        self.watch()

    def watch(self) -> None:
        """Start the command."""
        self.watching = self.user.start("resume", "--ready", "--watch", "--store", self.address)

    def go_on(self) -> None:
        """Wait until no turn is ready."""
        until(lambda: is_active(self.store), lambda moving: not moving)

    def stop(self) -> None:
        self.watching.terminate()
        self.watching.communicate(timeout=120)


def is_active(store: ConversationStore) -> bool:
    """Return whether a turn is ready or being run.

    Read the log instead of the list of ready turns: a turn that a worker locks, releases and
    locks again is not listed in between.
    """
    return _in_hand(store) or _goes_on(store) or bool(store.ready_sync()) or _in_hand(store)


def _goes_on(store: ConversationStore) -> bool:
    return any(TurnView.last(store.read_sync(id).events).is_ready for id in store.ids_sync())


def _in_hand(store: ConversationStore) -> bool:
    return any(
        isinstance(store.run_sync("look", store.port.look(id)), LockedBy) for id in store.ids_sync()
    )


class Program(AskerInProcess):
    """An agent of a program. Nobody is attached unless it has a prompter."""

    def __init__(
        self,
        scene: Scene,
        directory: Path,
        prompter: mt.Prompter | None = None,
        store: str | None = None,
    ) -> None:
        self._store = mt.open_store(store or directory / "store")
        self.directory = directory
        self.scene = scene
        self.conversation = ""
        self.attach(prompter)

    @property
    def store(self) -> ConversationStore:
        return self._store

    def attach(self, prompter: mt.Prompter | None) -> None:
        """Attach a prompter, or none."""
        called = (
            {"calls": [{"name": "manage"}]}
            if self.scene.inner
            else self.scene.reply(self.directory)
        )
        model = mt.ScriptedModel([called, {"text": self.scene.last}], INQUIRIES)
        tools: list[mt.Tool] = [AskUserTool() if self.scene.by_model else Deploy(self.scene)]
        tools = (
            [managing(self.scene.tool, self.scene.arguments, tools)] if self.scene.inner else tools
        )
        self.agent = mt.Agent(
            model, tools=tools, store=self.store, prompter=prompter, detached=self.scene.detached
        )

    def hold(self) -> None:
        """Make the call with a prompter attached."""
        self.attach(SilentPrompter())
        asyncio.run(self.agent.run("Go", schema=self.scene.schema))

    def held(self) -> None:
        """Load the conversation."""
        self.conversation = self.store.ids_sync()[-1]

    def begin(self) -> None:
        """Make the call."""
        self.conversation = self.agent.run_sync("Go", schema=self.scene.schema).conversation

    def go_on(self) -> None:
        """Continue the open turn, unless the agent's own page continues it."""
        while self.outcome().end == OPEN:
            try:
                Program.again(self)
            except mt.NotOpen:  # the page has continued it meanwhile
                continue
            except mt.StoreLocked:  # the page is continuing it
                time.sleep(0.01)
            else:
                return

    def again(self) -> None:
        self.agent.resume_sync(self.conversation)

    def change(self) -> None:
        (self.directory / CHANGED).touch()

    def outcome(self) -> Outcome:
        """Return the recorded outcome, including agents inside tools."""
        return outcome_with_inner_agents(self.store, self.conversation)


class WorkerProgram(Program):
    """An agent of a program whose turns a worker continues in a thread."""

    def begin(self) -> None:
        """Make the call, then start the worker."""
        super().begin()
        self.work()

    def held(self) -> None:
        """Start the worker."""
        super().held()
        self.work()

    def work(self) -> None:
        """Start a worker in a thread."""
        self.loop = asyncio.new_event_loop()
        self.working = self.loop.create_task(self.agent.work())
        self.thread = threading.Thread(target=self._run, daemon=True)
        self.thread.start()

    def go_on(self) -> None:
        """Wait until no turn is due."""
        until(lambda: is_active(self.store), lambda moving: not moving)

    def stop(self) -> None:
        self.loop.call_soon_threadsafe(self.working.cancel)
        self.thread.join(120)

    def _run(self) -> None:
        with suppress(asyncio.CancelledError):
            self.loop.run_until_complete(self.working)
        self.loop.close()


class WorkerWithDatabase(WorkerProgram):
    """The same with conversations in PostgreSQL."""

    def __init__(self, scene: Scene, directory: Path) -> None:
        super().__init__(scene, directory, store=unused_schema())

    def stop(self) -> None:
        """Stop the worker, then close the database connections."""
        super().stop()
        port = self.store.port
        assert isinstance(port, PostgresConversations)
        asyncio.run(port.loop.run(port.database.close()))


def without_reviews(found: Outcome, *, reviews: bool) -> Outcome:
    """Remove the reviews that were passed, if they are not part of the story."""
    passed = approval("review", "approved")
    return (
        found
        if reviews
        else replace(found, record=tuple(line for line in found.record if line != passed))
    )


class AskingModel(Program):
    """A model that asks by `ask_user`. A review that is not part of the story is passed."""

    def __init__(self, scene: Scene, directory: Path) -> None:
        super().__init__(replace(scene, by_model=True), directory)
        self.reviews = scene.by_model

    def go_on(self) -> None:
        super().go_on()
        for question in self.store.pending_sync():
            if question.kind == "review" and not self.reviews:
                asyncio.run(self.store.answer(question.id, approve=True))
                super().go_on()

    def outcome(self) -> Outcome:
        return without_reviews(super().outcome(), reviews=self.reviews)
