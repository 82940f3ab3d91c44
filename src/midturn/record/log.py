"""The events of a conversation held for writing: finished turns stay as they were read, and a provider's view of them is computed once."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cached_property
from itertools import chain
from typing import overload

from midturn.record.codec import clean, decode_event, decode_stream, decode_visible
from midturn.record.events import Event, VisibleEvent
from midturn.record.provider_view import provider_view, whole_view
from midturn.record.window import MAY_START, TurnByTurn, Window, begins, last_turn, starts_turn, turn_from


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
        """How many bytes this keeps."""
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

    @cached_property
    def view(self) -> list[VisibleEvent]:
        """What a provider sees of them."""
        before, self._before = self._before, None
        known = before.view if before and "view" in vars(before) else []
        rest = self._lines[before.size :] if before and known else self._lines
        decoded = decode_visible(rest) if rest else []  # what reads events is not made for a conversation that has none yet
        view = None if decoded is None else whole_view(decoded)
        return provider_view(self.events) if view is None else [*known, *view]

    @cached_property
    def length(self) -> int:
        """How many events there are."""
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
        self._seen: list[VisibleEvent] | None = None
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

    def provider_view(self) -> list[VisibleEvent]:
        """Return what a provider sees. What is over is found out once."""
        start = self._last_start()
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
        """Yield the latest first; the past is read only if a reader goes so far."""
        yield from reversed(self._events)
        yield from reversed(self._past.events)

    def __eq__(self, other: object) -> bool:
        """Compare event by event, with any sequence."""
        return list(self) == list(other) if isinstance(other, Sequence) else NotImplemented  # pyright: ignore[reportUnknownArgumentType]

    __hash__ = None  # type: ignore[assignment]  # it grows

    def __repr__(self) -> str:
        return repr(list(self))
