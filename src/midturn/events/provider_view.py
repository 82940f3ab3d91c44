"""A provider's view of a conversation: turns mended where a process died, results right behind their calls. The log is never rewritten."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from functools import cached_property
from itertools import chain
from typing import Any, Final, cast, get_args, overload

import msgspec
from msgspec import Struct

from midturn.events import types as ev
from midturn.events.codec import Start, clean, decode_event, decode_kind, decode_stream, decode_visible
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

# Cycles: the calls of one response, whose results must follow at once -------------------------------------------------


class Cycle:
    """Follows a turn event by event. What stands in one batch was one response of the model, whatever the order of its parts."""

    def __init__(self) -> None:
        self._responding = False
        self._in_batch = False

    def ends_before(self, event: Event) -> bool:
        """Take the next event; say whether all calls before it must have their results by now."""
        ends = isinstance(event, ev.ChatRequest | ev.TurnEnd) or (not self._in_batch and self._speaks(event))
        self._responding = isinstance(event, ev.ToolCallResponse) or (self._responding and not ends)
        self._in_batch = event.more > 0 and isinstance(event, ev.ChatResponse | ev.ToolCallRequest)
        return ends

    def _speaks(self, event: Event) -> bool:
        return isinstance(event, ev.ChatResponse) or (self._responding and isinstance(event, ev.ToolCallRequest))


# Repairs of a log for readers of the whole. The file itself is never rewritten ----------------------------------------


_RESPONSES: Final = (ev.InquiryAnswered, ev.InquiryCancelled, ev.InquiryRedacted)
_NOTES: Final = frozenset(get_args(ev.Note))


class Repairs(Struct, frozen=True):
    """Repairs of `sanitize`, by the `event_id`s concerned; false where the stream was whole.

    `started` are the events before which a `turn_start` was missing, `interrupted` the calls that got a synthetic response,
    `cancelled` the requests that got `cancelled: user`, `dropped` the responses that no request asked for.
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
    """Return a well-formed stream, and what had to be done to it.

    It starts with a `turn_start`; every call of a finished turn has a response; inquiries are whole inside their turn. Of the open turn
    only responses without a request are dropped. Nothing that a provider sees is lost, and a second pass changes nothing.

    Args:
        events: The events as they were read, oldest first.
    """
    events = list(events)
    whole: list[Event] = []
    repairs = Repairs()
    for number, window in enumerate(turns(events)):
        content, started = (window.events, Repairs()) if number else _start(window.events)
        content, dropped = _drop_orphans(content)
        repairs += started + dropped
        if not window.open:
            content, cancelled = _cancel_requests(content)
            content, answered = _answer_calls(content)
            for _ in content:  # where ids repeat, a new response may take the place of another's
                if not pair_calls(content).unanswered:
                    break
                content, more = _answer_calls(content)
                answered += more
            repairs += cancelled + answered
        whole += content
    return whole or events, repairs


def interrupted(call: ev.ToolCallRequest) -> ev.ToolCallResponse:
    """Return the synthetic response of a call that has none; the same call always gets the same one."""
    return ev.ToolCallResponse(
        timestamp=call.timestamp,
        event_id=_beside(call, "interrupted"),
        id=call.id,
        call=call.event_id,
        content=ev.INTERRUPTED,
        is_error=True,
    )


def _beside(event: Event, what: str) -> str:
    """Derive an id for a synthetic event: no two events get the same one, and no run of it differs."""
    return f"{event.event_id}:{what}" if event.event_id else ""


def _start(events: Sequence[Event]) -> tuple[Sequence[Event], Repairs]:
    """Put the first turn's `turn_start` before everything else of it; make one where it is missing."""
    place = next((place for place, event in enumerate(events) if starts_turn(event)), None)
    if place is not None:
        return (events[place], *events[:place], *events[place + 1 :]), Repairs()
    start = ev.TurnStart(timestamp=events[0].timestamp, event_id=_beside(events[0], "start"))
    return (start, *events), Repairs(started=(events[0].event_id,))


def _drop_orphans(events: Sequence[Event]) -> tuple[Sequence[Event], Repairs]:
    orphans = {*pair_inquiries(events).orphans, *_orphaned_notes(events)}
    if not orphans:
        return events, Repairs()
    kept = [event for place, event in enumerate(events) if place not in orphans]
    return kept, Repairs(dropped=tuple(events[place].event_id for place in sorted(orphans)))


def _orphaned_notes(events: Sequence[Event]) -> list[int]:
    """Return the places of votes and other notes on requests that are not there."""
    if _NOTES.isdisjoint(map(type, events)):  # as usual
        return []
    asked = {event.id for event in events if isinstance(event, ev.InquiryRequest | ev.Approval)}
    return [place for place, event in enumerate(events) if isinstance(event, ev.Note) and event.id not in asked]


