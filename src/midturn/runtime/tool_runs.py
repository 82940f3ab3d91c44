"""Runs tools. Handles their questions, secrets and nested agents, and returns each outcome as one
input.
"""

from __future__ import annotations

import asyncio
import itertools
import logging
from collections.abc import Awaitable, Callable, Mapping, Sequence
from copy import deepcopy
from functools import partial

from msgspec import Struct
from msgspec.structs import replace

from midturn.errors import DepsMissing, MidturnError, NotAnswered, QuestionError
from midturn.events.outcome import NeedsInput, Outcome, Success, ToolError
from midturn.events.types import USER, Child, Source
from midturn.ports import Tool, ToolRun
from midturn.question.form import Form
from midturn.question.json_value import Json
from midturn.runtime.asked_forms import allowed_to_ask, checked_form
from midturn.runtime.call_state import CallSecrets, CallState
from midturn.runtime.call_values import checked_value
from midturn.runtime.loop_thread import is_cancelled
from midturn.runtime.nesting import PARENT_CALL, NestingContext, ParentCall
from midturn.runtime.stepper import Stepper
from midturn.tools.names import source_of
from midturn.tools.returned import Rejected, deliverable, failure
from midturn.turn import inputs as steps
from midturn.turn.call_record import CallRecord
from midturn.turn.ending import TurnEnding

_LOG = logging.getLogger("midturn.tools")


# One run of a tool, and the checks of its outcome before it is recorded
# ---------------------------------------------------


class Executed(Struct, frozen=True):
    """The result of one run of a tool.

    Args:
        outcome: The outcome.
        exception: The exception that the tool raised, unless it is a `Rejected`.
        source: Source of the questions that the tool returned.
    """

    outcome: Outcome
    exception: BaseException | None = None
    source: Source = USER


async def execute(tool: Tool, run: ToolRun) -> Executed:
    """Run a tool once.

    Secrets given in the call are removed from the outcome, and a form in the outcome is checked.
    """
    try:
        returned = _checked_outcome(run, await tool.execute(run))
        source = source_of(tool) if isinstance(returned, NeedsInput) else USER
    except DepsMissing:
        # the error is in the program and not in the tool, so an approval of the call stays valid
        raise
    except asyncio.CancelledError as error:
        if is_cancelled():
            raise
        return failed(run, _cancelled_itself(error))
    except (
        Exception,  # noqa: BLE001  a caller's code: the model is told, and the turn goes on
        SystemExit,
    ) as error:
        return failed(run, error)
    return Executed(deliverable(returned, run), source=source)


def failed(run: ToolRun, error: BaseException) -> Executed:
    """Log an exception of a tool, and return it as an outcome."""
    outcome = failure(error, run.hide)
    if isinstance(error, Rejected | NotAnswered):
        return Executed(deliverable(outcome, run))
    name = run.call.name
    if failure(error, str) == outcome:
        _LOG.error("The tool %r failed: %s", name, outcome.message, exc_info=error)
        return Executed(deliverable(outcome, run), error)
    _LOG.error(
        "The tool %r failed: %s\n%s", name, outcome.message, "\n".join(outcome.trace)
    )  # the exception itself contains a secret
    return Executed(deliverable(outcome, run), MidturnError(outcome.message))


def _cancelled_itself(error: BaseException) -> Exception:
    """Return the failure of a tool that cancelled itself."""
    stopped = RuntimeError("it stopped without a result, because it cancelled itself")
    stopped.__cause__ = error
    return stopped


def _checked_outcome(run: ToolRun, outcome: object) -> Outcome:
    name = run.call.name
    match outcome:
        case Success(content=str()) | ToolError(message=str()):
            return outcome
        case Success(content=given) | ToolError(message=given):
            kind = type(outcome).__name__
            return ToolError(
                f"{name} returned a `{kind}` of a `{type(given).__name__}`; the model can only read"
                " text."
            )
        case NeedsInput(Form() as form):
            return _checked_form(run, form)
        case NeedsInput(asked):
            return ToolError(
                f"{name} returned `NeedsInput` with a `{type(asked).__name__}`; it takes a `Form`."
            )
        case _:
            kind = type(outcome).__name__
            return ToolError(
                f"{name} returned a `{kind}`; `execute` returns `Success`, `ToolError` or"
                " `NeedsInput`."
            )


def _checked_form(run: ToolRun, form: Form) -> Outcome:
    try:
        return NeedsInput(checked_form(form, run.limits, run.hide))
    except QuestionError as error:
        return ToolError(f"{run.call.name} returned a question that cannot be asked:\n{error}")


# All tools that run
# --------------------------------------------------------------------------------------------------


