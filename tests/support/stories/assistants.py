"""Our assistant as the asker: in this process, with a store on disk, under a configuration or as a program has it."""

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
from midturn.agent.assembly.command_line import CommandLine as Composed, CommandParts
from midturn.agent.assembly.session import RunParts
from midturn.config.load import LoadRequest, load
from midturn.events.outcome import Outcome as ToolOutcome
from midturn.exchange import ToolCallPart, ToolDefinition
from midturn.ports import ToolRun
from midturn.question.form import Form
from midturn.question.json_value import SecretValue
from midturn.stores.port import HeldBy
from midturn.stores.postgres.conversations import PostgresConversations
from midturn.stores.store import ConversationStore
from midturn.tools.ask_user_call import AskUserTool
from midturn.turn.step import TurnRequested
from midturn.turn.view import TurnView
from support.cli import CommandLine
from support.hooks import until
from support.nested_agents import Asked
from support.postgres import unused_schema
from support.stories.elsewhere import InAProcess, Silent
from support.stories.outcome import OPEN, Outcome, approval, outcome_of
from support.stories.scene import CHANGED, INQUIRIES, Scene


class Deploy(mt.Tool):
    """A tool that asks what its arguments say, and says its answers; it is run again with what was answered."""

    def __init__(self, scene: Scene) -> None:
        self.run = scene.run

    @property
    def definition(self) -> ToolDefinition:
        """Take anything."""
        return ToolDefinition("deploy", "Deploy.", {"type": "object", "properties": {"ask": {}, "say": {}, "changed": {}}})

    async def execute(self, run: ToolRun) -> ToolOutcome:
        """Ask for what is not answered."""
        arguments: Any = run.call.arguments
        questions = [mt.Question.from_json(question) for question in asked_now(arguments)]
        if any(question.id not in run.answers for question in questions):
            return mt.NeedsInput(Form(questions))
        known = {key: value.reveal() if isinstance(value, SecretValue) else value for key, value in run.answers.items()}
        return mt.Success(arguments.get("say") or json.dumps(known))


def asked_now(arguments: Any) -> Any:
    """Return what the tool asks: something else once it was changed."""
    changed = arguments.get("changed")
    return changed["ask"] if changed and Path(changed["file"]).exists() else arguments.get("ask", [])


def managing(tool: str, arguments: dict[str, Any], tools: Sequence[mt.Tool]) -> mt.Tool:
    """Return a tool in which an agent makes a call, and says what it was told."""
    inner = mt.Agent(Asked(ToolCallPart("call_1", tool, arguments)).model, tools=tools)

    @mt.tool
    async def manage() -> str:
        """Have an agent deploy."""
        return (await inner.run("Deploy.")).text

    return manage


def outcome_with_those_inside(store: ConversationStore, conversation: str) -> Outcome:
    """Return what became of a turn; what agents inside its tools asked is on record in conversations of theirs."""
    found = {id: outcome_of([event.to_json() for event in store.read_sync(id).events]) for id in store.ids_sync()}
    outer = found.pop(conversation)
    assert all(inner.end == outer.end for inner in found.values()) or outer.end == OPEN, found
    return Outcome(outer.record + tuple(line for inner in found.values() for line in inner.record), outer.words, outer.end, outer.result)


