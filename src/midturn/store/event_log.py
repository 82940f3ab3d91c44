"""The events of a conversation that is held, for everybody to read and for nobody to change."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import overload

from midturn.core.events import Event


class EventLog(Sequence[Event]):
    """A view of a list that goes on growing."""

    def __init__(self, events: list[Event]) -> None:
        """Show `events`, which stay with whoever made the list."""
        self._events = events

    @overload
    def __getitem__(self, index: int) -> Event: ...

    @overload
    def __getitem__(self, index: slice) -> tuple[Event, ...]: ...

    def __getitem__(self, index: int | slice) -> Event | tuple[Event, ...]:
        """Return one event, or a copy of several."""
        return tuple(self._events[index]) if isinstance(index, slice) else self._events[index]

    def __len__(self) -> int:
        return len(self._events)

    def __iter__(self) -> Iterator[Event]:
        return iter(self._events)

    def __reversed__(self) -> Iterator[Event]:
        return reversed(self._events)

    def __eq__(self, other: object) -> bool:
        """Compare event by event, with any sequence."""
        return self._events == list(other) if isinstance(other, Sequence) else NotImplemented  # pyright: ignore[reportUnknownArgumentType]

    __hash__ = None  # type: ignore[assignment]  # it grows

    def __repr__(self) -> str:
        return repr(self._events)
