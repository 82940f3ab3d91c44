"""The provider's view of a conversation. Every call is directly followed by its result, even if a
process died before it recorded one. The log is not modified.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from functools import cached_property
from itertools import chain
from typing import Any, Final, cast, get_args, overload

import msgspec
from msgspec import Struct

from midturn.events import types as ev
from midturn.events.codec import (
    Start,
    clean,
    decode_event,
    decode_kind,
    decode_stream,
    decode_visible,
)
from midturn.events.types import Event
from midturn.events.window import (
    MAY_START,
    TurnByTurn,
    Window,
    begins,
    config_deltas,
    last_turn,
    pair_calls,
    pair_inquiries,
    standing_decisions,
    starts_turn,
    turn_from,
    turns,
)
from midturn.question.json_value import Json

# Cycle: the calls of one response and their results, which must directly follow the calls
# -------------------------------------------------


class Cycle:
    """Splits a turn into cycles, event by event. A cycle is one response of the model and the
    results of its calls. The events of one batch, in any order, belong to one response.
    """

    def __init__(self) -> None:
        self._responding = False
        self._in_batch = False

    def ends_before(self, event: Event) -> bool:
        """Process the next event. Return whether all calls before this event must have results."""
        ends = isinstance(event, ev.ChatRequest | ev.TurnEnd) or (
            not self._in_batch and self._speaks(event)
        )
        self._responding = isinstance(event, ev.ToolCallResponse) or (self._responding and not ends)
        self._in_batch = event.more > 0 and isinstance(event, ev.ChatResponse | ev.ToolCallRequest)
        return ends

    def _speaks(self, event: Event) -> bool:
        return isinstance(event, ev.ChatResponse) or (
            self._responding and isinstance(event, ev.ToolCallRequest)
        )


# Repair a log for readers that need all events. The file is never modified
# ---------------------------------------


_RESPONSES: Final = (ev.InquiryAnswered, ev.InquiryCancelled, ev.InquiryRedacted)
_NOTES: Final = frozenset(get_args(ev.Note))


class Repairs(Struct, frozen=True):
    """Repairs made by `sanitize`, as lists of `event_id`s.

    Evaluates to false if nothing was repaired.

    `started`: events before which a `turn_start` was missing. `interrupted`: calls that got a
    synthetic response. `cancelled`: requests that got a `cancelled: user` response. `dropped`:
    responses without a request.
    """

    started: tuple[str, ...] = ()
    interrupted: tuple[str, ...] = ()
    cancelled: tuple[str, ...] = ()
    dropped: tuple[str, ...] = ()

    def __bool__(self) -> bool:
        return bool(self.started or self.interrupted or self.cancelled or self.dropped)

    def __add__(self, other: Repairs) -> Repairs:
        return Repairs(
            self.started + other.started,
            self.interrupted + other.interrupted,
            self.cancelled + other.cancelled,
            self.dropped + other.dropped,
        )


def sanitize(events: Iterable[Event]) -> tuple[list[Event], Repairs]:
    """Return a well-formed list of events, and the repairs that were needed.

    The list starts with a `turn_start`. Every call of a finished turn has a response, and every
    request has its response in the same turn. In the open turn, only responses without a request
    are dropped. No event that a provider sees is lost. Calling this function on its own result
    changes nothing.

    Args:
        events: The events as they were read, oldest first.
    """
    events = list(events)
    repaired: list[Event] = []
    repairs = Repairs()
    for number, window in enumerate(turns(events)):
        content, started = (window.events, Repairs()) if number else _start(window.events)
        content, dropped = _drop_orphans(content)
        repairs += started + dropped
        if not window.open:
            content, cancelled = _cancel_requests(content)
            content, answered = _answer_calls(content)
            # if ids repeat, an added response can change the pairs, so check again
            for _ in content:
                if not pair_calls(content).unanswered:
                    break
                content, more = _answer_calls(content)
                answered += more
            repairs += cancelled + answered
        repaired += content
    return repaired or events, repairs


def interrupted(call: ev.ToolCallRequest) -> ev.ToolCallResponse:
    """Return the synthetic response for a call without one. The same call always gets the same
    response.
    """
    return ev.ToolCallResponse(
        timestamp=call.timestamp,
        event_id=_derived_id(call, "interrupted"),
        id=call.id,
        call=call.event_id,
        content=ev.INTERRUPTED,
        is_error=True,
    )


def _derived_id(event: Event, suffix: str) -> str:
    """Derive a unique, reproducible id for a synthetic event."""
    return f"{event.event_id}:{suffix}" if event.event_id else ""


def _start(events: Sequence[Event]) -> tuple[Sequence[Event], Repairs]:
    """Move the `turn_start` of the first turn to its beginning, or create it if it is missing."""
    place = next((place for place, event in enumerate(events) if starts_turn(event)), None)
    if place is not None:
        return (events[place], *events[:place], *events[place + 1 :]), Repairs()
    start = ev.TurnStart(timestamp=events[0].timestamp, event_id=_derived_id(events[0], "start"))
    return (start, *events), Repairs(started=(events[0].event_id,))


def _drop_orphans(events: Sequence[Event]) -> tuple[Sequence[Event], Repairs]:
    orphans = {*pair_inquiries(events).orphans, *_orphaned_notes(events)}
    if not orphans:
        return events, Repairs()
    kept = [event for place, event in enumerate(events) if place not in orphans]
    return kept, Repairs(dropped=tuple(events[place].event_id for place in sorted(orphans)))


def _orphaned_notes(events: Sequence[Event]) -> list[int]:
    """Return the indexes of votes and other notes whose request is missing."""
    if _NOTES.isdisjoint(map(type, events)):  # fast path: no votes or other notes
        return []
    asked = {event.id for event in events if isinstance(event, ev.InquiryRequest | ev.Approval)}
    return [
        place
        for place, event in enumerate(events)
        if isinstance(event, ev.Note) and event.id not in asked
    ]


def _cancel_requests(events: Sequence[Event]) -> tuple[Sequence[Event], Repairs]:
    """Cancel unanswered requests. The cancellation comes after all responses with the same id,
    since these are paired in order.
    """
    unanswered = pair_inquiries(events).unanswered
    cancelled: dict[int, list[Event]] = {}
    for place in sorted(unanswered):
        request = cast("ev.InquiryRequest", events[place])
        behind = max(
            [
                place,
                *(
                    at
                    for at, event in enumerate(events)
                    if isinstance(event, _RESPONSES) and event.id == request.id
                ),
            ]
        )
        response = ev.InquiryCancelled(
            timestamp=request.timestamp,
            event_id=_derived_id(request, "cancelled"),
            id=request.id,
            reason="user",
        )
        cancelled.setdefault(behind, []).append(response)
    repaired = [
        repaired_event
        for place, event in enumerate(events)
        for repaired_event in (event, *cancelled.get(place, ()))
    ]
    return repaired, Repairs(
        cancelled=tuple(events[place].event_id for place in sorted(unanswered))
    )


def _answer_calls(events: Sequence[Event]) -> tuple[Sequence[Event], Repairs]:
    """Add a synthetic response for every call without one, before the next message or response."""
    unanswered = pair_calls(events).unanswered
    repaired: list[Event] = []
    pending: list[ev.ToolCallRequest] = []
    cycle = Cycle()
    for place, event in enumerate(events):
        if cycle.ends_before(event):
            repaired += map(interrupted, pending)
            pending = []
        repaired.append(event)
        if place in unanswered and isinstance(event, ev.ToolCallRequest):
            pending.append(event)
    repaired += map(interrupted, pending)
    return repaired, Repairs(
        interrupted=tuple(events[place].event_id for place in sorted(unanswered))
    )


def provider_view(events: Iterable[Event]) -> list[ev.VisibleEvent]:
    """Return the visible events in an order that every provider accepts: each call has exactly one
    response, which directly follows the calls.

    A call without a response gets a synthetic one, even in the open turn. A late response is moved
    to its call. A response without a call is left out.
    """
    if isinstance(events, TurnByTurn):
        return events.provider_view()
    # `list` is checked first, because the check for `Sequence` is slow
    events = events if isinstance(events, (list, Sequence)) else list(events)
    well_formed = well_formed_view(events)
    return (
        [event for window in turns(events) for event in _turn_view(window.events)]
        if well_formed is None
        else well_formed
    )


def last_user_request(events: Sequence[Event]) -> ev.ChatRequest | None:
    """Return the user's latest message."""
    for event in reversed(events):
        if isinstance(event, ev.ChatRequest):
            return event
    return None


