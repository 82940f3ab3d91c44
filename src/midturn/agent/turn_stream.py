"""A turn that runs, event by event."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any, Self, TypeAlias

from msgspec import Struct

from midturn.agent.result import RunResult
from midturn.events.open_question import OpenQuestion, address
from midturn.events.transcript import ApprovalEntry, RequestEntry, ResponseEntry, entry_among
from midturn.events.types import Approval, Event, InquiryRequest, InquiryResponse, ToolCall
from midturn.events.window import last_turn, unread_refusals
from midturn.exchange import ReasoningDelta, TextDelta
from midturn.journal import Journal
from midturn.ports import Happening, Notice, ReasoningShown, Recorded, TextShown, ToolBegan, ToolEnded
from midturn.question.public_names import public_repr
from midturn.turn.pending import pending

if TYPE_CHECKING:
    from midturn.runtime.loop_thread import LoopThread


# ----------------------------------------------------------------------------------------------------------------------
# Items of `Agent.stream`


class ToolStarted(Struct, frozen=True):
    """A tool runs for the first time in this call.

    Args:
        call: The call.
    """

    call: ToolCall


class Asked(Struct, frozen=True):
    """A question is on record (or an approval, where the turn waits for one), and its answer is awaited. `question.id` names it."""

    question: OpenQuestion


class QuestionAnswered(Struct, frozen=True):
    """A question has its response: answered, redacted (a secret was given) or cancelled. `id` is that of `Asked.question`.

    Args:
        response: The event as it is recorded.
    """

    id: str
    response: InquiryResponse | Approval


class ToolFinished(Struct, frozen=True):
    """A call has its response, which the model reads next; `exception` is what the tool raised, unless that was `Rejected`.

    Args:
        call: The call.
        content: What the model reads.
        is_error: Whether that is an error.
    """

    call: ToolCall
    content: str
    is_error: bool
    exception: BaseException | None = None


class TurnEnded(Struct, frozen=True):
    """The run is over; nothing follows.

    Args:
        result: What `Agent.run` would have returned.
    """

    result: RunResult[Any]


class ModelRetried(Struct, frozen=True):
    """The model was down for a moment, and is asked again in `seconds`; `text` says why."""

    text: str
    seconds: float


Streamed: TypeAlias = TextDelta | ReasoningDelta | ModelRetried | ToolStarted | Asked | QuestionAnswered | ToolFinished | TurnEnded


def streamed(happening: Happening, conversation: str, events: Sequence[Event]) -> Streamed | None:  # noqa: PLR0911  a line for each
    """Translate what the runtime shows; None for what a program need not know. `events` is everything recorded so far."""
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


def _asked_or_answered(event: Event, conversation: str, events: Sequence[Event]) -> Asked | QuestionAnswered | None:
    match entry_among(events, event):
        case RequestEntry(event=request):
            return _asked_now(request, conversation, events)
        case ApprovalEntry(event=request) as entry if entry.waits:
            return _asked_now(request, conversation, events)
        case ApprovalEntry(event=decision, put=put) if put:
            return QuestionAnswered(address(conversation, put.event_id), decision)
        case ResponseEntry(event=response, request=RequestEntry(event=asked)):
            return QuestionAnswered(address(conversation, asked.event_id), response)
        case _:
            return None


def _asked_now(request: InquiryRequest | Approval, conversation: str, events: Sequence[Event]) -> Asked | None:
    """Return the question as it was open when it had just been recorded: later events of its batch may have closed it."""
    window = last_turn(events)
    turn = window.events if window else ()
    until = next((place for place in range(len(turn), 0, -1) if turn[place - 1].event_id == request.event_id), 0)
    questions = pending(turn[:until], conversation)
    return next((Asked(question) for question in questions if question.request.event_id == request.event_id), None)


def ended_by_people(events: Sequence[Event]) -> Iterator[ToolFinished]:
    """Yield the calls of the last turn that people have ended without a run of their tools, and whose results the model has not read."""
    window = last_turn(events)
    for call, response in unread_refusals(window.events if window else ()):
        yield ToolFinished(call, response.content, response.is_error)


OnEvent: TypeAlias = Callable[[Streamed], Awaitable[Any] | None]
OnWork: TypeAlias = Callable[[str, Streamed], Awaitable[Any] | None]
"""Takes the id of a conversation, and what happens there; sync or async."""


WATCHING: ContextVar[Watching | None] = ContextVar("midturn_watching", default=None)
"""The watcher of the run that the present task belongs to."""


class Watching:
    """A display that hands on what a program wants to know."""

    def __init__(self, journal: Journal) -> None:
        self.seen: asyncio.Queue[Streamed | None] = asyncio.Queue()
        self._journal = journal

    def show(self, happening: Happening) -> None:
        """Hand on what happened."""
        event = streamed(happening, self._journal.conversation, self._journal.events)
        if event:
            self.seen.put_nowait(event)


class Relay:
    """A display for what several runs share, such as models: each happening goes to the watcher of its own run."""

    def show(self, happening: Happening) -> None:
        """Hand on what happened."""
        watching = WATCHING.get()
        if watching:
            watching.show(happening)


class TurnStream:
    """The events of a turn, as they happen; the last one is `TurnEnded`. Iterating raises what `Agent.run` would raise.

    `Agent.stream` and `Agent.stream_resume` make one.
    """

    def __init__(self, conversation: str, watching: Watching, task: asyncio.Task[RunResult[Any]]) -> None:
        """Read what `watching` sees of `task`."""
        self.conversation = conversation
        """The conversation in which the turn runs."""
        self._seen = watching.seen
        self._task = task
        self._is_over = False
        task.add_done_callback(lambda _: self._seen.put_nowait(None))

    def __repr__(self) -> str:
        return public_repr(self, "TurnStream", f"conversation={self.conversation!r}")

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> Streamed:
        if self._is_over:
            raise StopAsyncIteration
        event = await self._seen.get()
        if event is not None:
            return event
        self._is_over = True
        return TurnEnded(await self._task)

    async def watched(self, on_event: OnEvent) -> RunResult[Any]:
        """Wait for the end, telling `on_event` of everything; return the result.

        Raises what `Agent.run` raises, and what `on_event` raises.
        """
        async for event in self:
            said = on_event(event)
            if inspect.isawaitable(said):
                await said
        return await self._task

    async def stop(self) -> None:
        """Stop the run, if it still runs: the turn stays open."""
        self._is_over = self._is_over or not self._task.done()
        self._task.cancel()
        await asyncio.gather(self._task, return_exceptions=True)


class SyncTurnStream:
    """The events of a turn, as they happen, for a program without an event loop; the last one is `TurnEnded` (see `TurnStream`).

    `Agent.stream_sync` and `Agent.stream_resume_sync` make one.
    """

    def __init__(self, events: TurnStream, thread: LoopThread) -> None:
        """Read `events`, which happen in `thread`."""
        self.conversation = events.conversation
        """The conversation in which the turn runs."""
        self._events = thread.iterated(events)

    def __repr__(self) -> str:
        return public_repr(self, "SyncTurnStream", f"conversation={self.conversation!r}")

    def __iter__(self) -> Iterator[Streamed]:
        return self

    def __next__(self) -> Streamed:
        return next(self._events)