class ToolRuns:
    """The tools that run in a driver.

    Args:
        tools: The tools, by name.
        state: Secrets and checks of the calls.
        nesting: The settings that nested agents inherit. None if agents cannot be nested.
        conversation: The conversation ID.
        stepper: Receives the questions of the tools.
        calls: The recorded calls, by `event_id`.
    """

    def __init__(
        self,
        tools: Mapping[str, Tool],
        state: CallState,
        nesting: NestingContext | None,
        conversation: str,
        stepper: Stepper,
        calls: Mapping[str, CallRecord],
    ) -> None:
        self._tools = tools
        self._state = state
        self._nesting = nesting
        self._conversation = conversation
        self._stepper = stepper
        self._calls = calls
        self._parents: dict[str, ParentCall] = {}
        """The running calls that can contain nested agents, by `event_id`."""
        self._exceptions: dict[str, BaseException] = {}
        self._asks: dict[tuple[str, int], asyncio.Future[steps.Given]] = {}
        """The `ctx.ask` calls that wait for answers, by call and number."""
        self._keeps: dict[int, asyncio.Future[None]] = {}
        """The `ctx.keep` calls whose values are not durable yet, by number."""
        self._keep_numbers = itertools.count(1)

    def answer(self, effect: steps.GiveAnswers) -> None:
        """Pass the answers to the coroutine that asked, unless it no longer waits."""
        self._state.secrets(effect.call).learn(effect.answers.values())
        future = self._asks.pop((effect.call, effect.ask), None)
        if future and not future.done():
            future.set_result(effect.answers)

    def confirm(self, effect: steps.ConfirmValue) -> None:
        """Resume a coroutine after its value was recorded."""
        future = self._keeps.get(effect.number)
        if future and not future.done():
            future.set_result(None)

    def exception(self, call: str) -> BaseException | None:
        """Return the exception that the tool of a call raised, if any."""
        return self._exceptions.pop(call, None)

    async def run(self, effect: steps.RunTool) -> steps.ToolDone | steps.ToolReturned:
        """Run a tool with the answers so far, and return its outcome as an input."""
        call, answers = effect.call, effect.answers
        tool = self._tools[call.name]
        limits, secrets = self._state.limits, self._state.secrets(call.event)
        secrets.learn(answers.values())
        numbers = itertools.count(1)
        who: Source | None = None
        is_over = False

        def ask(asking: steps.FormWanted) -> Awaitable[steps.Given]:
            """Ask a form with the tool as its source."""
            nonlocal who
            if is_over:
                raise RuntimeError(
                    f"This run of {call.name} is over: a task that it has left behind cannot ask"
                    " any more."
                )
            who = who or source_of(tool)
            return self._ask(
                steps.ToolAwaits(
                    call.event, next(numbers), allowed_to_ask(who, asking, limits, secrets)
                ),
                secrets,
            )

        async def keep(name: str, value: Json) -> Json:
            """Store a value for later runs of the call."""
            if is_over:
                raise RuntimeError(
                    f"This run of {call.name} is over: a task that it has left behind cannot keep"
                    " values any more."
                )
            checked = checked_value(name, value, limits, secrets)
            await self._keep(call.event, name, checked)
            return checked

        record = self._calls.get(call.event)
        run = replace(
            self._state.tool_run(call, answers, ask),
            queued=partial(self._queued, call.event),
            unanswered=effect.unanswered,
            keep=keep,
            kept=deepcopy(record.values) if record else {},
        )
        parent = self._enter(call.event)
        try:
            executed = await execute(tool, run)
            if parent and not parent.is_over and not isinstance(executed.outcome, NeedsInput):
                await parent.leave(self._children(call.event), executed.exception)
        finally:
            is_over = True
            if parent:
                if not parent.close():
                    await parent.stop()
                if self._parents.get(call.event) is parent:
                    del self._parents[call.event]
            abandoned = self._cancel_asks(call.event)
        match executed.outcome:
            case NeedsInput(form):
                for number in abandoned:
                    self._stepper.report(steps.FormDropped(call.event, number))
                return steps.ToolReturned(call.event, steps.FormWanted(form, executed.source))
            case outcome:
                if executed.exception:
                    self._exceptions[call.event] = executed.exception
                del executed  # a reference cycle: the exception refers to this frame
                return steps.ToolDone(call.event, outcome)

    def _queued(self, call: str, ahead: Sequence[str]) -> None:
        self._stepper.report(steps.ToolQueued(call, tuple(ahead)))

    async def _ask(self, asked: steps.ToolAwaits, secrets: CallSecrets) -> steps.Given:
        given = self._stepper.ask(asked)
        if given is not None:
            secrets.learn(given.values())
            return given
        self._asks[asked.call, asked.ask] = future = asyncio.get_running_loop().create_future()
        try:
            return await future
        except asyncio.CancelledError:
            if self._asks.pop((asked.call, asked.ask), None):
                self._stepper.report(steps.FormDropped(asked.call, asked.ask))
            raise

    async def _keep(self, call: str, name: str, value: Json) -> None:
        number = next(self._keep_numbers)
        self._keeps[number] = future = asyncio.get_running_loop().create_future()
        try:
            self._stepper.report(steps.ValueKept(call, number, name, value))
            await future
        finally:
            del self._keeps[number]

    def _cancel_asks(self, call: str) -> list[int]:
        """Cancel a finished tool's tasks that still wait for answers. Return the numbers of their
        `ctx.ask` calls.
        """
        abandoned = [number for of_call, number in self._asks if of_call == call]
        for number in abandoned:
            self._asks.pop((call, number)).cancel()
        return abandoned

    # Agents inside tools
    # ----------------------------------------------------------------------------------------------

    def start_child(self, effect: steps.RunChild) -> None:
        """Start a nested turn after it was recorded."""
        parent = self._parents.get(effect.child.call)
        if parent:
            parent.recorded(effect.number, effect.child)

    async def end_children(self, ending: TurnEnding, stop: Callable[[str], object]) -> None:
        """Stop every nested turn, and end it like its outer turn. `stop` is called to stop the tool
        of a call.
        """
        for call, parent in list(self._parents.items()):
            stop(call)
            await parent.stop()
            await parent.nesting.end(self._children(call), ending)

    def _enter(self, call: str) -> ParentCall | None:
        """Set this tool run as the parent of agents that run inside it."""
        if self._nesting is None:
            return None
        parent = ParentCall(self._nesting, self._conversation, call, self._stepper.report)
        PARENT_CALL.set(parent)
        self._parents[call] = parent
        return parent

    def _children(self, call: str) -> list[Child]:
        """Return the recorded nested turns of a call."""
        record = self._calls.get(call)
        return [child.began for child in record.children.values()] if record else []
