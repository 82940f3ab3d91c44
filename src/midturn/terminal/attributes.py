"""Terminal attributes for prompts: line mode and single-key mode."""

from __future__ import annotations

import os
import termios
from enum import IntEnum
from typing import Any, TypeAlias

INTERRUPT = b"\x03"
SUSPEND = b"\x1a"

Attributes: TypeAlias = list[Any]
"""Attributes of a terminal, as returned by `tcgetattr`."""


class _At(IntEnum):
    """Indexes into the list that `tcgetattr` returns."""

    IFLAG = 0
    OFLAG = 1
    LFLAG = 3
    CHARACTERS = 6


def line_mode(found: Attributes, *, hidden: bool) -> Attributes:
    """Return attributes for line mode: the terminal edits the line.

    Ctrl-C and Ctrl-Z end the line instead of sending a signal.
    """
    wanted = _copy(found)
    wanted[_At.IFLAG] = (found[_At.IFLAG] | termios.ICRNL) & ~(
        termios.IGNCR | termios.INLCR | termios.IMAXBEL
    )
    wanted[_At.OFLAG] |= termios.OPOST | termios.ONLCR
    shown = termios.ECHO | termios.ECHOE | termios.ECHOK
    lines = (
        found[_At.LFLAG] & ~(termios.ISIG | termios.ECHONL | shown)
        | termios.ICANON
        | termios.IEXTEN
    )
    wanted[_At.LFLAG] = lines if hidden else lines | shown
    wanted[_At.CHARACTERS][termios.VEOL] = INTERRUPT
    wanted[_At.CHARACTERS][termios.VEOL2] = SUSPEND
    return wanted


def without_echo(found: Attributes) -> Attributes:
    """Return attributes without echo."""
    wanted = _copy(found)
    wanted[_At.LFLAG] &= ~(termios.ECHO | termios.ECHONL)
    return wanted


def kept_for_later(found: Attributes) -> Attributes:
    """Return attributes without echo, which leave every key in the input buffer for the next
    reader.

    Ctrl-C sends a signal, but does not discard the input that was typed before it.
    """
    wanted = silent_mode(found)
    wanted[_At.LFLAG] = (
        wanted[_At.LFLAG] & ~termios.IEXTEN | (found[_At.LFLAG] & termios.ISIG) | termios.NOFLSH
    )
    return wanted


def edited_meanwhile(found: Attributes) -> Attributes:
    """Return attributes for editing a line during a turn.

    They are the attributes of `kept_for_later`, but Enter and Ctrl-J can be told apart.
    """
    wanted = kept_for_later(found)
    wanted[_At.IFLAG] &= ~(termios.ICRNL | termios.INLCR | termios.IGNCR)
    return wanted


def silent_mode(found: Attributes) -> Attributes:
    """Return attributes for single-key input without echo."""
    wanted = _copy(found)
    wanted[_At.LFLAG] &= ~(termios.ISIG | termios.ICANON | termios.ECHO | termios.ECHONL)
    wanted[_At.CHARACTERS][termios.VMIN] = 1
    wanted[_At.CHARACTERS][termios.VTIME] = 0
    return wanted


def key_mode(found: Attributes) -> Attributes:
    """Return attributes for raw single-key input without echo. Output processing stays on."""
    wanted = silent_mode(found)
    wanted[_At.IFLAG] &= ~(
        termios.ICRNL
        | termios.INLCR
        | termios.IGNCR
        | termios.IXON
        | termios.IXOFF
        | termios.ISTRIP
    )
    wanted[_At.OFLAG] |= termios.OPOST | termios.ONLCR
    wanted[_At.LFLAG] &= ~termios.IEXTEN
    return wanted


def _copy(found: Attributes) -> Attributes:
    return [*found[: _At.CHARACTERS], [*found[_At.CHARACTERS]]]


# --------------------------------------------------------------------------------------------------
# The controlling terminal. This part imports little, because programs that turn out to have no
# terminal load it, too.


_CANDIDATES = (2, 0, 1)
_FALLBACK = "/dev/tty"


def terminal_path() -> str:
    """Return the path of the controlling terminal: the device of stderr, stdin or stdout, else
    `/dev/tty`.

    The name of the device is preferred, because some systems cannot poll `/dev/tty`.
    """
    for fd in _CANDIDATES:
        try:
            os.tcgetpgrp(fd)  # fails unless `fd` is the controlling terminal
            return os.ttyname(fd)
        except OSError:
            continue
    return _FALLBACK


def open_by_path(path: str) -> int:
    """Open a terminal for reading and writing. It does not become the controlling terminal.

    Raises:
        OSError: The terminal cannot be opened.
    """
    return os.open(path, os.O_RDWR | os.O_NOCTTY | os.O_CLOEXEC)


def can_open_terminal() -> bool:
    """Return whether the process has a controlling terminal that can be opened.

    Redirected streams do not matter.
    """
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
