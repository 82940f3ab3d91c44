"""Which terminal is the controlling one, and whether it opens: nothing is loaded to find out that nobody is there."""

from __future__ import annotations

import os

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