def well_formed_view(events: Iterable[Event | Start]) -> list[ev.VisibleEvent] | None:
    """Return the visible events unchanged if every call has its response in the right place,
    else None.
    """
    view: list[Any] = []
    waiting: dict[str, str] = {}
    answered = False
    event: Any
    for event in events:
        kind = event.__class__
        if kind is ev.ToolCallRequest:
            if waiting and (answered or event.event_id in waiting):
                return None
            waiting[event.event_id] = event.id
            answered = False
        elif kind is ev.ToolCallResponse:
            if waiting.pop(event.call, None) != event.id:
                return None
            answered = True
        elif kind is not ev.ChatResponse and kind is not ev.ChatRequest:
            if waiting and kind in _ENDS_CALLS:
                return None
            continue
        elif waiting:
            return None
        view.append(event)
    return None if waiting else view


_ENDS_CALLS: Final = (Start, ev.TurnStart, ev.TurnEnd, ev.OpaqueEvent)
"""After one of these events, an earlier call gets no response. An opaque event may be the start or
the end of a turn.
"""


def _turn_view(events: Sequence[Event]) -> list[ev.VisibleEvent]:
    well_formed = well_formed_view(events)
    return repaired_view(events) if well_formed is None else well_formed


def repaired_view(events: Sequence[Event]) -> list[ev.VisibleEvent]:
    """Return the visible events of one turn, with each response after its call."""
    pairing = pair_calls(events)
    asked_by = {response: request for request, response in pairing.responses.items()}
    view: list[ev.VisibleEvent] = []
    pending: dict[int, ev.ToolCallResponse] = {}
    cycle = Cycle()
    for place, event in enumerate(events):
        if cycle.ends_before(event):
            view += pending.values()
            pending = {}
        if isinstance(event, ev.ToolCallResponse):
            if response := pending.pop(asked_by.get(place, -1), None):
                view.append(response)
        elif ev.visible(event):
            view.append(cast("ev.VisibleEvent", event))
        if isinstance(event, ev.ToolCallRequest):
            pending[place] = _result(events, pairing.responses.get(place), event)
    return [*view, *pending.values()]


