"""The tools that run now: one task a run, one future an `await ctx.ask`."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Callable, Coroutine, Mapping, Sequence
from functools import partial
from typing import Any, TypeAlias

from msgspec.structs import replace

from midturn.ports import Tool
from midturn.record.events import Child
from midturn.record.outcome import NeedsInput
from midturn.runtime.executing import execute, may_be_asked
from midturn.runtime.nesting import OUTER, OuterCall
from midturn.runtime.surroundings import Surroundings
from midturn.turn.effects import GiveAnswers, Given, RunChild, RunTool
from midturn.turn.inputs import FormDropped, FormWanted, Happened, ToolAwaits, ToolDone, ToolQueued, ToolReturned
from midturn.turn.state import Ending

Spawn: TypeAlias = Callable[[Coroutine[Any, Any, None]], asyncio.Task[None]]


class ToolRuns:
    """Runs tools, and reports what they ask and what they end in."""

    def __init__(
        self,
        tools: Mapping[str, Tool],
        surroundings: Surroundings,
        report: Callable[[Happened], None],
        children: Callable[[str], Sequence[Child]],
    ) -> None:
        """Run tools; `children` says which turns inside of a call are on record."""
        self._tools = tools
        self._children = children
        self._outer: dict[str, OuterCall] = {}
        self._surroundings = surroundings
        self._report = report
        self._secrets = surroundings.secrets
        self._exceptions: dict[str, BaseException] = {}
        self._tasks: dict[str, asyncio.Task[None]] = {}
        self._asks: dict[tuple[str, int], asyncio.Future[Given]] = {}

    def start(self, effect: RunTool, spawn: Spawn) -> None:
        """Run a tool with the answers so far."""
        self._tasks[effect.call.event] = spawn(self._run(effect))

    def answer(self, effect: GiveAnswers) -> None:
        """Resolve one ask of a running tool, unless the tool gave it up meanwhile."""
        self._secrets.of(effect.call).learn(effect.answers.values())
        future = self._asks.pop((effect.call, effect.ask), None)
        if future and not future.done():
            future.set_result(effect.answers)

    def stop(self, call: str) -> None:
        """Cancel a running tool: its `finally` blocks run, its result is dropped."""
        task = self._tasks.pop(call, None)
        if task:
            task.cancel()

    def exception(self, call: str) -> BaseException | None:
        """Return what the tool of a call raised, if it did."""
        return self._exceptions.pop(call, None)

    async def _run(self, effect: RunTool) -> None:
        call, answers = effect.call, effect.answers
        tool = self._tools[call.name]
        limits, hide = self._surroundings.limits, self._secrets.of(call.event)
        hide.learn(answers.values())
        numbers = itertools.count(1)
        is_over = False

        async def ask(asking: FormWanted) -> Given:
            """Ask what the tool may ask, in its own name."""
            if is_over:
                raise RuntimeError(f"This run of {call.name} is over: a task that it has left behind cannot ask any more.")
            return await self._ask(call.event, next(numbers), may_be_asked(tool, asking, limits, hide))

        run = replace(self._surroundings.of_run(call, answers, ask), queued=partial(self._queued, call.event), unanswered=effect.unanswered)
        outer = self._enter(call.event)
        try:
            executed = await execute(tool, run)
            if outer and not outer.is_over and not isinstance(executed.outcome, NeedsInput):
                await outer.leave(self._children(call.event), executed.exception)
        finally:
            is_over = True
            if outer:
                await outer.stop()
                if self._outer.get(call.event) is outer:
                    del self._outer[call.event]
            left = self._end_asks(call.event)
            if self._tasks.get(call.event) is asyncio.current_task():
                del self._tasks[call.event]
        match executed.outcome:
            case NeedsInput(form):
                for number in left:
                    self._report(FormDropped(call.event, number))
                self._report(ToolReturned(call.event, FormWanted(form, executed.source)))
            case outcome:
                if executed.exception:
                    self._exceptions[call.event] = executed.exception
                self._report(ToolDone(call.event, outcome))
        del executed  # what the tool raised holds this frame

    def _queued(self, call: str, ahead: Sequence[str]) -> None:
        self._report(ToolQueued(call, tuple(ahead)))

    def _enter(self, call: str) -> OuterCall | None:
        """Let agents that run inside this run of a tool find it."""
        if self._surroundings.nest is None:
            return None
        outer = OuterCall(self._surroundings.nest, self._surroundings.conversation, call, self._report)
        OUTER.set(outer)
        self._outer[call] = outer
        return outer

    def child(self, effect: RunChild) -> None:
        """Let an agent inside a tool run the turn that it wants."""
        outer = self._outer.get(effect.child.call)
        if outer:
            outer.recorded(effect.number, effect.child)

    async def stop_children(self, ending: Ending) -> None:
        """Stop every turn inside of tools, and end it as the one around it ends."""
        for call, outer in list(self._outer.items()):
            self.stop(call)
            await outer.stop()
            await outer.nest.end(self._children(call), ending)

    def _end_asks(self, call: str) -> list[int]:
        """Cancel the tasks that the tool left behind, and that still wait for answers although the run is over. Return their asks."""
        left = [number for of_call, number in self._asks if of_call == call]
        for number in left:
            self._asks.pop((call, number)).cancel()
        return left

    async def _ask(self, call: str, number: int, asking: FormWanted) -> Given:
        self._asks[call, number] = future = asyncio.get_running_loop().create_future()
        self._report(ToolAwaits(call, number, asking))
        try:
            return await future
        except asyncio.CancelledError:
            if self._asks.pop((call, number), None):
                self._report(FormDropped(call, number))
            raise