class Assistant(InAProcess):
    """Our assistant under a configuration, in this process; nobody is attached, and what it asks waits.

    `store` is where the conversations are; a command finds the same configuration under `user`.
    """

    waits = 'conversation.tools."*".detached = "{}"\n'
    """What is configured for questions while nobody is there."""

    def __init__(self, scene: Scene, directory: Path, store: str | None = None, prompter: mt.Prompter | None = None) -> None:
        self.scene = scene
        self.user = CommandLine(directory)
        self.address = store or str(directory / "store")
        self._store = mt.open_store(self.address)
        self.prompter = prompter
        self.conversation = ""
        self.directory = directory
        model = self.user.script(scene.reply(directory), {"text": scene.last}, inquiries=INQUIRIES)
        self.user.configure(f'assistant.model.id = "{model}"\nprompt.settle_ms = 0\n{self.waits.format(scene.detached)}')
        self.have_a_tool()

    @property
    def store(self) -> ConversationStore:
        """Where it is on record."""
        return self._store

    @property
    def others(self) -> Sequence[mt.Tool]:
        """Tools that are no commands."""
        return ()

    def have_a_tool(self) -> None:
        """Configure what is called."""
        self.user.asker(run=self.scene.run, result=self.scene.result)

    def hold(self) -> None:
        """Make the call at a prompt."""
        self.prompter = Silent()
        Assistant.begin(self)

    def held(self) -> None:
        """Find the conversation."""
        self.conversation = self.store.ids_sync()[-1]

    def begin(self) -> None:
        """Make the call."""

        async def work() -> None:
            async with await self.store.create("Go") as journal:
                self.conversation = journal.conversation
                await self._composed().session(journal).run(TurnRequested("Go", schema=self.scene.schema))

        asyncio.run(work())

    def go_on(self) -> None:
        """Go on with what is open."""
        if self.outcome().end == OPEN:
            Assistant.again(self)

    def again(self) -> None:
        """Make the call again."""

        async def work() -> None:
            async with await self.store.open(self.conversation) as journal:
                await self._composed().session(journal).resume()

        asyncio.run(work())

    def change(self) -> None:
        """Ask something else from now on."""
        (self.directory / CHANGED).touch()

    def outcome(self) -> Outcome:
        """Say what is on record."""
        return outcome_of([event.to_json() for event in self.store.read_sync(self.conversation).events])

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
        parts = CommandParts(settings=load(given).settings, root=user.root, attached=self.prompter is not None, others=self.others)
        return Composed(parts, RunParts(prompter=self.prompter))


class ReadyAssistant(Assistant):
    """Goes on by `midturn resume --ready`, at no terminal."""

    def go_on(self) -> None:
        """Go on with what is ready."""
        self.user.run("resume", "--ready", "--store", self.address)


class WatchedAssistant(Assistant):
    """Goes on by `midturn resume --ready --watch`, which stays."""

    def begin(self) -> None:
        """Ask, with nobody there; then have somebody watch."""
        super().begin()
        self.watch()

    def held(self) -> None:
        """Have somebody watch."""
        super().held()
        self.watch()

    def watch(self) -> None:
        """Start the command."""
        self.watching = self.user.start("resume", "--ready", "--watch", "--store", self.address)

    def go_on(self) -> None:
        """Wait until nothing is ready any more."""
        until(lambda: moves(self.store), lambda moving: not moving)

    def stop(self) -> None:
        """Have the watcher end."""
        self.watching.terminate()
        self.watching.communicate(timeout=60)


def moves(store: ConversationStore) -> bool:
    """Say whether a turn is due, or in hand: it may be given up before it is seen to be due, and taken up after that.

    What is on record counts whoever holds it: a turn that is looked at, let go and taken up again is not listed as ready in between.
    """
    return _in_hand(store) or _goes_on(store) or bool(store.ready_sync()) or _in_hand(store)


def _goes_on(store: ConversationStore) -> bool:
    return any(TurnView.last(store.read_sync(id).events).is_ready for id in store.ids_sync())


def _in_hand(store: ConversationStore) -> bool:
    return any(isinstance(store.run_sync("look", store.port.look(id)), HeldBy) for id in store.ids_sync())


