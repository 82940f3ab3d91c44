"""What a command's exit status says."""

from __future__ import annotations

from enum import IntEnum


class ExitStatus(IntEnum):
    """Every status that midturn ends with."""

    DONE = 0
    ERROR = 1
    USAGE = 2
    SUSPENDED = 3
    REFUSED = 4
    TERMINAL_GONE = 129
    ENDED_BY_USER = 130
    TERMINATED = 143
