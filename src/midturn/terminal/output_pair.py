"""Terminal output of a turn.

While a prompt is open, output to its screen is buffered, up to a limit.
"""

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

_MAX_BUFFERED_CHARACTERS = 1_000_000


class OutputStream(Protocol):
    """A stream that the gate writes to."""

    def write(self, text: str, /) -> object:
        """Write text."""
        ...

    def flush(self) -> object:
        """Flush the stream."""
        ...

    def isatty(self) -> bool:
        """Return whether the stream is the terminal that shows prompts."""
        ...


class StatusLine(Struct, frozen=True):
    """The text of the bottom row. The cursor is `back` cells before the end of the text."""

    row: str
    back: int = 0


class Footer(Protocol):
    """A row below all other output. While a prompt is open, the prompt replaces the row."""

    @property
    def is_pasting(self) -> bool:
        """Whether a paste into the row is still arriving."""
        ...

    def footing(self, doing: str) -> StatusLine:
        """Return the row. It replaces the status text `doing`."""
        ...

    def resume(self) -> None:
        """Start reading keys."""
        ...

    def pause(self) -> None:
        """Stop reading keys, because a prompt opens or the turn ends."""
        ...


class Gate:
    """Buffers output to the screen while a prompt is open.

    Output to files and pipes is never buffered.
    """

    def __init__(self, max_buffered: int = _MAX_BUFFERED_CHARACTERS) -> None:
        self._max_buffered = max_buffered
        self._held: deque[tuple[OutputStream, str]] = deque()
        self._size = 0
        self._dropped = 0
        self._dropped_stream: OutputStream | None = None
        self._status: OutputStream | None = None
        self._status_cells = 0
        self._activity = ""
        self._footer: tuple[Footer, OutputStream] | None = None
        self._closed = False
        self.at_line_start = True
        self.prompts = 0
        """Number of prompts shown so far."""
        self.answered: set[str] = set()
        """Event IDs of the requests that were answered on this screen."""
        self.asked: set[str] = set()
        """Event IDs of the requests for which a complete prompt was shown on this screen."""

    @property
    def closed(self) -> bool:
        """Whether a prompt is open."""
        return self._closed

    @property
    def is_pasting(self) -> bool:
        """Whether a paste into the footer's row is still arriving."""
        return self._footer is not None and self._footer[0].is_pasting

    def write(self, stream: OutputStream, text: str) -> None:
        """Write the text now, or after the open prompt is closed."""
        if not text:
            return
        if not stream.isatty():
            _send(stream, text)
        elif self._closed:
            self._hold(stream, text)
        else:
            self._activity = ""
            self._erase_status()
            _send(stream, text)
            self.at_line_start = text.endswith("\n")
            self.repaint()

    def show_status(self, stream: OutputStream, text: str) -> None:
        """Show a status row until the next output.

        It is not shown while a prompt is open or in the middle of a line. It is erased with spaces,
        without escape sequences.
        """
        self._activity = text
        if self._footer is not None:
            self.repaint()
        elif not self._closed and self.at_line_start:
            self._draw(stream, StatusLine(text))

    def clear_status(self) -> None:
        """Remove the status row."""
        self._activity = ""
        if self._footer is None:
            self._erase_status()
        else:
            self.repaint()

    @contextmanager
    def above(self, footer: Footer, stream: OutputStream) -> Generator[None]:
        """Keep the footer's row below all output while the block runs."""
        self._footer = footer, stream
        footer.resume()
        self.repaint()
        try:
            yield
        finally:
            footer.pause()
            self._footer = None
            self._erase_status()

    def repaint(self) -> None:
        """Draw the row of the footer again."""
        if self._footer is None or self._closed or not self.at_line_start:
            return
        footer, stream = self._footer
        footing = footer.footing(self._activity)
        if footing.row:
            self._draw(stream, footing)
        else:
            self._erase_status()

    def _draw(self, stream: OutputStream, footing: StatusLine) -> None:
        wide = cells(footing.row)
        spaces = max(0, self._status_cells - wide)
        back = "\b" * (spaces + footing.back) if self._footer is not None else ""
        self._status, self._status_cells = stream, max(wide, self._status_cells)
        with suppress(OSError):  # if the terminal is closed, the next write reports it
            _send(stream, f"\r{footing.row}{' ' * spaces}{back}")

    def _erase_status(self) -> None:
        if self._status is not None:
            stream, wide = self._status, self._status_cells
            self._status, self._status_cells = None, 0
            with suppress(OSError):
                _send(stream, f"\r{' ' * wide}\r")

    @contextmanager
    def shut(self) -> Generator[bool]:
        """Buffer all output while the block runs.

        Yields whether the cursor is at the start of a line.
        """
        if self._footer is not None:
            self._footer[0].pause()
        self._activity = ""
        self._erase_status()
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
        while self._size > self._max_buffered:
            _, lost = self._held.popleft()
            self._size -= len(lost)
            self._dropped += lost.count("\n") or 1
        if self._dropped:
            self._dropped_stream = stream

    def _release(self) -> None:
        held, dropped, loser = self._held, self._dropped, self._dropped_stream
        self._held, self._size, self._dropped, self._dropped_stream = deque(), 0, 0, None
        if loser is not None:
            held.appendleft(
                (loser, f"... {dropped} lines of output were dropped while the question was open\n")
            )
        for stream, text in held:
            with suppress(OSError):  # if the terminal is closed, the next write reports it
                self.write(stream, text)


