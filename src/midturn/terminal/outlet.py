"""One of the two streams that a turn writes to: a person's terminal, or a file or pipe (spec 5.1)."""

from __future__ import annotations

import errno
import os
from contextlib import suppress
from typing import Literal, TextIO, TypeAlias

from midturn.terminal.gate import Gate

Look: TypeAlias = Literal["rich", "plain", "untouched"]
"""Text on a terminal with colours, on one without, and text that no terminal shows."""

_NOBODY_READS = frozenset({errno.EPIPE, errno.EIO, errno.ENXIO, errno.EBADF})
_DEFAULT_COLUMNS = 80


class Outlet:
    """Writes whole rows. What goes to the screen that prompts appear on waits at the gate while one is open."""

    def __init__(self, stream: TextIO | None, gate: Gate, *, colours: bool) -> None:
        self._stream = stream
        self._gate = gate
        self.is_terminal = stream is not None and stream.isatty()
        self._on_screen = self.is_terminal and _is_controlling(stream)
        self.look: Look = "untouched" if not self.is_terminal else "rich" if colours else "plain"
        self.at_line_start = True
        self.encoding = (stream.encoding if stream is not None else None) or "utf-8"

    @property
    def unicode(self) -> bool:
        """Whether it shows more than ASCII."""
        return self.encoding.replace("-", "").lower() == "utf8"

    @property
    def columns(self) -> int:
        """How wide the terminal is; 80 where it does not say."""
        try:
            return os.get_terminal_size(self._descriptor()).columns or _DEFAULT_COLUMNS
        except (OSError, ValueError):
            return _DEFAULT_COLUMNS

    @property
    def in_foreground(self) -> bool:
        """Whether our job has the terminal now."""
        try:
            return os.tcgetpgrp(self._descriptor()) == os.getpgrp()
        except (OSError, ValueError):
            return False

    def write(self, text: str) -> None:
        """Write text, now or when the prompt that is open has been answered.

        Raises:
            OSError: It cannot be written, and somebody would read it. (That nobody reads any more is no error: the turn goes on.)
        """
        if not text:
            return
        self.at_line_start = text.endswith("\n")
        if self._on_screen:
            self._gate.write(self, text)
        else:
            self.send(text)

    def end_line(self) -> None:
        """Finish a line that was begun."""
        if not self.at_line_start:
            self.write("\n")

    def send(self, text: str) -> None:
        """Write to the stream itself, at once."""
        if self._stream is None:  # it was closed before we began
            return
        try:
            self._stream.write(text.encode(self.encoding, "backslashreplace").decode(self.encoding))
            self._stream.flush()
        except (OSError, ValueError) as error:
            if isinstance(error, OSError) and error.errno not in _NOBODY_READS:
                raise
            self._forget()

    def flush(self) -> None:
        """Do nothing: everything is sent at once."""

    def isatty(self) -> bool:
        """Say whether the gate holds it back."""
        return self._on_screen

    def _descriptor(self) -> int:
        if self._stream is None:
            raise OSError(errno.EBADF, "the stream is closed")
        return self._stream.fileno()

    def _forget(self) -> None:
        """Let what is still to be written go nowhere: Python would complain about it when it ends."""
        with suppress(OSError, ValueError):
            nowhere = os.open(os.devnull, os.O_WRONLY | os.O_CLOEXEC)
            os.dup2(nowhere, self._descriptor())
            os.close(nowhere)
        self._stream = None


def _is_controlling(stream: TextIO | None) -> bool:
    """Tell whether this terminal is the one that our questions are asked on."""
    try:
        return stream is not None and os.tcgetpgrp(stream.fileno()) >= 0
    except (OSError, ValueError):
        return False