class Program(InAProcess):
    """An agent of a program; nobody is attached unless a prompter is."""

    def __init__(self, scene: Scene, directory: Path, prompter: mt.Prompter | None = None, store: str | None = None) -> None:
        self._store = mt.open_store(store or directory / "store")
        self.directory = directory
        self.scene = scene
        self.conversation = ""
        self.attach(prompter)

    @property
    def store(self) -> ConversationStore:
        """Where it is on record."""
        return self._store

    def attach(self, prompter: mt.Prompter | None) -> None:
        """Have somebody there, or nobody."""
        called = {"calls": [{"name": "manage"}]} if self.scene.inner else self.scene.reply(self.directory)
        model = mt.ScriptedModel([called, {"text": self.scene.last}], INQUIRIES)
        tools: list[mt.Tool] = [AskUserTool() if self.scene.by_model else Deploy(self.scene)]
        tools = [managing(self.scene.tool, self.scene.arguments, tools)] if self.scene.inner else tools
        self.agent = mt.Agent(model, tools=tools, store=self.store, prompter=prompter, detached=self.scene.detached)

    def hold(self) -> None:
        """Make the call at a prompt."""
        self.attach(Silent())
        asyncio.run(self.agent.run("Go", schema=self.scene.schema))

    def held(self) -> None:
        """Find the conversation."""
        self.conversation = self.store.ids_sync()[-1]

    def begin(self) -> None:
        """Make the call."""
        self.conversation = self.agent.run_sync("Go", schema=self.scene.schema).conversation

    def go_on(self) -> None:
        """Go on with what is open, where the agent's own page does not."""
        while self.outcome().end == OPEN:
            try:
                Program.again(self)
            except mt.NotOpen:  # it has, since we looked
                continue
            except mt.StoreLocked:  # it does
                time.sleep(0.01)
            else:
                return

    def again(self) -> None:
        """Make the call again."""
        self.agent.resume_sync(self.conversation)

    def change(self) -> None:
        """Ask something else from now on."""
        (self.directory / CHANGED).touch()

    def outcome(self) -> Outcome:
        """Say what is on record, also of agents inside tools."""
        return outcome_with_those_inside(self.store, self.conversation)


class WorkedProgram(Program):
    """An agent of a program whose turns go on in a worker, in a thread."""

    def begin(self) -> None:
        """Make the call; then have somebody work."""
        super().begin()
        self.work()

    def held(self) -> None:
        """Have somebody work."""
        super().held()
        self.work()

    def work(self) -> None:
        """Start a worker."""
        self.loop = asyncio.new_event_loop()
        self.working = self.loop.create_task(self.agent.work())
        self.thread = threading.Thread(target=self._run, daemon=True)
        self.thread.start()

    def go_on(self) -> None:
        """Wait until nothing is due any more."""
        until(lambda: moves(self.store), lambda moving: not moving)

    def stop(self) -> None:
        """Have the worker end."""
        self.loop.call_soon_threadsafe(self.working.cancel)
        self.thread.join(60)

    def _run(self) -> None:
        with suppress(asyncio.CancelledError):
            self.loop.run_until_complete(self.working)
        self.loop.close()


class WorkedInADatabase(WorkedProgram):
    """The same, where conversations are in PostgreSQL."""

    def __init__(self, scene: Scene, directory: Path) -> None:
        super().__init__(scene, directory, store=unused_schema())

    def stop(self) -> None:
        """Have the worker end, and the sessions at the server after it."""
        super().stop()
        port = self.store.port
        assert isinstance(port, PostgresConversations)
        asyncio.run(port.loop.run(port.database.close()))


def unless_reviewed(found: Outcome, *, reviews: bool) -> Outcome:
    """Leave the reviews out that were passed, where they are no part of the story."""
    passed = approval("review", "approved")
    return found if reviews else replace(found, record=tuple(line for line in found.record if line != passed))


class AskingModel(Program):
    """A model that asks by `ask_user`; a review that is no part of the story is passed."""

    def __init__(self, scene: Scene, directory: Path) -> None:
        super().__init__(replace(scene, by_model=True), directory)
        self.reviews = scene.by_model

    def go_on(self) -> None:
        """Go on with what is open."""
        super().go_on()
        for question in self.store.pending_sync():
            if question.kind == "review" and not self.reviews:
                asyncio.run(self.store.answer(question.id, approve=True))
                super().go_on()

    def outcome(self) -> Outcome:
        """Say what is on record."""
        return unless_reviewed(super().outcome(), reviews=self.reviews)
