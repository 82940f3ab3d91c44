"""One of the two streams that a turn is shown on: a person's terminal, or a file or a pipe."""

from __future__ import annotations

import errno
import io
import os
from collections.abc import Callable
from typing import Literal, TextIO, TypeAlias

from midturn.terminal.ascii import as_ascii
from midturn.terminal.gate import Gate
from midturn.terminal.look import Look

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
