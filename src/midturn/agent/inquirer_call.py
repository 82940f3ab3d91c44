"""One call of a tool in a loop that is not ours."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Mapping
from contextvars import ContextVar
from typing import Any, TypeVar, cast

from msgspec.structs import replace

from midturn.errors import CallEnded, ConfigError, MidturnError, Suspended
from midturn.events.outcome import NeedsInput, Outcome, Success, ToolError
from midturn.events.types import Source
from midturn.ports import Tool, ToolRun
from midturn.question.form import Form
from midturn.question.json_value import JsonObject, json_problem
from midturn.question.text import check_text
from midturn.runtime.external_loop import CallContent, ForeignCall, ForeignTurn
from midturn.runtime.tool_runs import execute, failed
from midturn.tools.asking import CallContext, ToolContext
from midturn.tools.call_scope import CallLife, UnaskedError
from midturn.tools.names import name_problem
from midturn.tools.returned import deliverable, outcome_of
from midturn.turn.step import Given, OnFailure

T = TypeVar("T")


class CallUnfinished(Exception):  # noqa: N818  it is no error of its own: it carries one out of a call
    """Raised by an adapter's function: leave the call without a result, to be made again, and raise `error` to the framework."""

    def __init__(self, error: BaseException) -> None:
        super().__init__(str(error))
        self.error = error