def _cancel_requests(events: Sequence[Event]) -> tuple[Sequence[Event], Repairs]:
    """Cancel what was never answered: behind every response that has the same id, for pairs are found in order."""
    unanswered = pair_inquiries(events).unanswered
    cancelled: dict[int, list[Event]] = {}
    for place in sorted(unanswered):
        request = cast("ev.InquiryRequest", events[place])
        behind = max([place, *(at for at, event in enumerate(events) if isinstance(event, _RESPONSES) and event.id == request.id)])
        response = ev.InquiryCancelled(timestamp=request.timestamp, event_id=_beside(request, "cancelled"), id=request.id, reason="user")
        cancelled.setdefault(behind, []).append(response)
    whole = [one for place, event in enumerate(events) for one in (event, *cancelled.get(place, ()))]
    return whole, Repairs(cancelled=tuple(events[place].event_id for place in sorted(unanswered)))


def _answer_calls(events: Sequence[Event]) -> tuple[Sequence[Event], Repairs]:
    """Give every call without a response a synthetic one, before anything else is said."""
    unanswered = pair_calls(events).unanswered
    whole: list[Event] = []
    due: list[ev.ToolCallRequest] = []
    cycle = Cycle()
    for place, event in enumerate(events):
        if cycle.ends_before(event):
            whole += map(interrupted, due)
            due = []
        whole.append(event)
        if place in unanswered and isinstance(event, ev.ToolCallRequest):
            due.append(event)
    whole += map(interrupted, due)
    return whole, Repairs(interrupted=tuple(events[place].event_id for place in sorted(unanswered)))


def provider_view(events: Iterable[Event]) -> list[ev.VisibleEvent]:
    """Return the visible events, so that every provider accepts them: each call has exactly one response, before anything else is said.

    A call without a response, in the open turn too, gets a synthetic one. A response that stands too late moves to its place; one that
    belongs to no call is left out.
    """
    if isinstance(events, TurnByTurn):
        return events.provider_view()
    events = events if isinstance(events, (list, Sequence)) else list(events)  # asking a class for `Sequence` is slow
    whole = whole_view(events)
    return [event for window in turns(events) for event in _turn_view(window.events)] if whole is None else whole


def last_user_request(events: Sequence[Event]) -> ev.ChatRequest | None:
    """Return what the user asked for last."""
    for event in reversed(events):
        if isinstance(event, ev.ChatRequest):
            return event
    return None


def whole_view(events: Iterable[Event | Start]) -> list[ev.VisibleEvent] | None:
    """Return the visible events as they are, where each call has its response in its place; else None."""
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
            if waiting and kind in _ENDING:
                return None
            continue
        elif waiting:
            return None
        view.append(event)
    return None if waiting else view


_ENDING: Final = (Start, ev.TurnStart, ev.TurnEnd, ev.OpaqueEvent)
"""Behind these, or what they may stand for, no call of before gets its response."""


def _turn_view(events: Sequence[Event]) -> list[ev.VisibleEvent]:
    whole = whole_view(events)
    return mended_view(events) if whole is None else whole


def mended_view(events: Sequence[Event]) -> list[ev.VisibleEvent]:
    """Return the visible events of one turn, each call with its response behind it."""
    pairing = pair_calls(events)
    asked_by = {response: request for request, response in pairing.responses.items()}
    view: list[ev.VisibleEvent] = []
    due: dict[int, ev.ToolCallResponse] = {}
    cycle = Cycle()
    for place, event in enumerate(events):
        if cycle.ends_before(event):
            view += due.values()
            due = {}
        if isinstance(event, ev.ToolCallResponse):
            if response := due.pop(asked_by.get(place, -1), None):
                view.append(response)
        elif ev.visible(event):
            view.append(cast("ev.VisibleEvent", event))
        if isinstance(event, ev.ToolCallRequest):
            due[place] = _result(events, pairing.responses.get(place), event)
    return [*view, *due.values()]


def _result(events: Sequence[Event], place: int | None, call: ev.ToolCallRequest) -> ev.ToolCallResponse:
    """Return the response of a call, under the id by which the provider knows the call."""
    if place is None:
        return interrupted(call)
    response = cast("ev.ToolCallResponse", events[place])
    return response if response.id == call.id else msgspec.structs.replace(response, id=call.id)


# ----------------------------------------------------------------------------------------------------------------------
# The events of a conversation held for writing: finished turns stay as they were read, and a provider's view of them is computed once


_LATE = 65_536  # bytes


