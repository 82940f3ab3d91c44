"""Detects processes that a tool or an external agent started, even if the processes try to hide.

A process is detected if one of these signs is found:

- a resource limit that all descendants inherit and only root can raise again. It survives a new
  session, an emptied environment, a double fork and the end of midturn. Linux has not enforced this
  limit for twenty years, so setting it has no other effect;
- an environment variable, for systems without that limit;
- the ancestry: the process descends from a midturn process but is in another session. An editor
  that midturn starts is in the same session.
"""

from __future__ import annotations

import ctypes
import os
import resource
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import Final

from msgspec import Struct

# --------------------------------------------------------------------------------------------------
# Protection of this process: other processes cannot read its memory or environment, and it writes
# no core dump


NAME: Final = "midturn-agent"
"""Name of midturn in the process table. A descendant of such a process in another session is a
tool.
"""

_SET_DUMPABLE, _GET_DUMPABLE, _SET_NAME = 4, 3, 15


def harden_process() -> None:
    """Disable core dumps and memory access by other processes, and set the process name.

    Only the command line calls this function, because a library must not change its host program.
    Unsupported parts are skipped. `State` reports the result.
    """
    with suppress(ValueError, OSError):
        resource.setrlimit(resource.RLIMIT_CORE, (0, resource.getrlimit(resource.RLIMIT_CORE)[1]))
    _prctl(_SET_DUMPABLE, 0)
    _prctl(_SET_NAME, NAME.encode())


class State:
    """Security state of this process. A value is None if the system does not report it."""

    def __init__(self) -> None:
        found = _prctl(_GET_DUMPABLE, 0)
        self.dumpable: bool | None = None if found is None else found != 0
        self.leaves_core: bool = resource.getrlimit(resource.RLIMIT_CORE)[0] != 0


def _prctl(option: int, value: int | bytes) -> int | None:
    if not sys.platform.startswith("linux"):
        return None

    try:
        found = int(ctypes.CDLL(None, use_errno=True).prctl(option, value, 0, 0, 0))
    except (AttributeError, OSError):
        return None
    return None if found < 0 else found


# --------------------------------------------------------------------------------------------------
# Ancestors of this process, from `/proc`


_PROC = Path("/proc")


class Process(Struct, frozen=True):
    """A process.

    `started` (clock ticks since boot) distinguishes it from a later process with the same pid.
    """

    pid: int
    parent: int
    session: int
    started: int
    name: str


def process(pid: int) -> Process | None:
    """Return a process, or None if the process has ended or the system does not report it."""
    try:
        text = (_PROC / str(pid) / "stat").read_text(errors="replace")
    except OSError:
        return None
    before, _, after = text.rpartition(")")
    fields = after.split()
    return Process(pid, int(fields[1]), int(fields[3]), int(fields[19]), before.partition("(")[2])


def ancestors(pid: int | None = None) -> Iterator[Process]:
    """Yield the ancestors of a process (by default this one), nearest first."""
    seen: set[int] = set()
    current = process(os.getpid() if pid is None else pid)
    while current is not None and current.parent > 0 and current.parent not in seen:
        seen.add(current.parent)
        current = process(current.parent)
        if current is not None:
            yield current


@cache
def boot() -> str:
    """Return an ID of the current boot, or an empty string if it is unknown."""
    try:
        return (_PROC / "sys/kernel/random/boot_id").read_text().strip()
    except OSError:
        return ""


@cache
def namespace() -> str | None:
    """Return an ID of the pid namespace, or None if the system has only one."""
    try:
        return str((_PROC / "self/ns/pid").readlink())
    except OSError:
        return None


VARIABLE: Final = "MIDTURN_WITHIN"
"""Environment variable that names the tool or agent that started a process or one of its
ancestors.
"""

_SHELL: Final = "/bin/sh"
_SET_LIMITS: Final = 'ulimit -c 0; ulimit -x 1 2>/dev/null || ulimit -w 1 2>/dev/null; exec "$@"'
"""Shell command that sets the limits of a child process and then replaces itself with the child's
program.

It disables core dumps and sets the lock limit that marks the process (`-x` in bash, `-w` in dash).
"""

# number of the limit, the same on every architecture; Python does not define it
_RLIMIT_LOCKS: Final = 10
_MARK_LIMIT: Final = 1


def tool_above(environment: Mapping[str, str], pid: int = 0) -> str | None:
    """Return why a process is considered a tool's process, or None.

    The default is this process. The result is a clause for a message.
    """
    if name := environment.get(VARIABLE):
        return f"it was started by `{name}`"
    if _is_marked(pid):
        return "it was started by a tool or an agent"
    current = process(pid or os.getpid())
    if current is not None and any(
        _runs_tools(ancestor, current) for ancestor in ancestors(current.pid)
    ):
        return "it descends from a running turn"
    return None


def environment_of(pid: int) -> Mapping[str, str]:
    """Return the initial environment of a process, or an empty mapping if it cannot be read."""
    try:
        text = Path("/proc", str(pid), "environ").read_bytes().decode(errors="replace")
    except OSError:
        return {}
    return {name: value for name, _, value in (entry.partition("=") for entry in text.split("\0"))}


def marked(argv: Sequence[str]) -> tuple[str, ...]:
    """Return a command line that marks itself and then runs `argv`.

    `preexec_fn` is not used, because it could deadlock in threaded programs.
    """
    return (_SHELL, "-c", _SET_LIMITS, _SHELL, *argv)


def mark(pid: int) -> None:
    """Mark a running process of this user and every process that it starts later.

    A failure is ignored.
    """
    if sys.platform.startswith("linux"):
        with suppress(OSError, ValueError):
            resource.prlimit(pid, _RLIMIT_LOCKS, (_MARK_LIMIT, _MARK_LIMIT))


def _is_marked(pid: int) -> bool:
    if not sys.platform.startswith("linux"):
        return False
    try:
        hard = resource.prlimit(pid, _RLIMIT_LOCKS)[1]
    except OSError:  # the process has ended, or belongs to another user
        return False
    return hard != resource.RLIM_INFINITY and hard <= _MARK_LIMIT


def _runs_tools(ancestor: Process, current: Process) -> bool:
    # a browser that midturn itself opens is not a tool
    return (
        ancestor.name == NAME
        and ancestor.session != current.session
        and ancestor.pid != os.getpid()
    )