def _send(stream: OutputStream, text: str) -> None:
    stream.write(text)
    stream.flush()


# --------------------------------------------------------------------------------------------------
# The two streams of a turn, each a terminal, a file or a pipe


_READER_GONE = frozenset({errno.EPIPE, errno.EIO, errno.ENXIO, errno.EBADF})
_DEFAULT_COLUMNS = 80
_UNKNOWN_GROUP = 0


class OutputSink:
    """One of the two output streams of a turn. It receives whole rows.

    `gone` is called once, when the reader closes the stream. The turn continues, and later output
    is discarded.
    """

    def __init__(
        self, stream: TextIO | None, gate: Gate, gone: Callable[[], None] = lambda: None
    ) -> None:
        self._stream = stream
        self._gate = gate
        self._gone = gone
        self._encoding = (stream.encoding if stream is not None else None) or "utf-8"
        self.is_terminal = stream is not None and stream.isatty()
        self._is_held = self.is_terminal and self._query(os.tcgetpgrp) is not None
        self.unicode = self._encoding.replace("-", "").lower() == "utf8"

    @property
    def columns(self) -> int:
        """Width of the terminal in columns, or 80 if it does not report one."""
        return self._query(lambda fd: os.get_terminal_size(fd).columns) or _DEFAULT_COLUMNS

    @property
    def prompts(self) -> int:
        """Number of prompts shown on this screen, or 0 if prompts appear on another screen."""
        return self._gate.prompts if self._is_held else 0

    @property
    def in_foreground(self) -> bool:
        """Whether this process is in the foreground job. A background job draws no status rows."""
        return self._query(os.tcgetpgrp) in {os.getpgrp(), _UNKNOWN_GROUP}

    def put(self, text: str) -> None:
        """Write the text now, or after the open prompt is answered.

        Raises:
            OSError: The stream cannot be written although it has a reader, for example because the
                disk is full.
        """
        if text:
            self._gate.write(self, text)

    def write(self, text: str) -> None:
        """Write immediately. Called by the gate."""
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
        """Do nothing, because every write is sent immediately."""

    def isatty(self) -> bool:
        """Return whether this stream is the screen that shows prompts.

        Output to other terminals is not buffered.
        """
        return self._is_held

    def _query(self, question: Callable[[int], int]) -> int | None:
        """Query the terminal. Return None if the terminal is closed.

        Return 0 for a stream without a descriptor, so that its `isatty` decides whether it is a
        terminal.
        """
        try:
            return question(self._stream.fileno()) if self._stream is not None else None
        except io.UnsupportedOperation:
            return _UNKNOWN_GROUP
        except OSError:
            return None


# --------------------------------------------------------------------------------------------------
# Both streams together: an empty row separates the assistant's text from other output


PartKind: TypeAlias = Literal["words", "reasoning", "beside"]


class OutputPair:
    """Writes the assistant's text to `out` and everything else to `err`, separated by empty rows."""

    def __init__(self, out: OutputSink, err: OutputSink, look: Look) -> None:
        self.out = out
        self.err = err
        self.look = look
        self._above: tuple[PartKind, OutputSink] | None = None
        self._ended = False
        self._message_is_over = False
        self._prompts = 0

    def put(self, kind: PartKind, text: str) -> None:
        """Write text, after an empty row if the earlier output is of another kind."""
        if not text:
            return
        outlet = self.out if kind == "words" else self.err
        self._look_for_prompts(outlet)
        outlet.put(f"\n{text}" if self._is_apart(kind, outlet) else text)
        self._above = kind, outlet
        self._ended = False
        self._message_is_over &= kind != "words"

    def end_message(self) -> None:
        """Mark the end of a message.

        The next text is then preceded by an empty row, even if it is also the assistant's text.
        """
        self._message_is_over |= self._above is not None and self._above[0] == "words"
        self._ended = True

    def _look_for_prompts(self, outlet: OutputSink) -> None:
        """Treat a prompt that was shown after the last output as output on stderr."""
        if outlet.prompts > self._prompts:
            self._prompts = outlet.prompts
            self._above = "beside", outlet

    def _is_apart(self, kind: PartKind, outlet: OutputSink) -> bool:
        if not outlet.is_terminal:  # in a file, an empty line separates two messages
            return kind == "words" and self._message_is_over
        if self._above is None:
            return False
        above, last = self._above
        return last.is_terminal and (above != kind or (self._ended and kind == "words"))
