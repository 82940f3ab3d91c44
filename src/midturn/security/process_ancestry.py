"""Recognition of a process that a tool, or another agent, has started, whatever it does to hide.

Three marks, any of which is enough:

- a limit that the kernel hands on to every descendant and that only root can raise again: it outlives a session of its own, an emptied
  environment, a double fork, and the end of midturn. The limit is one that no Linux has heeded for twenty years;
- a variable in its environment, for systems without such a limit;
- its ancestry: it descends from a process of ours and has left that process's session, which an editor that we start does not.
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

# ----------------------------------------------------------------------------------------------------------------------
# Our own process: no other one reads its memory or its environment, and it leaves no core behind


NAME: Final = "midturn-agent"
"""Its name in the process table: what descends from it, in another session, is a tool."""

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
    """State of this process; None where the system does not say."""

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


# ----------------------------------------------------------------------------------------------------------------------
# Which processes this one descends from, as far as the system tells


_PROC = Path("/proc")


class Process(Struct, frozen=True):
    """One process. `started` (clock ticks since the system was) tells it from a later one that has the same number."""

    pid: int
    parent: int
    session: int
    started: int
    name: str


def process(pid: int) -> Process | None:
    """Look a process up; None where it is gone, or the system does not say."""
    try:
        text = (_PROC / str(pid) / "stat").read_text(errors="replace")
    except OSError:
        return None
    before, _, after = text.rpartition(")")
    fields = after.split()
    return Process(pid, int(fields[1]), int(fields[3]), int(fields[19]), before.partition("(")[2])


def ancestors(pid: int | None = None) -> Iterator[Process]:
    """Yield the parent of a process (by default this one), its parent, and so on."""
    seen: set[int] = set()
    here = process(os.getpid() if pid is None else pid)
    while here is not None and here.parent > 0 and here.parent not in seen:
        seen.add(here.parent)
        here = process(here.parent)
        if here is not None:
            yield here


@cache
def boot() -> str:
    """Return what tells this run of the machine from any other; empty where that cannot be told."""
    try:
        return (_PROC / "sys/kernel/random/boot_id").read_text().strip()
    except OSError:
        return ""


@cache
def namespace() -> str | None:
    """Return what names the numbers of processes that this one sees; None where the system has one for all."""
    try:
        return str((_PROC / "self/ns/pid").readlink())
    except OSError:
        return None


VARIABLE: Final = "MIDTURN_WITHIN"
"""Names the tool, or the agent, whose process, or descendant, has it in its environment."""

_SHELL: Final = "/bin/sh"
_LIMITS: Final = 'ulimit -c 0; ulimit -x 1 2>/dev/null || ulimit -w 1 2>/dev/null; exec "$@"'
"""Sets the limits of a child, in a shell that becomes it: no core, and the mark (bash calls it `-x`, dash `-w`)."""

_RLIMIT_LOCKS: Final = 10  # the same number on every architecture; Python has no name for it
_MARKED: Final = 1


def tool_above(environment: Mapping[str, str], pid: int = 0) -> str | None:
    """Say why a process (by default this one) counts as a tool's: a sentence's end; None where nothing says so."""
    if name := environment.get(VARIABLE):
        return f"it was started by `{name}`"
    if _is_marked(pid):
        return "it was started by a tool or an agent"
    here = process(pid or os.getpid())
    if here is not None and any(_runs_tools(one, here) for one in ancestors(here.pid)):
        return "it descends from a turn that is running"
    return None


def environment_of(pid: int) -> Mapping[str, str]:
    """Return the environment that a process was started with; nothing where it may not be read."""
    try:
        text = Path("/proc", str(pid), "environ").read_bytes().decode(errors="replace")
    except OSError:
        return {}
    return {name: value for name, _, value in (entry.partition("=") for entry in text.split("\0"))}


def marked(argv: Sequence[str]) -> tuple[str, ...]:
    """Return a command line that marks itself, and becomes `argv`: not `preexec_fn`, which can deadlock where other threads run."""
    return (_SHELL, "-c", _LIMITS, _SHELL, *argv)


def mark(pid: int) -> None:
    """Mark a process of this user's that runs already, and whatever it starts from now on; where that cannot be done it stays as it is."""
    if sys.platform.startswith("linux"):
        with suppress(OSError, ValueError):
            resource.prlimit(pid, _RLIMIT_LOCKS, (_MARKED, _MARKED))


def _is_marked(pid: int) -> bool:
    if not sys.platform.startswith("linux"):
        return False
    try:
        hard = resource.prlimit(pid, _RLIMIT_LOCKS)[1]
    except OSError:  # it has ended, or is another user's
        return False
    return hard != resource.RLIM_INFINITY and hard <= _MARKED


def _runs_tools(one: Process, here: Process) -> bool:
    return one.name == NAME and one.session != here.session and one.pid != os.getpid()  # a browser that we open is no tool of ours
