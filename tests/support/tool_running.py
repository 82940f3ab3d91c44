"""Runs a single tool, with scripted answers."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from pathlib import Path
from typing import TypeAlias

from midturn.events.outcome import Outcome
from midturn.events.types import ToolCall
from midturn.ports import Tool, ToolRun
from midturn.question.json_value import DEFAULT_LIMITS, Json, Limits, SecretValue
from midturn.runtime import tool_runs
from midturn.runtime.call_state import CallSecrets
from midturn.turn.inputs import Answer, FormWanted, Given, NoAnswer

Scripted: TypeAlias = Json | SecretValue | Answer[Json | SecretValue] | NoAnswer


class Responder:
    """Answers questions by ID and records them. A question without a scripted answer waits
    forever.
    """

    def __init__(self, script: Mapping[str, Scripted] = {}) -> None:
        self.script = script
        self.asked: list[FormWanted] = []
        self.waiting = asyncio.Event()

    async def __call__(self, asking: FormWanted) -> Given:
        self.asked.append(asking)
        if not all(question.id in self.script for question in asking.form.questions):
            self.waiting.set()
            await asyncio.Event().wait()
        return {question.id: self._given(question.id) for question in asking.form.questions}

    def _given(self, id: str) -> Answer[Json | SecretValue] | NoAnswer:
        scripted = self.script[id]
        return scripted if isinstance(scripted, Answer | NoAnswer) else Answer(scripted)


class ToolEnvironment:
    """The environment of a tool run: workspace, limits, responder."""

    def __init__(
        self,
        root: Path | str = ".",
        *,
        limits: Limits = DEFAULT_LIMITS,
        ask: Responder | None = None,
        deps: object = None,
    ) -> None:
        self.root = str(root)
        self.limits = limits
        self.ask = ask or Responder()
        self.deps = deps


def tool_run(
    tool: Tool,
    arguments: Json,
    answers: Mapping[str, Json | SecretValue] = {},
    around: ToolEnvironment | None = None,
) -> ToolRun:
    """Return a run of a call of `tool`."""
    around = around or ToolEnvironment()
    call = ToolCall("event_1", "call_1", tool.definition.name, arguments)
    secrets = CallSecrets()
    secrets.learn([*answers.values(), *around.ask.script.values()])
    return ToolRun(
        call=call,
        answers=answers,
        ask=around.ask,
        hide=secrets,
        idempotency_key="c1.event_1",
        conversation="c1",
        root=around.root,
        limits=around.limits,
        deps=around.deps,
    )


def execute(
    tool: Tool,
    arguments: Json,
    answers: Mapping[str, Json | SecretValue] = {},
    around: ToolEnvironment | None = None,
) -> Outcome:
    """Run `tool` once in a new event loop."""

    async def once() -> Outcome:
        return (await tool_runs.execute(tool, tool_run(tool, arguments, answers, around))).outcome

    return asyncio.run(once())
