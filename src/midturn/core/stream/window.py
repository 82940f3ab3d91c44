"""A conversation, turn by turn. Nothing about inquiries or calls is looked up beyond one turn."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Sequence
from typing import Final

from msgspec import Struct

from midturn.core.events import (
    ChatResponse,
    ConfigDelta,
    Event,
    InquiryAnswered,
    InquiryCancelled,
    InquiryRedacted,
    OpaqueEvent,
    TurnEnd,
    TurnStart,
    VisibleEvent,
)

MAY_START: Final = frozenset({TurnStart, OpaqueEvent})
"""The classes of events that may start a turn: whoever looks at many asks for these first."""
_BETWEEN_TURNS: Final = frozenset({ConfigDelta, OpaqueEvent})
_AFTERTHOUGHTS: Final = _BETWEEN_TURNS | {InquiryAnswered, InquiryCancelled, InquiryRedacted}
"""What may follow the last words of a legacy turn: a response there answers nothing that is still open."""


class Window(Struct, frozen=True):
    """The events of one turn. Only the last turn of a stream can be `open`."""

    events: tuple[Event, ...]
    open: bool = False


class TurnByTurn:
    """Events that are kept turn by turn: they know what the functions of this package would have to find out."""

    def last_turn(self) -> Window | None:
        """Return what `last_turn` of this module returns for all of these events."""
        raise NotImplementedError

    def provider_view(self) -> list[VisibleEvent]:
        """Return what `provider_view` returns for all of these events."""
        raise NotImplementedError


def turns(events: Iterable[Event]) -> list[Window]:
    """Split a stream into its turns.

    Each begins with a `turn_start`; what stands before the first one belongs to the first turn, or is a turn of its own where
    somebody already says something there. A stream without any turn has none.
    """
    parts: list[list[Event]] = [[]]
    for event in events:
        if starts_turn(event) and _has_begun(parts[-1]):
            parts.append([])
        parts[-1].append(event)
    if not _has_begun(parts[-1]):
        return []
    last = parts.pop()
    return [*(Window(tuple(part)) for part in parts), Window(tuple(last), not _is_finished(last))]


def last_turn(events: Sequence[Event]) -> Window | None:
    """Return the last turn, found from the end: what came before it costs nothing. The events may begin anywhere before its start."""
    if isinstance(events, TurnByTurn):
        return events.last_turn()
    return turn_from(events, _last_start(events))


def turn_from(events: Sequence[Event], start: int) -> Window | None:
    """Return the last turn, which starts at a place: what stands before it belongs to it where nobody has said anything there."""
    has_begun = start > 0 and any(begins(event) for event in itertools.islice(events, start))
    part = events[start:] if has_begun else events
    return Window(tuple(part), not _is_finished(part)) if _has_begun(part) else None


def _last_start(events: Sequence[Event]) -> int:
    """Return the place at which the last turn starts; 0 where none does."""
    for place in range(len(events) - 1, 0, -1):
        event = events[place]
        if event.__class__ in MAY_START and starts_turn(event):
            return place
    return 0


def open_turn(events: Sequence[Event]) -> Window | None:
    """Return the turn that waits to be continued. The events may begin anywhere before its `turn_start`."""
    window = last_turn(events)
    return window if window and window.open else None


def starts_turn(event: Event) -> bool:
    """Say whether a turn begins here (also where the rest of the event cannot be read)."""
    kind = event.__class__
    return kind is TurnStart or (kind is OpaqueEvent and event.type == "turn_start")


def ends_turn(event: Event) -> bool:
    """Say whether a turn ends here (also where the rest of the event cannot be read)."""
    kind = event.__class__
    return kind is TurnEnd or (isinstance(event, OpaqueEvent) and event.kind == "turn_end")


def _has_begun(part: Sequence[Event]) -> bool:
    return any(map(begins, part))


def begins(event: Event) -> bool:
    """Say whether somebody says or does something here, so that a turn has begun."""
    return event.__class__ not in _BETWEEN_TURNS or starts_turn(event)


def _is_finished(part: Sequence[Event]) -> bool:
    """Say whether a last turn is over: it says so, or it is a legacy one that ends in what the model said."""
    kinds = {event.__class__ for event in part}
    if TurnEnd in kinds or (OpaqueEvent in kinds and any(map(ends_turn, part))):
        return True
    if ChatResponse not in kinds:
        return False
    last = next((event for event in reversed(part) if event.__class__ not in _AFTERTHOUGHTS), None)
    if not isinstance(last, ChatResponse) or last.reasoning is not None or not is_legacy(last):
        return False
    return not any(event.more for event in part if event.__class__ not in _AFTERTHOUGHTS)


def is_legacy(event: Event) -> bool:
    """Say whether the event is from a stream whose turns do not say that they end: without ids, or with times of the older form."""
    return not event.event_id or event.event_id.startswith("line:") or " " in event.timestamp
