"""Runs one turn: performs the steps of its state machine in order.

Theory of operation
===================

The state machine decides, and the driver acts. Each input steps the machine immediately
(`runtime/stepper.py`). The driver's loop takes one step after the other, makes the events of the
step durable as one batch, and then begins its other effects.

**Effects that take time** are async functions that return one input. The driver keeps these tasks
in one table, and passes the input that each returns to the state machine:

| effect | function | returns | key |
| --- | --- | --- | --- |
| `CallModel` | `call_model` | `ModelAnswered`, `ModelFailed`, `TurnFailed` | `("model",)` |
| `RunTool` | `ToolRuns.run` | `ToolDone`, `ToolReturned` | `("tool", call)` |
| `PromptUser` | `PrompterClient.ask` | `UserReplied`, `PromptFailed`, `TurnFailed` | `("prompt", id)` |
| `ConsultAssistant` | `ask_model` | `AssistantReplied`, `AssistantFailed` | `("assistant", id)` |
| a deadline of an event | `_wait_until` | `TimePassed` | `("deadline", deadline)` |
| a limit of seconds | `_work_for` | `TimeIsUp` | `("limit",)` |

`StopModel`, `StopTool`, `ClosePrompt` and `StopAssistant` cancel the task with the key.
`ExternalAnswers.listen` is the only task that runs until it is cancelled. It is started when the
run would otherwise wait, because most turns do not need it.

**After a crash.** The effects of a step begin only after its events are durable. If the
process dies earlier, the log contains the turn as it was before the step. If it dies later, an
effect may have begun without reporting its result, and the next run begins it again. A tool may
therefore run twice, but an answer is never lost.

**When a turn is suspended.** If only absent people can continue the turn, and the event loop is
idle (`Stepper.wait_until_idle`), the turn is suspended. A nested turn waits with its outer turn
instead.

**How a run ends.** A run ends with an effect (`SuspendTurn`, `LeaveOpen` or `EndTurn`), which is
the last of its step. The remaining tasks are cancelled, because a task group waits for its tasks.
If a batch cannot be written, the run raises an exception, and no later effect begins.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Iterable, Sequence
from functools import cache, cached_property, partial
from typing import TYPE_CHECKING, Any, Final, TypeAlias, assert_never, cast

from msgspec import Struct
from msgspec.structs import replace

from midturn.clock import trusted
from midturn.errors import ModelError
from midturn.events.types import AnsweredBy, Approval, InquiryRequest, ToolCallResponse
from midturn.exchange import Usage
from midturn.ports import Clock, ConsultFinished, ConsultStarted, Notice, ToolBegan, ToolEnded
from midturn.runtime.assistants import ask_model
from midturn.runtime.external_answers import ExternalAnswers
from midturn.runtime.loop_thread import shielded
from midturn.runtime.model_response import PartialResponse, call_model
from midturn.runtime.previews import preview_call
from midturn.runtime.prompts import PrompterClient
from midturn.runtime.recording import read_time, record
from midturn.runtime.session_context import SessionContext
from midturn.runtime.stepper import Stepper
from midturn.turn import inputs as steps
from midturn.turn.ending import as_it_ended
from midturn.turn.turn import Turn
from midturn.turn.view import waiting_until

if TYPE_CHECKING:
    from midturn.events.prompt import Prompt
    from midturn.runtime.tool_runs import ToolRuns

TaskKey: TypeAlias = tuple[str, ...]
Work: TypeAlias = Callable[[], Coroutine[Any, Any, steps.Happened]]


class RunEnding(Struct, frozen=True):
    """The result of one run of a turn.

    Args:
        status: `completed`, `ended_by_user`, `failed`, `suspended`, or `open` (the model is
            unavailable).
        error: The reason for a failure.
        usage: The usage of the main model during this run.
        failure: The exception that the unavailable model raised.
    """

    status: str
    error: str | None = None
    usage: Usage = Usage()
    failure: ModelError | None = None


@cache
def _load_tool_runs() -> type[ToolRuns]:
    from midturn.runtime.tool_runs import (
        ToolRuns,
    )  # imported here so that turns without tool calls start faster

    return ToolRuns


class Driver:
    """Runs one turn until it ends, or until only absent people can continue it. A driver is used
    for one run.

    Args:
        turn: The state machine.
        context: Services, settings and options of the session.
    """

    def __init__(self, turn: Turn, context: SessionContext) -> None:
        context, self._observed = context.observed()
        self._turn = turn
        self._context = context
        self._services = context.services
        self._options = context.options
        self._journal = context.journal
        self._display = context.options.display
        self._stepper = Stepper(turn, partial(read_time, context.journal, context.services.clock))
        self.report = self._stepper.report
        """Pass an input from outside the run to the state machine."""
        self._response = PartialResponse()
        self._group: asyncio.TaskGroup
        self._tasks: dict[TaskKey, asyncio.Task[None]] = {}
        self._started: set[str] = set()
        """The calls whose tools were already started."""
        self._was_over = turn.record.ended if turn.is_over else None
        self._ending: RunEnding | None = None

    @cached_property
    def _tools(self) -> ToolRuns:
        context = self._context
        make, nesting, calls = _load_tool_runs(), self._options.nesting, self._turn.record.calls
        return make(
            self._services.tools,
            context.calls,
            nesting,
            self._journal.conversation,
            self._stepper,
            calls,
        )

    @cached_property
    def _prompts(self) -> PrompterClient:
        return PrompterClient(
            self._options, self._journal, self._services.clock, self._context.calls
        )

    @cached_property
    def _external(self) -> ExternalAnswers:
        return ExternalAnswers(self._journal.answers, self._journal, self._stepper.report)

    async def run(self, effects: Sequence[steps.Effect]) -> RunEnding:
        """Perform the effects of a step, and all later steps.

        Raises:
            StoreError: The store could not record the events. All events acknowledged earlier are
                durable, and the turn can be resumed.
            TerminalGone: The terminal was closed while it showed a prompt. The reply is not
                recorded, and the turn can be resumed.
        """
        self._observed.begin(self._journal)
        try:
            async with asyncio.TaskGroup() as group:
                self._group = group
                for call in self._turn.record.open_calls():
                    self._watch_deadlines(deadline for _, deadline in waiting_until(call))
                # The loop runs in its own task. Otherwise, each wake-up would resume the whole
                # chain of coroutines that await this run. The task is awaited here, so that a
                # cancelled run stops its loop before its tools, and the outcomes of cancelled tools
                # are not recorded.
                try:
                    ending = await group.create_task(self._loop(effects))
                finally:
                    self._stepper.close()
                # Cancel the newest call first: if it waits for a lock that an older call holds, it
                # must not acquire the lock during the cancellation.
                for task in reversed(self._tasks.values()):
                    task.cancel()
            self._observed.status = ending.status
        except BaseExceptionGroup as group:
            first = _first(group)
            raise first from first.__cause__
        finally:
            self._tasks.clear()
            self._observed.end()
        return ending

    def interrupt(self) -> None:
        """End the turn. Called on Ctrl-C if no prompt is open."""
        self.report(steps.Interrupted(self._response.said_so_far()))

    # The loop
    # ----------------------------------------------------------------------------------------------

    async def _loop(self, effects: Sequence[steps.Effect]) -> RunEnding:
        seconds = self._context.settings.limits.seconds
        if seconds is not None:
            self._start(("limit",), partial(self._work_for, seconds))
        await self._perform(effects)
        if (
            self._was_over is not None and self._ending is None
        ):  # the turn had already ended, so there is nothing to wait for
            return RunEnding(self._was_over.status, self._was_over.error)
        while self._ending is None:
            waits_for_people = self._turn.only_people_can_move_it
            if (
                waits_for_people or not self._is_listening
            ) and await self._stepper.wait_until_idle():
                if waits_for_people:
                    await self._rest()
                    continue
                self._listen()
            step = await self._stepper.next()
            if step.defect is not None:
                raise step.defect
            await self._perform(step.effects, step.happened)
        return self._ending

    async def _rest(self) -> None:
        """Suspend the turn.

        A nested turn waits with its outer turn instead, because the outer turn may continue and
        receive answers in the meantime.
        """
        host = self._options.host
        if host is None:
            await self._perform(self._turn.rest())
            return
        if not self._is_listening:
            self._listen()
        host.report_state("resting")
        try:
            await self._stepper.wait_for_step()
        except asyncio.CancelledError:
            # the state machine already took these steps, so `rest` assumes that they are recorded
            for step in self._stepper.taken():
                await self._record(step.effects)
            await self._perform(self._turn.rest())
            raise
        host.report_state("moving")

    @property
    def _is_listening(self) -> bool:
        return ("answers",) in self._tasks

    def _listen(self) -> None:
        """Start collecting queued answers."""
        self._tasks["answers",] = self._group.create_task(
            self._external.listen(self._services.clock)
        )

    async def _perform(
        self, effects: Sequence[steps.Effect], happened: steps.Happened | None = None
    ) -> None:
        """Make the events durable as one batch. Then begin the other effects, in order."""
        await self._record(effects)
        for effect in effects:
            if not isinstance(effect, steps.Record):
                self._begin(effect, happened)

    async def _record(self, effects: Sequence[steps.Effect]) -> None:
        batch = [effect.event for effect in effects if isinstance(effect, steps.Record)]
        if (
            effects
            and isinstance(effects[-1], steps.EndTurn)
            and self._options.nesting
            and self._started
        ):
            # End nested turns first. Otherwise they would stay open if the process died after
            # recording the end of the outer turn.
            await self._tools.end_children(
                as_it_ended(effects[-1].status, effects[-1].error), self._stop_tool
            )
        if not batch:
            return
        recording = record(batch, self._journal, self._services.clock, self._display)
        await (recording if self._options.host is None else shielded(recording))
        for event in batch:
            match event:
                case ToolCallResponse():
                    self._show_result(event)
                case InquiryRequest() | Approval():
                    self._watch_deadlines((event.deadline,))
                case _:
                    pass

    def _begin(self, effect: steps.Effect, happened: steps.Happened | None) -> None:  # noqa: C901, PLR0912  one case per effect
        match effect:
            case steps.CallModel():
                request = self._services.request.request(
                    self._journal.conversation, self._journal.events
                )
                self._start(
                    ("model",),
                    partial(
                        call_model, self._services.model, request, self._display, self._response
                    ),
                )
            case steps.RunTool(call):
                self._display.show(ToolBegan(call, again=call.event in self._started))
                self._started.add(call.event)
                self._start(("tool", call.event), partial(self._tools.run, effect))
            case steps.GiveAnswers():
                self._tools.answer(effect)
            case steps.ConfirmValue():
                self._tools.confirm(effect)
            case steps.RunChild():
                self._tools.start_child(effect)
            case steps.PromptUser(id, prompt):
                self._prompts.open(id)
                self._start(
                    ("prompt", id), partial(self._prompts.ask, id, self._with_parameters(prompt))
                )
                self._external.note_asked()
            case steps.StopModel():
                self._stop(("model",))
            case steps.PreviewQuestion(call):
                self.report(preview_call(self._services.tools, self._context.calls, call))
            case steps.StopTool(call):
                self._stop_tool(call)
            case steps.ClosePrompt(id):
                self._close_prompt(id, happened)
            case steps.ConsultAssistant(request, tool):
                assistants = self._context.assistants
                self._display.show(ConsultStarted(effect.id, assistants.model_asked(request, tool)))
                self._start(
                    ("assistant", effect.id),
                    partial(ask_model, effect, assistants, self._journal, self._display),
                )
            case steps.StopAssistant(id):
                if self._stop(("assistant", id)):
                    self._display.show(ConsultFinished(id))
            case steps.Warn(text, event):
                self._display.show(Notice(text + self._where(event) if event else text))
            case steps.SuspendTurn() | steps.LeaveOpen() | steps.EndTurn():
                self._ending = self._ended(effect)
            case steps.Record():
                raise AssertionError("the events of a step are recorded first")
            case _ as other:
                assert_never(other)

    # Tasks
    # ----------------------------------------------------------------------------------------------

    def _start(self, key: TaskKey, work: Work) -> None:
        """Run an effect as a task and pass its result to the state machine."""
        self._tasks[key] = self._group.create_task(_run(key, work, self._tasks, self._stepper))

    def _stop(self, key: TaskKey) -> bool:
        """Cancel a task. Return False if there is none."""
        task = self._tasks.pop(key, None)
        return task is not None and task.cancel()

    def _stop_tool(self, call: str) -> None:
        """Cancel a running tool: its `finally` blocks run, and its result is dropped."""
        self._stop(("tool", call))

    def _close_prompt(self, id: str, happened: steps.Happened | None) -> None:
        """Close a prompt.

        If the question was answered elsewhere, notify the prompter and name the responder.
        """
        self._stop(("prompt", id))
        event_id, by = (
            (happened.event_id, _name(happened.who))
            if isinstance(happened, steps.AnsweredElsewhere)
            else ("", "")
        )
        notification = self._prompts.close(id, event_id, by)
        if notification is not None:
            self._group.create_task(
                _awaited(notification)
            )  # not in the task table, so that the run waits for it

    def _watch_deadlines(self, deadlines: Iterable[str]) -> None:
        for deadline in deadlines:
            if deadline and ("deadline", deadline) not in self._tasks:
                self._start(("deadline", deadline), partial(self._wait_until, deadline))

    async def _wait_until(self, deadline: str) -> steps.TimePassed:
        """Wait until a deadline has passed, and until every answer that was acknowledged before the
        deadline has been reported.
        """
        clock, time = self._services.clock, trusted(self._services.clock)
        while (now := time.now(self._journal.events)) is None or now < deadline:
            await clock.sleep(time.until(deadline))
        await self._external.poll()
        return steps.TimePassed(now)

    async def _work_for(self, seconds: float) -> steps.TimeIsUp:
        await work_for(seconds, self._services.clock, self._is_asking)
        return steps.TimeIsUp(seconds)

    def _is_asking(self) -> bool:
        """Return whether a person is being asked, by this turn or by a nested turn."""
        nesting = self._options.nesting
        return self._prompts.any_open or (nesting is not None and nesting.screen.is_asking)

    # Displays
    # ----------------------------------------------------------------------------------------------

    def _ended(self, effect: steps.SuspendTurn | steps.LeaveOpen | steps.EndTurn) -> RunEnding:
        match effect:
            case steps.SuspendTurn():
                return RunEnding("suspended", usage=self._response.usage)
            case steps.LeaveOpen(error):
                return RunEnding("open", error, self._response.usage, self._response.failure)
            case steps.EndTurn(status, error):
                return RunEnding(status, error, self._response.usage)

    def _with_parameters(self, prompt: Prompt) -> Prompt:
        """Add the JSON Schema that edited arguments must match."""
        tool = self._services.tools.get(prompt.tool)
        return (
            replace(prompt, parameters=tool.definition.parameters)
            if prompt.kind == "run" and tool
            else prompt
        )

    def _show_result(self, response: ToolCallResponse) -> None:
        """Show the response of a call."""
        record = self._turn.record.calls.get(response.call)
        if record:
            exception = self._tools.exception(response.call)
            self._display.show(
                ToolEnded(record.call, response.content, response.is_error, exception)
            )

    def _where(self, event_id: str) -> str:
        """Return the line number of a recorded event, as text for a warning."""
        number = next(
            (
                number
                for number, event in enumerate(self._journal.events, 1)
                if event.event_id == event_id
            ),
            None,
        )
        return (
            f" (line {number} of the events of conversation {self._journal.conversation})"
            if number
            else ""
        )


async def _run(
    key: TaskKey, work: Work, tasks: dict[TaskKey, asyncio.Task[None]], stepper: Stepper
) -> None:
    """Run an effect and pass its result to the state machine.

    The effect is called inside the task. Otherwise a task that is cancelled before it begins would
    leave a coroutine that is never awaited.
    """
    try:
        happened = await work()
    finally:
        if tasks.get(key) is asyncio.current_task():
            del tasks[key]
    stepper.report(happened)


async def _awaited(work: Awaitable[None]) -> None:
    await work


def _name(who: AnsweredBy) -> str:
    return who.user or who.name or who.via or who.by


def _first(error: BaseException) -> BaseException:
    """Return the first exception in nested exception groups."""
    return (
        _first(cast("BaseExceptionGroup[BaseException]", error).exceptions[0])
        if isinstance(error, BaseExceptionGroup)
        else error
    )


POLL_INTERVAL: Final = 0.25
"""How often, in seconds, to check whether the turn is waiting for a person. Time spent waiting for
people does not count as work.
"""


async def work_for(seconds: float, clock: Clock, waits_for_people: Callable[[], bool]) -> None:
    """Wait until the turn has worked for this number of seconds.

    Time spent waiting for people does not count.
    """
    worked, last = 0.0, clock.monotonic()
    while worked < seconds:
        await clock.sleep(min(POLL_INTERVAL, seconds - worked))
        now = clock.monotonic()
        if not waits_for_people():
            worked += now - last
        last = now
