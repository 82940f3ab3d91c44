"""Our assistant as the asker: in this process, with a store on disk, under a configuration or as a program has it."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import midturn as mt
from midturn.compose.command_line import CommandLine as Composed, CommandParts
from midturn.compose.run_parts import RunParts
from midturn.config.load import LoadRequest, load
from midturn.core.exchange import ToolDefinition
from midturn.core.form import Form
from midturn.core.outcome import Outcome as ToolOutcome
from midturn.core.secret import SecretValue
from midturn.core.turn.inputs import TurnRequested
from midturn.ports import ToolRun
from midturn.tools.ask_user import AskUserTool
from support.cli import CommandLine, calls
from support.stories.outcome import Outcome, outcome_of
from support.stories.scene import Scene


class Deploy(mt.Tool):
    """A tool that asks what its arguments say, and says its answers; it is run again with what was answered."""

    def __init__(self, scene: Scene) -> None:
        self.run = scene.run

    @property
    def definition(self) -> ToolDefinition:
        """Take anything."""
        return ToolDefinition("deploy", "Deploy.", {"type": "object", "properties": {"ask": {}, "say": {}}})

    async def execute(self, run: ToolRun) -> ToolOutcome:
        """Ask for what is not answered."""
        arguments: Any = run.call.arguments
        questions = [mt.Question.from_json(question) for question in arguments.get("ask", [])]
        if any(question.id not in run.answers for question in questions):
            return mt.NeedsInput(Form(questions))
        return mt.Success(said(arguments, run.answers))


def said(arguments: Any, answers: Any) -> str:
    """Return what the tool says."""
    shown = {key: "(secret)" if isinstance(value, SecretValue) else value for key, value in answers.items()}
    return str(arguments.get("say") or json.dumps(shown))


class Assistant:
    """Our assistant under a configuration, in this process; nobody is attached, and what it asks waits.

    `store` is where the conversations are; a command finds the same configuration under `user`.
    """

    def __init__(self, scene: Scene, directory: Path, store: str | None = None, prompter: mt.Prompter | None = None) -> None:
        self.scene = scene
        self.user = CommandLine(directory)
        self.address = store or str(directory / "store")
        self.store = mt.open_store(self.address)
        self.prompter = prompter
        self.conversation = ""
        model = self.user.script(calls(scene.tool, **scene.arguments))
        self.user.configure(f'assistant.model.id = "{model}"\nprompt.settle_ms = 0\nconversation.tools."*".detached = "defer"\n')
        self.user.asker(run=scene.run, result=scene.result)

    def begin(self) -> None:
        """Make the call."""

        async def work() -> None:
            async with await self.store.create("Go") as journal:
                self.conversation = journal.conversation
                await self._composed().session(journal).run(TurnRequested("Go"))

        asyncio.run(work())

    def go_on(self) -> None:
        """Go on with what is open."""

        async def work() -> None:
            async with await self.store.open(self.conversation) as journal:
                await self._composed().session(journal).resume()

        if self.outcome().end == "open":
            asyncio.run(work())

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
        parts = CommandParts(settings=load(given).settings, root=user.root, attached=self.prompter is not None)
        return Composed(parts, RunParts(prompter=self.prompter))


class Program:
    """An agent of a program; nobody is attached unless a prompter is."""

    def __init__(self, scene: Scene, directory: Path, prompter: mt.Prompter | None = None) -> None:
        self.store = mt.open_store(directory / "store")
        model = mt.ScriptedModel([calls(scene.tool, **scene.arguments), {"text": "Done."}])
        tools = [AskUserTool() if scene.by_model else Deploy(scene)]
        self.agent = mt.Agent(model, tools=tools, store=self.store, prompter=prompter)
        self.conversation = ""

    def begin(self) -> None:
        """Make the call."""
        self.conversation = self.agent.run_sync("Go").conversation

    def go_on(self) -> None:
        """Go on with what is open."""
        if self.outcome().end == "open":
            self.agent.resume_sync(self.conversation)

    def outcome(self) -> Outcome:
        """Say what is on record."""
        return outcome_of([event.to_json() for event in self.store.read_sync(self.conversation).events])
