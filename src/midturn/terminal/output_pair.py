"""What a turn shows goes through one gate: while a prompt is open, what is for its screen waits, bounded."""

from __future__ import annotations

import errno
import io
import os
from collections import deque
from collections.abc import Callable, Generator
from contextlib import contextmanager, suppress
from typing import Literal, Protocol, TextIO, TypeAlias

from msgspec import Struct

from midturn.terminal.ascii import as_ascii
from midturn.terminal.capabilities import Look
from midturn.terminal.prompts.cells import cells

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

    @property
    def is_pasting(self) -> bool:
        """Whether a paste into the row is still arriving."""
        ...

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

    @property
    def is_pasting(self) -> bool:
        """Whether a paste into the row of the footer is still arriving."""
        return self._footer is not None and self._footer[0].is_pasting

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


# ----------------------------------------------------------------------------------------------------------------------
# The two streams of a turn: a person's terminal, or a file or a pipe


_READER_GONE = frozenset({errno.EPIPE, errno.EIO, errno.ENXIO, errno.EBADF})
_DEFAULT_COLUMNS = 80
_UNKNOWN = 0


class Outlet:
    """Takes whole rows. What goes to the screen that prompts appear on waits at the gate while one is open.

    `gone` is called once, when its reader is gone; the turn goes on then, and what is written goes nowhere.
    """

    def __init__(self, stream: TextIO | None, gate: Gate, gone: Callable[[], None] = lambda: None) -> None:
        self._stream = stream
        self._gate = gate
        self._gone = gone
        self._encoding = (stream.encoding if stream is not None else None) or "utf-8"
        self.is_terminal = stream is not None and stream.isatty()
        self._is_held = self.is_terminal and self._ask(os.tcgetpgrp) is not None
        self.unicode = self._encoding.replace("-", "").lower() == "utf8"

    @property
    def columns(self) -> int:
        """Width of the terminal in columns; 80 where it does not say."""
        return self._ask(lambda fd: os.get_terminal_size(fd).columns) or _DEFAULT_COLUMNS

    @property
    def prompts(self) -> int:
        """Number of prompts that have been on this screen; none where they appear elsewhere."""
        return self._gate.prompts if self._is_held else 0

    @property
    def in_foreground(self) -> bool:
        """Whether our job has the terminal now: in the background, nothing may be drawn that is not asked for."""
        return self._ask(os.tcgetpgrp) in {os.getpgrp(), _UNKNOWN}

    def put(self, text: str) -> None:
        """Write text, now or when the prompt that is open has been answered.

        Raises:
            OSError: It cannot be written although it has a reader: the disk is full.
        """
        if text:
            self._gate.write(self, text)

    def write(self, text: str) -> None:
        """Write at once: what the gate does when it lets text through."""
        if self._stream is None:
            return
        try:
            self._stream.write(self._encodable(text))
            self._stream.flush()
        except OSError as error:
            if error.errno not in _READER_GONE:
                raise
            self._stream = None
            self._gone()

    def _encodable(self, text: str) -> str:
        if self.is_terminal and not self.unicode:
            return as_ascii(text)
        return text.encode(self._encoding, "backslashreplace").decode(self._encoding)

    def flush(self) -> None:
        """Do nothing: everything is sent at once."""

    def isatty(self) -> bool:
        """Tell the gate whether this is the screen that prompts appear on; another terminal is written to at any time."""
        return self._is_held

    def _ask(self, question: Callable[[int], int]) -> int | None:
        """Ask the terminal something; None where it does not say. A stream without a descriptor is taken for what it says it is."""
        try:
            return question(self._stream.fileno()) if self._stream is not None else None
        except io.UnsupportedOperation:
            return _UNKNOWN
        except OSError:
            return None


# ----------------------------------------------------------------------------------------------------------------------
# Both streams of a turn as one page: an empty row stands between what the assistant says and what is said beside it


PartKind: TypeAlias = Literal["words", "reasoning", "beside"]


class Page:
    """Puts whole rows on a page; the assistant's words on `out`, everything else on `err`."""

    def __init__(self, out: Outlet, err: Outlet, look: Look) -> None:
        self.out = out
        self.err = err
        self.look = look
        self._above: tuple[PartKind, Outlet] | None = None
        self._ended = False
        self._message_is_over = False
        self._prompts = 0

    def put(self, kind: PartKind, text: str) -> None:
        """Put rows below what is there."""
        if not text:
            return
        outlet = self.out if kind == "words" else self.err
        self._look_for_prompts(outlet)
        outlet.put(f"\n{text}" if self._is_apart(kind, outlet) else text)
        self._above = kind, outlet
        self._ended = False
        self._message_is_over &= kind != "words"

    def end_message(self) -> None:
        """Note that what comes next is something else, even if it is of the same kind."""
        self._message_is_over |= self._above is not None and self._above[0] == "words"
        self._ended = True

    def _look_for_prompts(self, outlet: Outlet) -> None:
        """Note a prompt that was on the screen meanwhile: it stands above now, and is none of the assistant's words."""
        if outlet.prompts > self._prompts:
            self._prompts = outlet.prompts
            self._above = "beside", outlet

    def _is_apart(self, kind: PartKind, outlet: Outlet) -> bool:
        if not outlet.is_terminal:  # in a file two messages are two paragraphs, whatever was said beside them
            return kind == "words" and self._message_is_over
        if self._above is None:
            return False
        above, last = self._above
        return last.is_terminal and (above != kind or (self._ended and kind == "words"))
