"""The tools that run now: one task a run, one future an `await ctx.ask`."""

from __future__ import annotations

import asyncio
import itertools
import traceback
from collections.abc import Callable, Coroutine, Mapping
from functools import partial
from typing import Any, TypeAlias

from midturn.core.form import Form
from midturn.core.json_value import Json
from midturn.core.outcome import NeedsInput, Outcome, Success, ToolError
from midturn.core.prompt import ToolCall
from midturn.core.secret import SecretValue
from midturn.core.turn.effects import GiveAnswers, Given, RunTool
from midturn.core.turn.inputs import AskDropped, Asking, Happened, ToolAsked, ToolFinished
from midturn.ports import Tool, ToolRun
from midturn.runtime.cancelling import is_cancelled
from midturn.runtime.surroundings import Surroundings

Spawn: TypeAlias = Callable[[Coroutine[Any, Any, None]], asyncio.Task[None]]


class ToolRuns:
    """Runs tools, and reports what they ask and what they end in."""

    def __init__(self, tools: Mapping[str, Tool], surroundings: Surroundings, report: Callable[[Happened], None]) -> None:
        self._tools = tools
        self._surroundings = surroundings
        self._report = report
        self._tasks: dict[str, asyncio.Task[None]] = {}
        self._asks: dict[tuple[str, int], asyncio.Future[Given]] = {}

    def start(self, effect: RunTool, spawn: Spawn) -> None:
        """Run a tool with the answers so far."""
        self._tasks[effect.call.event] = spawn(self._run(effect.call, effect.answers))

    def answer(self, effect: GiveAnswers) -> None:
        """Resolve one ask of a running tool, unless the tool gave it up meanwhile."""
        future = self._asks.pop((effect.call, effect.ask), None)
        if future and not future.done():
            future.set_result(effect.answers)

    def stop(self, call: str) -> None:
        """Cancel a running tool: its `finally` blocks run, its result is dropped."""
        task = self._tasks.pop(call, None)
        if task:
            task.cancel()

    async def _run(self, call: ToolCall, answers: Mapping[str, Json | SecretValue]) -> None:
        tool = self._tools[call.name]
        run = self._surroundings.of_run(call, answers, partial(self._ask, call.event, itertools.count(1)))
        try:
            outcome = await self._execute(tool, run)
        finally:
            self._end_asks(call.event)
        match _checked(call.name, outcome):
            case NeedsInput(form):
                self._report(ToolAsked(call.event, 0, Asking(form, tool.inquiry_source())))
            case outcome:
                self._report(ToolFinished(call.event, outcome))

    def _end_asks(self, call: str) -> None:
        """Cancel whoever still waits for answers in a run that is over: tasks that the tool left behind."""
        for key in [key for key in self._asks if key[0] == call]:
            self._asks.pop(key).cancel()

    async def _execute(self, tool: Tool, run: ToolRun) -> Outcome:
        """Run the tool; whatever it raises is its error, unless it was stopped."""
        try:
            return await tool.execute(run)
        except asyncio.CancelledError:
            if is_cancelled():
                raise
            return ToolError(f"{run.call.name} stopped without a result.")
        except Exception as error:  # noqa: BLE001  a tool is anybody's code: the model is told, and the turn goes on
            trace = tuple(traceback.format_exception(error))
            return ToolError(f"{run.call.name} failed: {type(error).__name__}: {error}", trace)

    async def _ask(self, call: str, numbers: itertools.count[int], asking: Asking) -> Given:
        number = next(numbers)
        self._asks[call, number] = future = asyncio.get_running_loop().create_future()
        self._report(ToolAsked(call, number, asking))
        try:
            return await future
        except asyncio.CancelledError:
            if self._asks.pop((call, number), None):
                self._report(AskDropped(call, number))
            raise


def _checked(name: str, outcome: object) -> Outcome:
    """Return what a tool ended in: whoever wrote the tool, it is an outcome."""
    match outcome:
        case Success() | ToolError() | NeedsInput(Form()):
            return outcome
        case NeedsInput(asked):
            return ToolError(f"{name} returned `NeedsInput` with a `{type(asked).__name__}`; it takes a `Form`.")
        case _:
            kind = type(outcome).__name__
            return ToolError(f"{name} returned a `{kind}`; `execute` returns `Success`, `ToolError` or `NeedsInput`.")