class Past:
    """The whole lines before the last turn of `file`."""

    def __init__(self, lines: bytes, file: str, before: Past | None = None) -> None:
        """Keep lines; `before` is what is known of their beginning."""
        self._lines = lines
        self._file = file
        self._before = before

    def __bool__(self) -> bool:
        return bool(self._lines)

    @property
    def size(self) -> int:
        """Number of bytes that this keeps."""
        return len(self._lines)

    def grown(self, lines: bytes, file: str) -> Past:
        """Return the past that is in a file by now: this one, or one that begins like this, so that what is known of it stays known."""
        if file == self._file and lines == self._lines:
            return self
        return Past(lines, file, self if file == self._file and lines.startswith(self._lines) else None)

    @cached_property
    def events(self) -> list[Event]:
        """All events."""
        return decode_stream(self._lines, self._file)

    def latest_first(self) -> Iterator[Event]:
        """Yield the events from the end on: the last ones are read alone, and all only for a reader that goes further."""
        begin = self._lines.find(b"\n", -_LATE) + 1 if len(self._lines) > _LATE else 0
        late: list[Event] = []
        if "events" not in vars(self) and (begin or len(self._lines) <= _LATE):
            late = decode_stream(self._lines[begin:], self._file, self._lines.count(b"\n", 0, begin) + 1)
            yield from reversed(late)
            if not begin:
                return
        yield from reversed(self.events[: len(self.events) - len(late)])

    @cached_property
    def deltas(self) -> list[Json]:
        """Values set by flags in them; no other event is made for it."""
        return config_deltas(decode_kind(self._lines, "config_delta"))

    @cached_property
    def standing(self) -> tuple[ev.Standing, ...]:
        """Decisions in them that hold for the rest of the conversation; no other event is decoded for it."""
        return standing_decisions(decode_kind(self._lines, "standing"))

    @cached_property
    def view(self) -> list[ev.VisibleEvent]:
        """The events as a provider sees them."""
        before, self._before = self._before, None
        known = before.view if before and "view" in vars(before) else []
        rest = self._lines[before.size :] if before and known else self._lines
        decoded = decode_visible(rest) if rest else []  # what reads events is not made for a conversation that has none yet
        view = None if decoded is None else whole_view(decoded)
        return provider_view(self.events) if view is None else [*known, *view]

    @cached_property
    def length(self) -> int:
        """Number of events."""
        lines = self._lines.count(b"\n")
        return lines if self._lines.count(b"}\n") == lines else len(self.events)  # else there may be blank ones

    @cached_property
    def has_begun(self) -> bool:
        """Whether anything is said or done in it."""
        position = 0
        while position < len(self._lines):
            end = self._lines.index(b"\n", position)
            line = clean(self._lines[position:end])
            if line and begins(decode_event(line, "")):
                return True
            position = end + 1
        return False


NO_PAST = Past(b"", "")


class EventLog(TurnByTurn, Sequence[Event]):
    """A view of a list that goes on growing, which can be read and not changed."""

    def __init__(self, events: list[Event], past: Past = NO_PAST) -> None:
        """Show `events`, which stay with the maker of the list, behind a `past`; where there is one, they begin with a turn."""
        self._events = events
        self._past = past
        self._seen: list[ev.VisibleEvent] | None = None
        self._seen_to = 0
        self._last: tuple[int, Window | None] = (-1, None)
        self._start = self._looked_to = 0

    def last_turn(self) -> Window | None:
        """Return the last turn. Nothing of the past is looked at for it, but for whether anything was said there."""
        if self._last[0] != len(self._events):
            whole = not self._past or self._past.has_begun
            self._last = len(self._events), turn_from(self._events, self._last_start()) if whole else last_turn(list(self))
        return self._last[1]

    def _last_start(self) -> int:
        """Return the place at which the last turn starts: each event is looked at once for it."""
        for place in range(max(1, self._looked_to), len(self._events)):
            event = self._events[place]
            if event.__class__ in MAY_START and starts_turn(event):
                self._start = place
        self._looked_to = len(self._events)
        return self._start

    def provider_view(self) -> list[ev.VisibleEvent]:
        """Return what a provider sees. What is over is found out once."""
        start = self._last_start()
        seen = self._past.view if self._seen is None else self._seen
        if start > self._seen_to:
            seen = [*seen, *provider_view(self._events[self._seen_to : start])]
            self._seen_to = start
        self._seen = seen
        return [*seen, *provider_view(self._events[start:])]

    def config_deltas(self) -> list[Json]:
        """Return what flags set."""
        return [*self._past.deltas, *config_deltas(self._events)]

    def standing_decisions(self) -> tuple[ev.Standing, ...]:
        """Return the decisions that hold for the rest of the conversation."""
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
        return self._into_the_past() if self._past else reversed(self._events)

    def _into_the_past(self) -> Iterator[Event]:
        """Yield the latest first; the past is read only if a reader goes so far."""
        yield from reversed(self._events)
        yield from self._past.latest_first()

    def __eq__(self, other: object) -> bool:
        """Compare event by event, with any sequence."""
        return list(self) == list(other) if isinstance(other, Sequence) else NotImplemented  # pyright: ignore[reportUnknownArgumentType]

    __hash__ = None  # type: ignore[assignment]  # it grows

    def __repr__(self) -> str:
        return repr(list(self))
