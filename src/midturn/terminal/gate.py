"""The gate of the screen: one prompt at a time, while other output waits, bounded."""

from __future__ import annotations

from collections import deque
from collections.abc import Generator
from contextlib import contextmanager, suppress
from typing import Protocol

from msgspec import Struct

from midturn.prompts.cells import cells

_MOST_HELD = 1_000_000


class OutputStream(Protocol):
    """A stream that the gate writes to."""

    def write(self, text: str, /) -> object:
        """Take text."""
        ...

    def flush(self) -> object:
        """Send it on."""
        ...

    def isatty(self) -> bool:
        """Tell whether a person reads it on a terminal."""
        ...


class Footing(Struct, frozen=True):
    """The bottom row, and how many cells left of its end the cursor stands."""

    row: str
    back: int = 0


class Footer(Protocol):
    """What stands below everything that is written, until a prompt takes its place."""

    def footing(self, doing: str) -> Footing:
        """Draw the row; `doing` is what would stand there otherwise."""
        ...

    def resume(self) -> None:
        """Take keys."""
        ...

    def pause(self) -> None:
        """Take none: a prompt is open, or all is over."""
        ...


class Gate:
    """Everything of ours that goes to the screen passes here; what goes to a file or a pipe is never held."""

    def __init__(self, most_held: int = _MOST_HELD) -> None:
        self._most_held = most_held
        self._held: deque[tuple[OutputStream, str]] = deque()
        self._size = 0
        self._dropped = 0
        self._loser: OutputStream | None = None
        self._status: OutputStream | None = None
        self._status_cells = 0
        self._doing = ""
        self._footer: tuple[Footer, OutputStream] | None = None
        self._closed = False
        self.at_line_start = True
        self.prompts = 0
        """Number of prompts that have had the screen."""
        self.answered: set[str] = set()
        """Requests answered on it, by `event_id`."""
        self.asked: set[str] = set()
        """Requests whose prompt stood on it, with what it is about, by `event_id`."""

    @property
    def closed(self) -> bool:
        """Whether a prompt is open."""
        return self._closed

    def write(self, stream: OutputStream, text: str) -> None:
        """Write now, or when the prompt that is open has been answered."""
        if not text:
            return
        if not stream.isatty():
            _send(stream, text)
        elif self._closed:
            self._hold(stream, text)
        else:
            self._doing = ""
            self._take_away()
            _send(stream, text)
            self.at_line_start = text.endswith("\n")
            self.repaint()

    def show_status(self, stream: OutputStream, text: str) -> None:
        """Show a row that goes away with whatever comes next; not while a prompt is open, nor in the middle of a line.

        It is drawn over with spaces: not a byte of it is an escape.
        """
        self._doing = text
        if self._footer is not None:
            self.repaint()
        elif not self._closed and self.at_line_start:
            self._draw(stream, Footing(text))

    def clear_status(self) -> None:
        """Take the status row away."""
        self._doing = ""
        if self._footer is None:
            self._take_away()
        else:
            self.repaint()

    @contextmanager
    def above(self, footer: Footer, stream: OutputStream) -> Generator[None]:
        """Write everything above another writer's row while the block runs."""
        self._footer = footer, stream
        footer.resume()
        self.repaint()
        try:
            yield
        finally:
            footer.pause()
            self._footer = None
            self._take_away()

    def repaint(self) -> None:
        """Draw the row of the footer as it is now."""
        if self._footer is None or self._closed or not self.at_line_start:
            return
        footer, stream = self._footer
        footing = footer.footing(self._doing)
        if footing.row:
            self._draw(stream, footing)
        else:
            self._take_away()

    def _draw(self, stream: OutputStream, footing: Footing) -> None:
        wide = cells(footing.row)
        spaces = max(0, self._status_cells - wide)
        back = "\b" * (spaces + footing.back) if self._footer is not None else ""
        self._status, self._status_cells = stream, max(wide, self._status_cells)
        with suppress(OSError):  # the terminal is gone: the next write to it says so
            _send(stream, f"\r{footing.row}{' ' * spaces}{back}")

    def _take_away(self) -> None:
        if self._status is not None:
            stream, wide = self._status, self._status_cells
            self._status, self._status_cells = None, 0
            with suppress(OSError):
                _send(stream, f"\r{' ' * wide}\r")

    @contextmanager
    def shut(self) -> Generator[bool]:
        """Hold everything back while the block runs; yield whether the screen stands at the start of a line."""
        if self._footer is not None:
            self._footer[0].pause()
        self._doing = ""
        self._take_away()
        self._closed = True
        self.prompts += 1
        try:
            yield self.at_line_start
        finally:
            self._closed = False
            self.at_line_start = True
            self._release()
            if self._footer is not None:
                self._footer[0].resume()
                self.repaint()

    def _hold(self, stream: OutputStream, text: str) -> None:
        self._held.append((stream, text))
        self._size += len(text)
        while self._size > self._most_held:
            _, lost = self._held.popleft()
            self._size -= len(lost)
            self._dropped += lost.count("\n") or 1
        if self._dropped:
            self._loser = stream

    def _release(self) -> None:
        held, dropped, loser = self._held, self._dropped, self._loser
        self._held, self._size, self._dropped, self._loser = deque(), 0, 0, None
        if loser is not None:
            held.appendleft((loser, f"... {dropped} lines of output were dropped while the question was open\n"))
        for stream, text in held:
            with suppress(OSError):  # the terminal is gone: the next write to it says so
                self.write(stream, text)


def _send(stream: OutputStream, text: str) -> None:
    stream.write(text)
    stream.flush()