def _result(
    events: Sequence[Event], place: int | None, call: ev.ToolCallRequest
) -> ev.ToolCallResponse:
    """Return the response of a call, with the id that the provider uses for the call."""
    if place is None:
        return interrupted(call)
    response = cast("ev.ToolCallResponse", events[place])
    return response if response.id == call.id else msgspec.structs.replace(response, id=call.id)


# --------------------------------------------------------------------------------------------------
# The events of a conversation that is open for writing. Finished turns stay in memory as bytes, and
# their provider view is computed once.


_TAIL_BYTES = 65_536  # bytes at the end of the file that are decoded first


class HistoryPrefix:
    """The lines of `file` before the last turn of the conversation."""

    def __init__(self, lines: bytes, file: str, before: HistoryPrefix | None = None) -> None:
        """Create a prefix from `lines`. `before` is a shorter prefix of the same file; its computed
        view is reused.
        """
        self._lines = lines
        self._file = file
        self._before = before

    def __bool__(self) -> bool:
        return bool(self._lines)

    @property
    def size(self) -> int:
        """Size in bytes."""
        return len(self._lines)

    def grown(self, lines: bytes, file: str) -> HistoryPrefix:
        """Return the prefix that consists of `lines`: this object if nothing was added, else a new
        one that reuses the computed view.
        """
        if file == self._file and lines == self._lines:
            return self
        return HistoryPrefix(
            lines, file, self if file == self._file and lines.startswith(self._lines) else None
        )

    @cached_property
    def events(self) -> list[Event]:
        """All events."""
        return decode_stream(self._lines, self._file)

    def latest_first(self) -> Iterator[Event]:
        """Yield the events, newest first. The earlier events are decoded only if the caller asks
        for them.
        """
        tail_start = (
            self._lines.find(b"\n", -_TAIL_BYTES) + 1 if len(self._lines) > _TAIL_BYTES else 0
        )
        tail: list[Event] = []
        if "events" not in vars(self) and (tail_start or len(self._lines) <= _TAIL_BYTES):
            tail = decode_stream(
                self._lines[tail_start:], self._file, self._lines.count(b"\n", 0, tail_start) + 1
            )
            yield from reversed(tail)
            if not tail_start:
                return
        yield from reversed(self.events[: len(self.events) - len(tail)])

    @cached_property
    def deltas(self) -> list[Json]:
        """The values set by flags. Other events are not decoded."""
        return config_deltas(decode_kind(self._lines, "config_delta"))

    @cached_property
    def standing(self) -> tuple[ev.Standing, ...]:
        """The standing decisions. Other events are not decoded."""
        return standing_decisions(decode_kind(self._lines, "standing"))

    @cached_property
    def view(self) -> list[ev.VisibleEvent]:
        """The events that a provider sees."""
        before, self._before = self._before, None
        earlier_view = before.view if before and "view" in vars(before) else []
        rest = self._lines[before.size :] if before and earlier_view else self._lines
        decoded = (
            decode_visible(rest) if rest else []
        )  # a new conversation has no lines, and creating the decoder is slow
        view = None if decoded is None else well_formed_view(decoded)
        return provider_view(self.events) if view is None else [*earlier_view, *view]

    @cached_property
    def length(self) -> int:
        """Number of events."""
        lines = self._lines.count(b"\n")
        # a line that does not end with `}` may be blank, so only decoding can count the events
        return lines if self._lines.count(b"}\n") == lines else len(self.events)

    @cached_property
    def has_begun(self) -> bool:
        """Whether the prefix contains any events other than settings."""
        position = 0
        while position < len(self._lines):
            end = self._lines.index(b"\n", position)
            line = clean(self._lines[position:end])
            if line and begins(decode_event(line, "")):
                return True
            position = end + 1
        return False


