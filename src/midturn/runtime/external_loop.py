"""A turn whose calls are made by another program's agent loop. The state machine routes, asks and
records the questions.
"""

from __future__ import annotations

import asyncio
from collections import Counter, defaultdict, deque
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from typing import Self

from msgspec.structs import replace

from midturn.errors import CallEnded, MidturnError, Suspended, TurnOpen
from midturn.events import types as ev
from midturn.events.open_question import OpenQuestion
from midturn.events.outcome import Outcome, Success, ToolError
from midturn.events.window import Window, last_turn, open_turn
from midturn.exchange import ModelEvent, ModelRequest, ToolDefinition
from midturn.ports import Happening, ToolEnded, ToolRun
from midturn.question.json_value import Json, JsonObject, canonical
from midturn.question.text import check_text, check_text_or_none
from midturn.routing import messages
from midturn.runtime.driver import Driver, RunEnding
from midturn.runtime.keyed_turn import first_message, keyed_turn
from midturn.runtime.recording import read_time, record_effects
from midturn.runtime.session_context import SessionContext
from midturn.turn.inputs import CallBegun, CallLeft, Effect, LoopEnded, TurnFailed, TurnRequested
from midturn.turn.pending import pending
from midturn.turn.turn import Turn, agent_of, is_call
from midturn.turn.view import TurnView

# --------------------------------------------------------------------------------------------------
# Calls of another program's agent loop: that program runs the tools, and midturn asks their
# questions


class ExternalLoopCall:
    """One call of the agent loop.

    `run` has a result once the call has begun. The loop sets `outcome` when its tool is done.
    `responded` is done when the result is durable, or when the state machine ended the call.
    """

    def __init__(self, begun: CallBegun) -> None:
        loop = asyncio.get_running_loop()
        self.begun = begun
        self.run: asyncio.Future[ToolRun] = loop.create_future()
        self.outcome: asyncio.Future[Outcome] = loop.create_future()
        self.responded: asyncio.Future[None] = loop.create_future()
        self.stopped = asyncio.Event()
        """Set when the state machine stopped the call, because the call is over or the turn waits
        for an absent person.
        """

    @property
    def event(self) -> str:
        """The `event_id` of the call, once it has begun."""
        return self.run.result().call.event

    def finish(self, outcome: Outcome) -> None:
        """Set the outcome of the tool. A second outcome is dropped."""
        if not self.outcome.done():
            self.outcome.set_result(outcome)

    def respond(self) -> None:
        """Mark the call as responded."""
        if not self.responded.done():
            self.responded.set_result(None)

    async def execute(self, run: ToolRun) -> Outcome:
        """Wait until the loop sets the outcome of the tool, and return it."""
        self.run.set_result(run)
        try:
            return await asyncio.shield(self.outcome)
        finally:
            self.stopped.set()


class ExternalLoopTool:
    """A tool of the agent loop. `source` is the source of the questions that its calls ask."""

    def __init__(self, name: str) -> None:
        self._name = name
        self.source = ev.Source.tool(name)
        self._expected: defaultdict[str, deque[ExternalLoopCall]] = defaultdict(deque)

    @property
    def definition(self) -> ToolDefinition:
        """The tool's definition. It contains only the name, because the loop describes its tools to
        its model itself.
        """
        return ToolDefinition(self._name, "", {"type": "object"})

    def inquiry_source(self) -> ev.Source:
        """Return the source of questions: the tool, unless the call names another source."""
        return self.source

    def expect(self, id: str, call: ExternalLoopCall, source: ev.Source) -> None:
        """Register a call that is about to begin, by its id."""
        self.source = source
        self._expected[id].append(call)

    async def execute(self, run: ToolRun) -> Outcome:
        """Wait for the outcome of the next registered call with the same id (see `ports.Tool`)."""
        return await self._expected[run.call.id].popleft().execute(run)


class ExternalLoopTools(Mapping[str, ExternalLoopTool]):
    """The tools of the agent loop. They are not known in advance, so every name returns a tool."""

    def __init__(self) -> None:
        self._by_name: dict[str, ExternalLoopTool] = {}
        self.asked: Counter[tuple[str, bytes]] = Counter()
        """Number of calls about to begin that need permission, by tool name and arguments."""
        self.schemas: dict[tuple[str, bytes], JsonObject] = {}
        """The JSON Schemas for edited arguments of these calls."""

    def __getitem__(self, name: str) -> ExternalLoopTool:
        return self._by_name.setdefault(name, ExternalLoopTool(name))

    def __iter__(self) -> Iterator[str]:
        return iter(self._by_name)

    def __len__(self) -> int:
        return len(self._by_name)


