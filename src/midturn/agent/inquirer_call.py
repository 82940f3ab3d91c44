"""`InquirerCall`: one tool call in an agent loop outside of midturn."""

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
from midturn.runtime.external_loop import CallContent, ExternalLoopCall, ExternalLoopTurn
from midturn.runtime.tool_runs import execute, failed
from midturn.tools.asking import CallContext, ToolContext
from midturn.tools.call_scope import CallScope, UnaskedError
from midturn.tools.names import name_problem
from midturn.tools.returned import deliverable, outcome_of
from midturn.turn.inputs import Given, OnFailure

T = TypeVar("T")


class CallUnfinished(Exception):  # noqa: N818  carries another error out of a call
    """Raised by an adapter's function to leave a call without a result, so that it can be repeated.
    The framework receives `error`.
    """

    def __init__(self, error: BaseException) -> None:
        super().__init__(str(error))
        self.error = error


class InquirerCall(CallContext):
    """A tool call that can ask questions: `ask`, `ask_form`, `try_ask`, and their `_sync` forms for
    functions in a thread.

    Created by `Inquirer.run` and `Inquirer.call`. If there is no answer, these methods raise
    `Suspended` (a person may answer later) or `CallEnded` (the call is over).
    """

    def __init__(self, source: Source, turn: ExternalLoopTurn, call: ExternalLoopCall) -> None:
        self._turn = turn
        self._call = call
        super().__init__(CallScope(), call.run.result().checks)
        self._cancelled_asks: list[asyncio.Task[Any]] = []
        self._waiting_asks = 0
        self.context: ToolContext[object] = ToolContext(call.run.result(), source, self._life)
        """Context of this call, as midturn's own tools receive it: `arguments`, `answers`,
        `idempotency_key`.
        """
        self.outcome: Success | ToolError = Success("")
        """Outcome of the call, after it has ended."""
        self._stop_error: MidturnError | None = None

    @property
    def idempotency_key(self) -> str:
        """A key that stays the same if the call is repeated."""
        return self.context.idempotency_key

    @property
    def event(self) -> str:
        """The `event_id` of the call."""
        return self._call.event

    def is_of(self, turn: ExternalLoopTurn) -> bool:
        """Return whether this is an unfinished call of a turn.

        Args:
            turn: The turn.
        """
        return self._turn is turn and not self._life.ended

    async def _given(
        self,
        form: Form,
        on_failure: OnFailure,
        problem: str | None = None,
        on_behalf_of: str | None = None,
    ) -> Given:
        return await self._wait_for_answer(
            self.context.given(form, on_failure, problem, on_behalf_of)
        )

    def finish(self, result: object) -> str:
        """Set the result of the tool (text, JSON, `Success` or `ToolError`). Return the recorded
        text for the model.

        Secrets that were given in this call are removed from the text. The length of the text is
        limited to `limits.tool_output`.

        Args:
            result: Result of the tool.
        """
        outcome = outcome_of(result)
        if isinstance(outcome, NeedsInput):
            raise TypeError(
                "A result is not a question. Ask with `await call.ask(…)` or `call.ask_form(…)`."
            )
        self.outcome = cast("Success | ToolError", deliverable(outcome, self._call.run.result()))
        return self._turn.preview(self._call.event, self.outcome)

    async def execute(self, tool: Tool, deps: object = None) -> Success | ToolError:
        """Run a midturn tool as this call. Its questions are asked in this call, and its outcome is
        returned.

        Args:
            tool: The tool.
            deps: Value of `ctx.deps` in the tool.

        Raises:
            Suspended: No one is attached to answer. The tool was cancelled.
            CallEnded: A question was not answered and the call is over. The tool was cancelled.
        """
        run = replace(self._call.run.result(), deps=deps)
        while True:
            outcome = await self._execute(tool, run)
            if not isinstance(outcome, NeedsInput):
                self.outcome = outcome
                return outcome
            await self.ask_form(outcome.form)
            run = replace(run, answers=dict(self.context.answers))

    async def _execute(self, tool: Tool, run: ToolRun) -> Outcome:
        return (await self._until_stopped(asyncio.create_task(execute(tool, run)))).outcome

    async def fail(self, error: Exception) -> CallContent:
        """Record an exception of the block as the tool's error. Secrets are removed.

        Args:
            error: The exception.
        """
        return await self.end(failed(self._call.run.result(), error).outcome)

    def log_failure(self, error: Exception) -> None:
        """Log an exception of the tool. Secrets are removed. For adapters that return another text
        to the model.

        Args:
            error: The exception.
        """
        failed(self._call.run.result(), error)

    async def end(self, outcome: Outcome) -> CallContent:
        """Record the result durably and close the remaining questions of the call. Return the text
        for the model.

        Args:
            outcome: Outcome of the call.
        """
        self._call.finish(outcome)
        await self._turn.finished(self._call)
        return self._turn.content(self._call.event)

    def refuse_unasked(self) -> None:
        """Raise an error if a call of `ask` was never awaited.

        Raises:
            UnaskedError: A call of `ask` was not awaited.
        """
        if self._life.unasked:
            raise UnaskedError(self._life.unasked)

    def refuse_going_on(self) -> None:
        """Re-raise the error that stopped the call, because a framework or a tool may have caught
        it.

        Raises:
            Suspended: A question of this call raised it.
            CallEnded: A question of this call raised it.
        """
        if self._stop_error:
            raise self._stop_error

    def leave(self) -> None:
        """Release the call. A call without a result stays unfinished and can be repeated."""
        self._life.ended = True
        self._turn.leave(self._call)
        self._close_cancelled_asks()

    async def _wait_for_answer(self, coroutine: Coroutine[Any, Any, T]) -> T:
        """Wait for an answer, or for the end of the call.

        A cancelled question is not closed immediately, because the block may be about to leave the
        call open. It is closed when the call asks again.
        """
        if self._life.ended:
            coroutine.close()
            raise RuntimeError(
                "This call is over. Ask inside its block: `async with inquirer.call(…) as call:"
                " await call.ask(…)`."
            )
        self._close_cancelled_asks()
        task = asyncio.create_task(coroutine)
        self._waiting_asks += 1
        try:
            return await self._until_stopped(asyncio.shield(task))
        except asyncio.CancelledError:
            self._cancelled_asks.append(task)
            asyncio.get_running_loop().call_soon(self._close_cancelled_asks_if_waiting)
            raise
        except (Suspended, CallEnded):
            task.cancel()
            raise
        finally:
            self._waiting_asks -= 1

    async def _until_stopped(self, work: asyncio.Future[T]) -> T:
        """Wait for a future, or cancel it when the call is stopped.

        Raises:
            Suspended: The turn waits for a person who is not attached.
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
        self._stop_error = await self._turn.why_stopped(self._call)
        raise self._stop_error

    def _close_cancelled_asks_if_waiting(self) -> None:
        """Close cancelled questions if the call has other open questions. Otherwise, those would be
        shown only after the cancelled ones.
        """
        if self._waiting_asks:
            self._close_cancelled_asks()

    def _close_cancelled_asks(self) -> None:
        """Close the questions whose `ask` was cancelled. The call continues without answers."""
        for task in self._cancelled_asks:
            task.cancel()
        self._cancelled_asks = []


OUTER: ContextVar[InquirerCall | None] = ContextVar("midturn_outer_call", default=None)
"""The call in which the code runs, if any. A nested call waits for people together with this
call.
"""


def check_call(tool: str, call_id: str, arguments: JsonObject | None, depth_limit: int) -> None:
    """Raise an error if a call is invalid.

    Raises:
        ConfigError: The tool's name, the id or the arguments are invalid.
    """
    problem = name_problem(tool)
    if problem:
        raise ConfigError(problem)
    if call_id is not None:  # type: ignore[redundant-expr]  # None is reported below, like an empty id
        check_text("call_id", call_id)
    if not call_id:
        raise ConfigError(f"The call of `{tool}` has no id. Pass the id that the model gave it.")
    if not isinstance(cast("object", arguments), Mapping | None):
        raise ConfigError(
            f"The arguments of `{tool}` must be a JSON object, got a `{type(arguments).__name__}`."
        )
    invalid = json_problem(arguments, depth_limit)
    if invalid:
        raise ConfigError(f"The arguments of `{tool}`: {invalid}")
