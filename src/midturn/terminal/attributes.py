"""Settings of a terminal, as `tcgetattr` returns them, for what a prompt needs: lines, or single keys."""

from __future__ import annotations

import os
import termios
from enum import IntEnum
from typing import Any, TypeAlias

INTERRUPT = b"\x03"
SUSPEND = b"\x1a"

Attributes: TypeAlias = list[Any]
"""Attributes of a terminal, as `tcgetattr` returns them."""


class _At(IntEnum):
    """Indexes into the attributes of `tcgetattr`."""

    IFLAG = 0
    OFLAG = 1
    LFLAG = 3
    CHARACTERS = 6


def line_mode(found: Attributes, *, hidden: bool) -> Attributes:
    """Return settings in which the terminal edits a line itself; Ctrl-C and Ctrl-Z end it instead of raising signals."""
    wanted = _copy(found)
    wanted[_At.IFLAG] = (found[_At.IFLAG] | termios.ICRNL) & ~(termios.IGNCR | termios.INLCR | termios.IMAXBEL)
    wanted[_At.OFLAG] |= termios.OPOST | termios.ONLCR
    shown = termios.ECHO | termios.ECHOE | termios.ECHOK
    lines = found[_At.LFLAG] & ~(termios.ISIG | termios.ECHONL | shown) | termios.ICANON | termios.IEXTEN
    wanted[_At.LFLAG] = lines if hidden else lines | shown
    wanted[_At.CHARACTERS][termios.VEOL] = INTERRUPT
    wanted[_At.CHARACTERS][termios.VEOL2] = SUSPEND
    return wanted


def without_echo(found: Attributes) -> Attributes:
    """Return settings in which lines are read as before, and nothing that is typed is shown."""
    wanted = _copy(found)
    wanted[_At.LFLAG] &= ~(termios.ECHO | termios.ECHONL)
    return wanted


def kept_for_later(found: Attributes) -> Attributes:
    """Return settings in which nothing that is typed is shown, and every key is kept as it is for the next reader.

    Ctrl-C interrupts, and what was typed before it is kept, too.
    """
    wanted = silent_mode(found)
    wanted[_At.LFLAG] = wanted[_At.LFLAG] & ~termios.IEXTEN | (found[_At.LFLAG] & termios.ISIG) | termios.NOFLSH
    return wanted


def edited_meanwhile(found: Attributes) -> Attributes:
    """Return settings as of `kept_for_later`, for a line that is edited while a turn runs: Enter is told from Ctrl-J."""
    wanted = kept_for_later(found)
    wanted[_At.IFLAG] &= ~(termios.ICRNL | termios.INLCR | termios.IGNCR)
    return wanted


def silent_mode(found: Attributes) -> Attributes:
    """Return settings in which every key arrives at once and nothing is shown."""
    wanted = _copy(found)
    wanted[_At.LFLAG] &= ~(termios.ISIG | termios.ICANON | termios.ECHO | termios.ECHONL)
    wanted[_At.CHARACTERS][termios.VMIN] = 1
    wanted[_At.CHARACTERS][termios.VTIME] = 0
    return wanted


def key_mode(found: Attributes) -> Attributes:
    """Return settings in which every key arrives at once, as it is, and nothing is shown; output stays as it was."""
    wanted = silent_mode(found)
    wanted[_At.IFLAG] &= ~(termios.ICRNL | termios.INLCR | termios.IGNCR | termios.IXON | termios.IXOFF | termios.ISTRIP)
    wanted[_At.OFLAG] |= termios.OPOST | termios.ONLCR
    wanted[_At.LFLAG] &= ~termios.IEXTEN
    return wanted


def _copy(found: Attributes) -> Attributes:
    return [*found[: _At.CHARACTERS], [*found[_At.CHARACTERS]]]


# ----------------------------------------------------------------------------------------------------------------------
# The controlling terminal: nothing else is loaded to find out that there is none


_CANDIDATES = (2, 0, 1)
_FALLBACK = "/dev/tty"


def terminal_path() -> str:
    """Return the path of the first of stderr, stdin, stdout that is our controlling terminal, else `/dev/tty`.

    By its own name where possible: some systems cannot wait for input on `/dev/tty`.
    """
    for fd in _CANDIDATES:
        try:
            os.tcgetpgrp(fd)  # fails where it is not a terminal, or not the controlling one
            return os.ttyname(fd)
        except OSError:
            continue
    return _FALLBACK


def open_by_path(path: str) -> int:
    """Open a terminal for reading and writing, and return the descriptor; it does not become the controlling one.

    Raises:
        OSError: It cannot be opened.
    """
    return os.open(path, os.O_RDWR | os.O_NOCTTY | os.O_CLOEXEC)


def can_open_terminal() -> bool:
    """Tell whether a person can be asked here: whether the controlling terminal opens. Pipes change nothing."""
    try:
        fd = open_by_path(terminal_path())
    except OSError:
        return False
    try:
        os.tcgetpgrp(fd)
    except OSError:
        return False
    finally:
        os.close(fd)
    return True