class Outside:
    """Placeholder for the agent loop's model, which midturn never calls."""

    name = "outside"

    async def stream(self, request: ModelRequest) -> AsyncIterator[ModelEvent]:
        """Wait forever. The loop calls its model itself."""
        await asyncio.Event().wait()
        raise AssertionError(f"this event is never set, not even for {request.conversation}")
        yield  # makes this an asynchronous generator


class CallContent(str):  # noqa: SLOT000  it has fields
    """The recorded result of a call, for the agent loop's model.

    Args:
        content: The text.
        is_error: Whether it is an error.
        turn_ended: Whether a person ended the turn. If so, make no further model requests in this
            turn.
        images: The recorded images of the result.
    """

    is_error: bool
    """Whether the result is an error."""
    turn_ended: bool
    """Whether a person ended the turn. If so, make no further model requests in this turn."""
    images: tuple[ev.Image, ...]
    """The recorded images of the result."""

    def __new__(
        cls,
        content: str,
        *,
        is_error: bool = False,
        turn_ended: bool = False,
        images: tuple[ev.Image, ...] = (),
    ) -> Self:
        """Create a result from its text."""
        made = super().__new__(cls, content)
        made.is_error = is_error
        made.turn_ended = turn_ended
        made.images = images
        return made


class ExternalLoopTurn:
    """The turn of an agent loop in a locked conversation: the open turn, or a new turn that begins
    with the first call.

    Args:
        context: Services, settings and options, bound to the conversation.
        tools: The tools of the agent loop.
    """

    def __init__(self, context: SessionContext, tools: ExternalLoopTools) -> None:
        self._tools = tools
        self._display = context.options.display
        self._context = context.with_display(self)
        self._journal = context.journal
        self._calls: list[ExternalLoopCall] = []
        self._made: Counter[bytes] = Counter()
        self._stays_open = False
        self.resumes = False
        """Whether the turn already existed: it was left open, or it is finished and was found by
        its key.
        """
        self._finished: Sequence[ev.Event] = ()
        self._unreported_end: Window | None = None
        self.event_before = ""
        """The `event_id` of the last event before the turn. Empty if there is none."""
        self.reported_end = ""
        """The `event_id` of the start of a turn that a person ended, if this end was reported to
        the program. Empty otherwise.
        """
        self.follows_ended_turn = False
        """Whether a person ended the turn before this one."""
        self._turn: Turn | None = None
        self._driver: Driver | None = None
        self._task: asyncio.Task[RunEnding] | None = None

    async def begin(
        self,
        text: str,
        author: str | None = None,
        key: str | None = None,
        *,
        calls_wait: bool = False,
        reported_end: str = "",
    ) -> None:
        """Record the user message, unless the turn was left open.

        If the open turn began with a different text and has no unfinished calls, it is first
        recorded as failed, because no agent loop completed it. If a person ended the last turn
        while no program was running it, the calls of this turn report that end.

        Args:
            text: The user message. Empty if it is not known.
            author: The author of the message.
            key: The caller's id for the turn. An existing turn with this key is continued, even if
                it is finished.
            calls_wait: Whether the loop will repeat unfinished calls.
            reported_end: The `event_id` of the start of the last turn whose end was already
                reported to the program.

        Raises:
            TurnOpen: The open turn began with a different message, and has unfinished calls.
            ConfigError: The key belongs to a different message, or is not valid.
        """
        check_text("text", text)
        check_text_or_none("author", author)
        journal = self._journal
        known = None if key is None else keyed_turn(journal.events, key, text)
        if known and not known.open:
            self._finished = known.events
            self.event_before = _event_before(journal.events, known)
            self.resumes = True
            return
        if key is not None:
            self._context = replace(
                self._context, settings=replace(self._context.settings, start=ev.TurnStart(key=key))
            )
        last = last_turn(journal.events)
        self.follows_ended_turn = last is not None and _is_ended_by_user(last)
        if key is None and last and self.follows_ended_turn and _start_of(last) != reported_end:
            if calls_wait or text == first_message(last) != "":
                self._report_end(last)
                return
            if not text:
                self._unreported_end = last  # the first call shows whether this is the ended turn
                return
        window = last if last and last.open else None
        self.event_before = _event_before(journal.events, window)
        if window:
            stale = Turn.load(window.events, self._context.settings, self._context.ids)
            began = first_message(window)
            if known or (key is None and text in ("", began)):
                self.resumes = True
                return
            if stale.record.open_calls() or calls_wait:
                waiting = pending(journal.events, journal.conversation)
                raise TurnOpen(
                    self._why_open(began, waiting),
                    conversation=journal.conversation,
                    text=began,
                    pending=waiting,
                )
            await self._record(stale.step(TurnFailed("the program continued with another message")))
            self.event_before = _event_before(journal.events, None)
        if text:
            self._running()[0].report(TurnRequested(text, author=author))

    def _why_open(self, began: str, waiting: Sequence[OpenQuestion]) -> str:
        """Return the error message for a new message while a turn is open. It lists the open
        questions of that turn.
        """
        conversation = self._journal.conversation
        asked = "".join(
            f"\n  {question.id}  {question.tool} asks: {question.question.text}"
            for question in waiting
        )
        return (
            f"Conversation {conversation} has an open turn, which began with {began!r}. The new"
            f" message was not recorded.{asked}\nContinue that turn: open it with that text or"
            " none, and no other key, and repeat its calls. To send the message now, answer the"
            " open questions, or pass it on: `await store.answer(id, reply=text)` or"
            ' `on_open="reply"` for a question, `await store.answer(id, approve=False,'
            " reason=text)` for an approval."
        )

    async def call(
        self,
        source: ev.Source,
        begun: CallBegun,
        occurrence: int | None = None,
        *,
        permission: bool = False,
        schema: JsonObject | None = None,
    ) -> ExternalLoopCall:
        """Begin a call, or begin an unfinished call again.

        Args:
            source: Source of the questions that the call asks.
            begun: The call.
            occurrence: Number of this call among identical recorded calls. By default, calls with
                the same agent, tool, id and arguments are matched in order.
            permission: Whether the call needs a person's permission.
            schema: JSON Schema for edited arguments.

        Raises:
            CallEnded: The call already has a result, may not run, or a person ended the turn.
            Suspended: Nobody is attached who can decide whether the call may run.
            StoreError: The store could not record the events.
        """
        name, id = begun.name, begun.id  # noqa: A001  the wire's word
        if self._unreported_end:
            if any(is_call(call, begun) for call in ev.call_requests(self._unreported_end.events)):
                self._report_end(self._unreported_end)
            self._unreported_end = None
        key = _key(begun)
        self._made[key] += 1
        self._recall(begun, occurrence or self._made[key])
        call = ExternalLoopCall(begun)
        self._calls.append(call)
        self._tools[name].expect(id, call, source)
        about = (name, canonical(begun.arguments))
        self._tools.asked[about] += permission
        if schema is not None:
            self._tools.schemas[about] = schema
        try:
            while not call.run.done():
                driver, task = self._running()
                driver.report(begun)
                await asyncio.wait(
                    {call.run, call.responded, task}, return_when=asyncio.FIRST_COMPLETED
                )
                if permission and not call.run.done():
                    self._raise_unless_allowed(begun)
        except BaseException:
            self.leave(call)
            raise
        finally:
            self._tools.asked[about] -= permission
        return call

    def _report_end(self, ended: Window) -> None:
        """Load a turn that a person ended. Its calls return their recorded results without running
        tools.
        """
        self._finished = ended.events
        self.event_before = _event_before(self._journal.events, ended)
        self.resumes = True

    def raise_end(self) -> None:
        """Raise an error if a person ended the turn. The error reports the end to the program.

        Raises:
            CallEnded: A person ended the turn.
        """
        self._note_reported()
        if self._finished and self._has_ended:
            ended = [result.call for result in ev.call_results(self._finished)]
            content = self.content(ended[-1]) if ended else messages.TURN_ENDED
            raise CallEnded(content, is_error=getattr(content, "is_error", False), turn_ended=True)

    def _raise_unless_allowed(self, begun: CallBegun) -> None:
        """If a call that needs permission could not begin, raise the reason. Otherwise return, so
        that the call can be retried.
        """
        content = self.result_of(begun)
        if content is not None:
            raise CallEnded(content, is_error=content.is_error, turn_ended=content.turn_ended)
        suspended = self.pending()
        same = {
            call.event_id for call in ev.call_requests(self._journal.events) if is_call(call, begun)
        }
        if suspended and any(question.request.call in same for question in suspended.pending):
            raise suspended

    def _recall(self, begun: CallBegun, occurrence: int) -> None:
        """If the call already has a recorded result, from any process, raise it.

        Raises:
            CallEnded: The call already has a result, so the tool does not run and no question is
                asked.
        """
        window = open_turn(self._journal.events)
        events = self._finished or (window.events if window else ())
        same = [call for call in ev.call_requests(events) if is_call(call, begun)]
        self._note_reported()
        if occurrence <= len(same) and self._response(same[occurrence - 1].event_id):
            content = self.content(same[occurrence - 1].event_id)
            raise CallEnded(content, is_error=content.is_error, turn_ended=content.turn_ended)
        if self._finished:
            raise CallEnded(messages.TURN_OVER, is_error=True, turn_ended=True)

    def _note_reported(self) -> None:
        """If a person ended the turn, mark this end as reported to the program."""
        last = last_turn(self._journal.events)
        start = (
            _start_of(Window(tuple(self._finished))) if self._finished and self._has_ended else ""
        )
        if last and start == _start_of(
            last
        ):  # an older turn, found by its key, is not the last one
            self.reported_end = start

    def has_asked(self, begun: CallBegun, question: str) -> bool:
        """Return whether a call without a result asked a question, in this or another process.

        Args:
            begun: The call.
            question: The id of the question, or `__run__` for a permission.
        """
        window = open_turn(self._journal.events)
        events = window.events if window else ()
        calls = {call.event_id for call in ev.call_requests(events) if is_call(call, begun)}
        calls -= {result.call for result in ev.call_results(events)}
        if question == "__run__":
            return any(
                isinstance(event, ev.Approval) and event.call in calls and event.kind == "run"
                for event in events
            )
        return any(
            request.call in calls and request.question_id == question
            for request in ev.inquiry_requests(events)
        )

    def result_of(self, begun: CallBegun, occurrence: int | None = None) -> CallContent | None:
        """Return the recorded result of the newest identical call, or of the call with the number
        `occurrence`. None if the call has no result.
        """
        window = open_turn(self._journal.events)
        events = self._finished or (window.events if window else ())
        same = [call for call in ev.call_requests(events) if is_call(call, begun)]
        same = same[:occurrence] if occurrence is None or occurrence <= len(same) else []
        self._note_reported()
        return (
            self.content(same[-1].event_id) if same and self._response(same[-1].event_id) else None
        )

    def unmade(self) -> Sequence[CallBegun]:
        """Return the unfinished calls that the agent loop has not repeated yet, oldest first."""
        window = open_turn(self._journal.events)
        events = window.events if window else ()
        responded = {result.call for result in ev.call_results(events)}
        waiting = [call for call in ev.call_requests(events) if call.event_id not in responded]
        begun = (
            CallBegun(call.id, call.name, _object(call.arguments), agent_of(call))
            for call in waiting
        )
        return [call for call in begun if not self._made[_key(call)]]

    def content(self, event: str) -> CallContent:
        """Return the recorded result of a call, as the model receives it."""
        response = self._response(event)
        if response is None:
            return CallContent("", is_error=True)
        return CallContent(
            response.content,
            is_error=response.is_error,
            turn_ended=self._has_ended,
            images=response.images,
        )

    def preview(self, event: str, outcome: Success | ToolError) -> str:
        """Return the result that the model would receive if a call ended with this outcome."""
        return self._turn.content_of(event, outcome) if self._turn else ""

    def pending(self) -> Suspended | None:
        """Return the exception to raise if the turn has open questions, or None."""
        journal = self._journal
        waiting = pending(journal.events, journal.conversation)
        if not waiting or self._finished:
            return None
        asked = "".join(
            f"\n  {question.id}  {question.tool} asks: {question.question.text}"
            for question in waiting
        )
        advice = "Answer with `await store.answer(id, …)`, and make the calls of the turn again."
        return Suspended(
            f"Conversation {journal.conversation} waits to be answered:{asked}\n{advice}", waiting
        )

    def _response(self, event: str) -> ev.ToolCallResponse | None:
        events = reversed(self._journal.events)
        return next((found for found in ev.call_results(events) if found.call == event), None)

    async def finished(self, call: ExternalLoopCall) -> None:
        """Wait until the result of a call is durable."""
        if self._task:
            await asyncio.wait({call.responded, self._task}, return_when=asyncio.FIRST_COMPLETED)
            if not call.responded.done() and not self._task.cancelled():
                self._task.result()

    def leave(self, call: ExternalLoopCall) -> None:
        """Stop working on an unfinished call. Its prompts close, and its questions stay open."""
        if call in self._calls:
            self._calls.remove(call)
            call.run.add_done_callback(
                lambda run: self._left(run.result().call.event)
            )  # called immediately if the call has begun

    def _left(self, event: str) -> None:
        if self._driver:
            self._driver.report(CallLeft(event))

    async def why_stopped(self, call: ExternalLoopCall) -> MidturnError:
        """Return why a call did not get an answer: it already has a response, or it waits for an
        absent person.

        Raises:
            StoreError: The store could not record the events.
        """
        if self._response(call.event):
            content = self.content(call.event)
            return CallEnded(content, is_error=content.is_error, turn_ended=content.turn_ended)
        if self._task:
            await asyncio.wait({self._task})
            self._task.result()
        return self.pending() or Suspended(
            "The turn was left while the call was running; make it again."
        )

    def keep_open(self) -> None:
        """Leave the turn open when this object is closed. Called if the agent loop failed or was
        cancelled, because the next run of the loop continues the turn.
        """
        self._stays_open = True

    async def close(self) -> None:
        """End the turn, unless it has unfinished calls or is kept open.

        Raises:
            StoreError: The store could not record the events.
        """
        try:
            await self._close()
        finally:
            last = last_turn(self._journal.events)
            if self._driver and last and _is_ended_by_user(last):
                self.reported_end = _start_of(last)

    async def _close(self) -> None:
        if self._stays_open:
            await self._stop()
            return
        if self._driver is None or self._task is None:
            await self._end_recalled()
            return
        self._driver.report(LoopEnded())
        try:
            await asyncio.wait({self._task})
        except BaseException:
            self._task.cancel()
            await asyncio.wait({self._task})
            raise
        self._task.result()

    async def _stop(self) -> None:
        """Stop the driver. Recorded events are kept."""
        if self._task is None:
            return
        self._task.cancel()
        await asyncio.wait({self._task})
        if not self._task.cancelled():
            self._task.result()

    async def _end_recalled(self) -> None:
        """End a turn that was left open although all its calls have results.

        No tool ran in this process.
        """
        window = open_turn(self._journal.events)
        if window and not self._finished:
            turn = Turn.load(window.events, self._context.settings, self._context.ids)
            await self._record(turn.step(LoopEnded()))

    async def _record(self, effects: Sequence[Effect]) -> None:
        await record_effects(effects, self._journal, self._context.services.clock, self)

    def show(self, happening: Happening) -> None:
        """Show a happening, and mark the calls that have a response (see `ports.Display`)."""
        self._display.show(happening)
        if isinstance(happening, ToolEnded):
            for call in [call for call in self._calls if _is_of(call, happening.call)]:
                self._calls.remove(call)
                call.respond()

    @property
    def _has_ended(self) -> bool:
        if self._finished:
            return _is_ended_by_user(Window(tuple(self._finished)))
        events = self._journal.events
        return self._driver is not None and any(ev.turn_ends(events[-1:]))

    def _running(self) -> tuple[Driver, asyncio.Task[RunEnding]]:
        """Return the running driver. After a suspension, a new driver continues the turn.

        Raises:
            CallEnded: The turn ended in the meantime.
        """
        if self._driver and self._task and not self._task.done():
            return self._driver, self._task
        if self._task:
            self._task.result()
        if self._has_ended:
            raise CallEnded(messages.TURN_ENDED, turn_ended=True)
        window = open_turn(self._journal.events)
        self._turn = Turn.load(
            window.events if window else (), self._context.turn_settings(), self._context.ids
        )
        if TurnView(window).deadlines:
            self._turn.step(read_time(self._journal, self._context.services.clock))
        self._driver = Driver(self._turn, self._context)
        self._task = asyncio.create_task(self._driver.run(()))
        return self._driver, self._task


