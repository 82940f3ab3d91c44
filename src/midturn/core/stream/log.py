"""The events of a conversation that is held: what is over is kept as it was read, and what a provider sees of it is found out once."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import chain
from typing import overload

from midturn.core.events import Event, VisibleEvent
from midturn.core.stream.past import Past
from midturn.core.stream.provider_view import provider_view
from midturn.core.stream.window import TurnByTurn, Window, last_turn, starts_turn

NO_PAST = Past(b"", "")


class EventLog(TurnByTurn, Sequence[Event]):
    """A view of a list that goes on growing, for everybody to read and for nobody to change."""

    def __init__(self, events: list[Event], past: Past = NO_PAST) -> None:
        """Show `events`, which stay with whoever made the list, behind a `past`; where there is one, they begin with a turn."""
        self._events = events
        self._past = past
        self._seen: list[VisibleEvent] | None = None
        self._seen_to = 0
        self._last: tuple[int, Window | None] = (-1, None)

    def last_turn(self) -> Window | None:
        """Return the last turn. Nothing of the past is looked at for it, but for whether anybody said something there."""
        if self._last[0] != len(self._events):
            self._last = len(self._events), last_turn(self._events if not self._past or self._past.has_begun else list(self))
        return self._last[1]

    def provider_view(self) -> list[VisibleEvent]:
        """Return what a provider sees. What is over is found out once."""
        start = next((place for place in range(len(self._events) - 1, -1, -1) if starts_turn(self._events[place])), 0)
        seen = self._past.view if self._seen is None else self._seen
        if start > self._seen_to:
            seen = [*seen, *provider_view(self._events[self._seen_to : start])]
            self._seen_to = start
        self._seen = seen
        return [*seen, *provider_view(self._events[start:])]

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
        """Yield the latest first; the past is read only if somebody goes so far."""
        yield from reversed(self._events)
        yield from reversed(self._past.events)

    def __eq__(self, other: object) -> bool:
        """Compare event by event, with any sequence."""
        return list(self) == list(other) if isinstance(other, Sequence) else NotImplemented  # pyright: ignore[reportUnknownArgumentType]

    __hash__ = None  # type: ignore[assignment]  # it grows

    def __repr__(self) -> str:
        return repr(list(self))