NO_PAST = HistoryPrefix(b"", "")


class EventLog(TurnByTurn, Sequence[Event]):
    """A read-only view of a growing list of events."""

    def __init__(self, events: list[Event], past: HistoryPrefix = NO_PAST) -> None:
        """Create a view of `past`, followed by `events`. The caller may append to `events` later.

        If `past` is not empty, `events` starts with a turn.
        """
        self._events = events
        self._past = past
        self._seen: list[ev.VisibleEvent] | None = None
        self._seen_to = 0
        self._last: tuple[int, Window | None] = (-1, None)
        self._start = self._looked_to = 0

    def last_turn(self) -> Window | None:
        """Return the last turn.

        Earlier events are not decoded, only searched for the beginning of a turn.
        """
        if self._last[0] != len(self._events):
            starts_own_turn = not self._past or self._past.has_begun
            self._last = (
                len(self._events),
                (
                    turn_from(self._events, self._last_start())
                    if starts_own_turn
                    else last_turn(list(self))
                ),
            )
        return self._last[1]

    def _last_start(self) -> int:
        """Return the index where the last turn starts. Each event is checked once."""
        for place in range(max(1, self._looked_to), len(self._events)):
            event = self._events[place]
            if event.__class__ in MAY_START and starts_turn(event):
                self._start = place
        self._looked_to = len(self._events)
        return self._start

    def provider_view(self) -> list[ev.VisibleEvent]:
        """Return the events that a provider sees. The view of finished turns is computed once."""
        start = self._last_start()
        seen = self._past.view if self._seen is None else self._seen
        if start > self._seen_to:
            seen = [*seen, *provider_view(self._events[self._seen_to : start])]
            self._seen_to = start
        self._seen = seen
        return [*seen, *provider_view(self._events[start:])]

    def config_deltas(self) -> list[Json]:
        """Return the values set by flags."""
        return [*self._past.deltas, *config_deltas(self._events)]

    def standing_decisions(self) -> tuple[ev.Standing, ...]:
        """Return the standing decisions of the conversation."""
        return (*self._past.standing, *standing_decisions(self._events))

    @overload
    def __getitem__(self, index: int) -> Event: ...

    @overload
    def __getitem__(self, index: slice) -> tuple[Event, ...]: ...

    def __getitem__(self, index: int | slice) -> Event | tuple[Event, ...]:
        """Return one event, or a copy of several."""
        if isinstance(index, slice):
            return tuple(list(self)[index])
        if index < 0:
            return self._events[index] if -index <= len(self._events) else list(self)[index]
        place = index - self._past.length
        return self._events[place] if place >= 0 else self._past.events[index]

    def __len__(self) -> int:
        return self._past.length + len(self._events)

    def __iter__(self) -> Iterator[Event]:
        return chain(self._past.events, self._events) if self._past else iter(self._events)

    def __reversed__(self) -> Iterator[Event]:
        return self._newest_first() if self._past else reversed(self._events)

    def _newest_first(self) -> Iterator[Event]:
        """Yield the events, newest first. Earlier turns are decoded only if the caller asks for
        them.
        """
        yield from reversed(self._events)
        yield from self._past.latest_first()

    def __eq__(self, other: object) -> bool:
        """Compare with any sequence, event by event."""
        return list(self) == list(other) if isinstance(other, Sequence) else NotImplemented  # pyright: ignore[reportUnknownArgumentType]

    __hash__ = None  # type: ignore[assignment]  # mutable

    def __repr__(self) -> str:
        return repr(list(self))