def _event_before(events: Sequence[ev.Event], turn: Window | None) -> str:
    """Return the `event_id` of the last event before a turn, which may not have begun yet. Empty if
    there is none.
    """
    if turn is None:
        return events[-1].event_id if events else ""
    first = turn.events[0].event_id
    place = next(
        (place for place in range(len(events) - 1, -1, -1) if events[place].event_id == first), 0
    )
    return events[place - 1].event_id if place else ""


def _is_ended_by_user(turn: Window) -> bool:
    return any(end.status == "ended_by_user" for end in ev.turn_ends(turn.events))


def _start_of(turn: Window) -> str:
    """Return the `event_id` of the first event of a turn."""
    return next(
        (event.event_id for event in turn.events if isinstance(event, ev.TurnStart)),
        turn.events[0].event_id,
    )


def _key(begun: CallBegun) -> bytes:
    """Return a key that is equal for calls with the same agent, name, ID and arguments."""
    return canonical([begun.agent, begun.name, begun.id, begun.arguments])


def _object(arguments: Json) -> JsonObject:
    return arguments if isinstance(arguments, Mapping) else {}


def _is_of(call: ExternalLoopCall, ended: ev.ToolCall) -> bool:
    """Return whether `call` is the call that ended.

    A call that was not permitted has no event.
    """
    return (
        call.event == ended.event
        if call.run.done()
        else (call.begun.id, call.begun.name) == (ended.id, ended.name)
    )
