"""Repair a stream for whoever reads it as a whole. The file itself is never rewritten."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final, cast

from msgspec import Struct

from midturn.core.events import (
    Event,
    InquiryAnswered,
    InquiryCancelled,
    InquiryRedacted,
    InquiryRequest,
    ToolCallRequest,
    ToolCallResponse,
    TurnStart,
)
from midturn.core.stream.cycle import Cycle
from midturn.core.stream.pairing import pair_calls, pair_inquiries
from midturn.core.stream.window import starts_turn, turns

_RESPONSES: Final = (InquiryAnswered, InquiryCancelled, InquiryRedacted)
INTERRUPTED: Final = "Tool call interrupted before it finished."
"""What a model reads as the result of a call that has none."""


class Repairs(Struct, frozen=True):
    """What `sanitize` did, by the `event_id`s it is about; false where the stream was whole.

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


def interrupted(call: ToolCallRequest) -> ToolCallResponse:
    """Return the synthetic response of a call that has none; the same call always gets the same one."""
    return ToolCallResponse(
        timestamp=call.timestamp,
        event_id=_beside(call, "interrupted"),
        id=call.id,
        call=call.event_id,
        content=INTERRUPTED,
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
    start = TurnStart(timestamp=events[0].timestamp, event_id=_beside(events[0], "start"))
    return (start, *events), Repairs(started=(events[0].event_id,))


def _drop_orphans(events: Sequence[Event]) -> tuple[Sequence[Event], Repairs]:
    orphans = set(pair_inquiries(events).orphans)
    if not orphans:
        return events, Repairs()
    kept = [event for place, event in enumerate(events) if place not in orphans]
    return kept, Repairs(dropped=tuple(events[place].event_id for place in sorted(orphans)))


def _cancel_requests(events: Sequence[Event]) -> tuple[Sequence[Event], Repairs]:
    """Cancel what was never answered: behind every response that has the same id, for pairs are found in order."""
    unanswered = pair_inquiries(events).unanswered
    cancelled: dict[int, list[Event]] = {}
    for place in sorted(unanswered):
        request = cast("InquiryRequest", events[place])
        behind = max([place, *(at for at, event in enumerate(events) if isinstance(event, _RESPONSES) and event.id == request.id)])
        response = InquiryCancelled(timestamp=request.timestamp, event_id=_beside(request, "cancelled"), id=request.id, reason="user")
        cancelled.setdefault(behind, []).append(response)
    whole = [one for place, event in enumerate(events) for one in (event, *cancelled.get(place, ()))]
    return whole, Repairs(cancelled=tuple(events[place].event_id for place in sorted(unanswered)))


def _answer_calls(events: Sequence[Event]) -> tuple[Sequence[Event], Repairs]:
    """Give every call without a response a synthetic one, before anything else is said."""
    unanswered = pair_calls(events).unanswered
    whole: list[Event] = []
    due: list[ToolCallRequest] = []
    cycle = Cycle()
    for place, event in enumerate(events):
        if cycle.ends_before(event):
            whole += map(interrupted, due)
            due = []
        whole.append(event)
        if place in unanswered and isinstance(event, ToolCallRequest):
            due.append(event)
    whole += map(interrupted, due)
    return whole, Repairs(interrupted=tuple(events[place].event_id for place in sorted(unanswered)))
