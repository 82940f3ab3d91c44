"""Our own process: nobody reads its memory or its environment, and it leaves no core behind."""

from __future__ import annotations

import resource
import sys
from contextlib import suppress
from typing import Final

NAME: Final = "midturn-agent"
"""What the process is called in the process table: what descends from it, in another session, is a tool."""

_SET_DUMPABLE, _GET_DUMPABLE, _SET_NAME = 4, 3, 15


def keep_to_itself() -> None:
    """Make this process neither dumpable nor a source of cores, and give it its name.

    This is for the command line: a library leaves its program alone. What the kernel does not offer is left out; `state` says what holds.
    """
    with suppress(ValueError, OSError):
        resource.setrlimit(resource.RLIMIT_CORE, (0, resource.getrlimit(resource.RLIMIT_CORE)[1]))
    _prctl(_SET_DUMPABLE, 0)
    _prctl(_SET_NAME, NAME.encode())


class State:
    """What holds for this process now; None where the system does not say."""

    def __init__(self) -> None:
        found = _prctl(_GET_DUMPABLE, 0)
        self.dumpable: bool | None = None if found is None else found != 0
        self.leaves_core: bool = resource.getrlimit(resource.RLIMIT_CORE)[0] != 0


def _prctl(option: int, value: int | bytes) -> int | None:
    if not sys.platform.startswith("linux"):
        return None
    import ctypes  # only where there is something to set

    try:
        found = int(ctypes.CDLL(None, use_errno=True).prctl(option, value, 0, 0, 0))
    except (AttributeError, OSError):
        return None
    return None if found < 0 else found
