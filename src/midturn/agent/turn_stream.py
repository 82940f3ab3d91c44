"""Event streams of running turns, for programs."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextvars import ContextVar
from itertools import islice
from typing import TYPE_CHECKING, Any, Self, TypeAlias

from msgspec import Struct

from midturn.agent.result import RunResult
from midturn.events.open_question import OpenQuestion, address
from midturn.events.transcript import ApprovalEntry, RequestEntry, ResponseEntry, entry_among
from midturn.events.types import (
    Approval,
    Event,
    InquiryRequest,
    InquiryResponse,
    ToolCall,
    ToolCallResponse,
)
from midturn.events.window import last_turn, starts_turn, unread_refusals
from midturn.exchange import ReasoningDelta, TextDelta
from midturn.journal import Journal
from midturn.ports import (
    Happening,
    Notice,
    ReasoningShown,
    Recorded,
    TextShown,
    ToolBegan,
    ToolEnded,
)
from midturn.question.public_names import public_repr
from midturn.turn.pending import pending
from midturn.turn.record import TurnRecord

if TYPE_CHECKING:
    from midturn.runtime.loop_thread import LoopThread


# --------------------------------------------------------------------------------------------------
# Events of `Agent.stream`


class ToolStarted(Struct, frozen=True):
    """A tool was started. Reported once for each call, even if the tool runs several times.

    Args:
        call: The call.
    """

    call: ToolCall


class Asked(Struct, frozen=True):
    """A question or an approval was recorded and waits for an answer. `question.id` is the id for
    `store.answer`.
    """

    question: OpenQuestion


class QuestionAnswered(Struct, frozen=True):
    """A question was answered or cancelled. The response to a secret is redacted. `id` is the
    same as `question.id` of the `Asked` event.

    Args:
        response: The response event as recorded.
    """

    id: str
    response: InquiryResponse | Approval


class ToolFinished(Struct, frozen=True):
    """A call has a result. The next request to the model contains the result.

    Args:
        call: The call.
        content: Text that the model reads.
        is_error: Whether the result is an error.
        exception: Exception that the tool raised, unless it was `Rejected`.
    """

    call: ToolCall
    content: str
    is_error: bool
    exception: BaseException | None = None


class TurnEnded(Struct, frozen=True):
    """The run is over. Always the last event.

    Args:
        result: Result of the run, as `Agent.run` returns it.
    """

    result: RunResult[Any]


class ModelRetried(Struct, frozen=True):
    """A model request failed temporarily and is retried after `seconds`. `text` is the reason."""

    text: str
    seconds: float


Streamed: TypeAlias = (
    TextDelta
    | ReasoningDelta
    | ModelRetried
    | ToolStarted
    | Asked
    | QuestionAnswered
    | ToolFinished
    | TurnEnded
    | Recorded
)


def to_stream_event(  # noqa: PLR0911  one return per event
    happening: Happening, conversation: str, events: Sequence[Event]
) -> Streamed | None:
    """Convert an event of the runtime to a stream event. Return None for events that are not part
    of the stream. `events` are all recorded events.
    """
    match happening:
        case TextShown(text):
            return TextDelta(text)
        case ReasoningShown(text):
            return ReasoningDelta(text)
        case Notice(text, seconds) if seconds > 0:
            return ModelRetried(text, seconds)
        case ToolBegan(call, again=False):
            return ToolStarted(call)
        case ToolEnded(call, content, is_error, exception):
            return ToolFinished(call, content, is_error, exception)
        case Recorded(event):
            return _asked_or_answered(event, conversation, events)
        case _:
            return None


def _asked_or_answered(
    event: Event, conversation: str, events: Sequence[Event]
) -> Asked | QuestionAnswered | None:
    match entry_among(events, event):
        case RequestEntry(event=request):
            return _question_when_asked(request, conversation, events)
        case ApprovalEntry(event=request) as entry if entry.waits:
            return _question_when_asked(request, conversation, events)
        case ApprovalEntry(event=decision, put=put) if put:
            return QuestionAnswered(address(conversation, put.event_id), decision)
        case ResponseEntry(event=response, request=RequestEntry(event=asked)):
            return QuestionAnswered(address(conversation, asked.event_id), response)
        case _:
            return None


def _question_when_asked(
    request: InquiryRequest | Approval, conversation: str, events: Sequence[Event]
) -> Asked | None:
    """Return the question as it was recorded, because later events of the same batch may have
    closed the question.
    """
    window = last_turn(events)
    turn = window.events if window else ()
    until = next(
        (
            place
            for place in range(len(turn), 0, -1)
            if turn[place - 1].event_id == request.event_id
        ),
        0,
    )
    questions = pending(turn[:until], conversation)
    return next(
        (
            Asked(question)
            for question in questions
            if question.request.event_id == request.event_id
        ),
        None,
    )


def calls_ended_by_people(
    events: Sequence[Event], conversation: str
) -> Iterator[QuestionAnswered | ToolFinished]:
    """Yield the calls of the last turn that people ended, if the model has not read the results
    yet. Before each call, yield the questions that were closed together with it.
    """
    window = last_turn(events)
    turn = window.events if window else ()
    for refusal in unread_refusals(turn):
        for closed in refusal.closed:
            answered = _asked_or_answered(closed, conversation, turn)
            if isinstance(answered, QuestionAnswered):
                yield answered
        yield ToolFinished(refusal.call, refusal.response.content, refusal.response.is_error)


def recorded_since(events: Sequence[Event], conversation: str, after: int) -> Iterator[Streamed]:
    """Yield the events after a position as `Recorded`, each followed by the `ToolFinished`, `Asked`
    or `QuestionAnswered` that it causes.

    Raises:
        ValueError: The conversation has fewer events.
    """
    if not 0 <= after <= len(events):
        raise ValueError(
            f"`after` must be a position in conversation {conversation}, which has"
            f" {len(events):,} events, not {after!r:.80}."
        )
    if after == len(events):
        return
    start = next((place for place in range(after, 0, -1) if starts_turn(events[place])), 0)
    turn: list[Event] = []
    record = TurnRecord()
    for position, event in enumerate(islice(events, start, None), start + 1):
        if starts_turn(event):
            turn, record = [], TurnRecord()
        turn.append(event)
        record.apply(event)
        if position <= after:
            continue
        yield Recorded(event, position)
        if isinstance(event, ToolCallResponse):
            if call := record.calls.get(event.call):
                yield ToolFinished(call.call, event.content, event.is_error)
        elif found := _asked_or_answered(event, conversation, turn):
            yield found


OnEvent: TypeAlias = Callable[[Streamed], Awaitable[Any] | None]
OnWork: TypeAlias = Callable[[str, Streamed], Awaitable[Any] | None]
"""Callback for the events of conversations. The first argument is the id of the conversation.
Sync or async.
"""


CURRENT_DISPLAY: ContextVar[StreamDisplay | None] = ContextVar("midturn_watching", default=None)
"""Display of the run that the current task belongs to."""


class StreamDisplay:
    """Display that queues the events of a run for its stream, with the recorded events if
    `with_events` is true.
    """

    def __init__(self, journal: Journal, *, with_events: bool = False) -> None:
        self.seen: asyncio.Queue[Streamed | None] = asyncio.Queue()
        self._journal = journal
        self._with_events = with_events

    def show(self, happening: Happening) -> None:
        """Queue an event."""
        if self._with_events and isinstance(happening, Recorded):
            self.seen.put_nowait(happening)
        event = to_stream_event(happening, self._journal.conversation, self._journal.events)
        if event:
            self.seen.put_nowait(event)


class SharedDisplay:
    """Display for objects that several runs share, such as models. Each event is shown on the
    display of the current run.
    """

    def show(self, happening: Happening) -> None:
        """Show an event on the display of the current run."""
        watching = CURRENT_DISPLAY.get()
        if watching:
            watching.show(happening)


class TurnStream:
    """Events of a turn. The last event is `TurnEnded`. Iteration raises the errors of
    `Agent.run`.

    Created by `Agent.stream` and `Agent.stream_resume`.
    """

    def __init__(
        self, conversation: str, watching: StreamDisplay, task: asyncio.Task[RunResult[Any]]
    ) -> None:
        """Create a stream of the events that `watching` queues while `task` runs."""
        self.conversation = conversation
        """Id of the conversation of the turn."""
        self._queue = watching.seen
        self._task = task
        self._is_over = False
        task.add_done_callback(lambda _: self._queue.put_nowait(None))

    def __repr__(self) -> str:
        return public_repr(self, "TurnStream", f"conversation={self.conversation!r}")

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> Streamed:
        if self._is_over:
            raise StopAsyncIteration
        event = await self._queue.get()
        if event is not None:
            return event
        self._is_over = True
        return TurnEnded(await self._task)

    async def watched(self, on_event: OnEvent) -> RunResult[Any]:
        """Call `on_event` with each event until the turn ends. Return the result.

        Raises the errors of `Agent.run` and of `on_event`.
        """
        async for event in self:
            said = on_event(event)
            if inspect.isawaitable(said):
                await said
        return await self._task

    async def stop(self) -> None:
        """Stop the run if it is not finished. The turn stays open."""
        self._is_over = self._is_over or not self._task.done()
        self._task.cancel()
        await asyncio.gather(self._task, return_exceptions=True)


class SyncTurnStream:
    """Events of a turn, for programs without an event loop. The last event is `TurnEnded`. See
    `TurnStream`.

    Created by `Agent.stream_sync` and `Agent.stream_resume_sync`.
    """

    def __init__(self, events: TurnStream, thread: LoopThread) -> None:
        """Create a stream of `events`, which are produced in `thread`."""
        self.conversation = events.conversation
        """Id of the conversation of the turn."""
        self._events = thread.iterated(events)

    def __repr__(self) -> str:
        return public_repr(self, "SyncTurnStream", f"conversation={self.conversation!r}")

    def __iter__(self) -> Iterator[Streamed]:
        return self

    def __next__(self) -> Streamed:
        return next(self._events)