class InquirerCall(CallContext):
    """One call of a tool, and its ways to ask: `ask`, `ask_form`, `try_ask`, and their `_sync` forms for functions in a thread.

    It is made by `Inquirer.run` and `Inquirer.call`. Where there is no answer, an ask raises `Suspended` (a person may answer later) or
    `CallEnded` (the call is over).
    """

    def __init__(self, source: Source, turn: ForeignTurn, call: ForeignCall) -> None:
        self._turn = turn
        self._call = call
        super().__init__(CallLife(), call.run.result().checks)
        self._given_up: list[asyncio.Task[Any]] = []
        self._asking = 0
        self.context: ToolContext[object] = ToolContext(call.run.result(), source, self._life)
        """The context of this call, as a tool of ours has it: `arguments`, `answers`, `idempotency_key`."""
        self.outcome: Success | ToolError = Success("")
        """The end of the call, once it has one."""
        self._stopped_by: MidturnError | None = None

    @property
    def idempotency_key(self) -> str:
        """The same whenever this call is made again."""
        return self.context.idempotency_key

    @property
    def event(self) -> str:
        """The `event_id` of the call."""
        return self._call.event

    def is_of(self, turn: ForeignTurn) -> bool:
        """Say whether it is a call of this turn that has not ended.

        Args:
            turn: The turn.
        """
        return self._turn is turn and not self._life.ended

    async def _given(self, form: Form, on_failure: OnFailure, problem: str | None = None) -> Given:
        return await self._answered(self.context.given(form, on_failure, problem))

    def finish(self, result: object) -> str:
        """Say what the tool returned (text, JSON, `Success`, `ToolError`); return what the model is to read, as it will be recorded.

        A secret that was given in this call is not in it, and it is not longer than `limits.tool_output`.

        Args:
            result: What the tool returned.
        """
        outcome = outcome_of(result)
        if isinstance(outcome, NeedsInput):
            raise TypeError("A result is not a question. Ask with `await call.ask(…)` or `call.ask_form(…)`.")
        self.outcome = cast("Success | ToolError", deliverable(outcome, self._call.run.result()))
        return self._turn.preview(self._call.event, self.outcome)

    async def execute(self, tool: Tool, deps: object = None) -> Success | ToolError:
        """Run a tool of ours as this call: what it asks is asked here, and what it ends in is the call's result, which is returned.

        Args:
            tool: The tool.
            deps: What it finds as `ctx.deps`.

        Raises:
            Suspended: No one is there to answer now; the tool was cancelled.
            CallEnded: There is no answer, and the call is over; the tool was cancelled.
        """
        run = replace(self._call.run.result(), deps=deps)
        while True:
            outcome = await self._executed(tool, run)
            if not isinstance(outcome, NeedsInput):
                self.outcome = outcome
                return outcome
            await self.ask_form(outcome.form)
            run = replace(run, answers=dict(self.context.answers))

    async def _executed(self, tool: Tool, run: ToolRun) -> Outcome:
        return (await self._unless_stopped(asyncio.create_task(execute(tool, run)))).outcome

    async def fail(self, error: Exception) -> CallContent:
        """Record what the block raised as the tool's error, without the secrets that it was given.

        Args:
            error: What was raised.
        """
        return await self.end(failed(self._call.run.result(), error).outcome)

    def log_failure(self, error: Exception) -> None:
        """Log what the tool raised, without the secrets that it was given, where the model is to read something else.

        Args:
            error: What was raised.
        """
        failed(self._call.run.result(), error)

    async def end(self, outcome: Outcome) -> CallContent:
        """Record the result, durably; what was asked and given up is superseded with it. Return what the model is to read.

        Args:
            outcome: What the call came to.
        """
        self._call.finish(outcome)
        await self._turn.finished(self._call)
        return self._turn.content(self._call.event)

    def refuse_unasked(self) -> None:
        """Refuse an ask that was never awaited.

        Raises:
            UnaskedError: Something was.
        """
        if self._life.unasked:
            raise UnaskedError(self._life.unasked)

    def refuse_going_on(self) -> None:
        """See to it that what had to stop has stopped, also where a framework or a tool has caught what an ask raised.

        Raises:
            Suspended: An ask of this call has raised it.
            CallEnded: As above.
        """
        if self._stopped_by:
            raise self._stopped_by

    def leave(self) -> None:
        """Go away: a call without a result stays unfinished, to be made again."""
        self._life.ended = True
        self._turn.leave(self._call)
        self._give_up()

    async def _answered(self, asking: Coroutine[Any, Any, T]) -> T:
        """Wait for an answer, or for the end of the call.

        An ask that is cancelled is kept, for the block may be leaving its call open; it is given up as soon as the call asks on.
        """
        if self._life.ended:
            asking.close()
            raise RuntimeError("This call is over. Ask inside its block: `async with inquirer.call(…) as call: await call.ask(…)`.")
        self._give_up()
        task = asyncio.create_task(asking)
        self._asking += 1
        try:
            return await self._unless_stopped(asyncio.shield(task))
        except asyncio.CancelledError:
            self._given_up.append(task)
            asyncio.get_running_loop().call_soon(self._give_up_if_others_wait)
            raise
        except (Suspended, CallEnded):
            task.cancel()
            raise
        finally:
            self._asking -= 1

    async def _unless_stopped(self, work: asyncio.Future[T]) -> T:
        """Wait for something that goes on inside the call, or cancel it with the call.

        Raises:
            Suspended: The turn waits for an absent person.
            CallEnded: The call is over.
        """
        stopped = asyncio.create_task(self._call.stopped.wait())
        try:
            await asyncio.wait({work, stopped}, return_when=asyncio.FIRST_COMPLETED)
        except asyncio.CancelledError:
            work.cancel()
            raise
        finally:
            stopped.cancel()
        if not self._call.stopped.is_set():
            return work.result()
        work.cancel()
        await asyncio.wait({work})
        self._stopped_by = await self._turn.why_stopped(self._call)
        raise self._stopped_by

    def _give_up_if_others_wait(self) -> None:
        """Those who ask at the same time are next: what was cancelled before them would stand in their way."""
        if self._asking:
            self._give_up()

    def _give_up(self) -> None:
        """Give up for good what was cancelled before: the call goes on without these answers."""
        for task in self._given_up:
            task.cancel()
        self._given_up = []


OUTER: ContextVar[InquirerCall | None] = ContextVar("midturn_outer_call", default=None)
"""The call in which the code runs, if there is one: a call that is made there waits for people together with it."""


def check_call(tool: str, call_id: str, arguments: JsonObject | None, depth_limit: int) -> None:
    """Refuse what is not a call.

    Raises:
        ConfigError: The tool's name, the id or the arguments cannot be used.
    """
    problem = name_problem(tool)
    if problem:
        raise ConfigError(problem)
    if call_id is not None:  # type: ignore[redundant-expr]  # None is nothing, as an empty one is
        check_text("call_id", call_id)
    if not call_id:
        raise ConfigError(f"The call of `{tool}` has no id. Pass the one that the model gave it.")
    if not isinstance(cast("object", arguments), Mapping | None):
        raise ConfigError(f"The arguments of `{tool}` are a `{type(arguments).__name__}`; they are a JSON object.")
    broken = json_problem(arguments, depth_limit)
    if broken:
        raise ConfigError(f"The arguments of `{tool}`: {broken}")
