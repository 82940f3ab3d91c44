"""How a process that a tool, or an agent of others, started is known again, whatever it does to hide.

Three marks, any of which is enough:

- a limit that the kernel hands on to every descendant and that only root can raise again: it outlives a session of its own, an emptied
  environment, a double fork, and the end of midturn. The limit is one that no Linux has heeded for twenty years;
- a variable in its environment, for systems without such a limit;
- its ancestry: it descends from a process of ours and has left that process's session, which an editor that we start does not.
"""

from __future__ import annotations

import os
import resource
import sys
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Final

from midturn.sandbox.ancestry import Process, ancestors, process
from midturn.sandbox.own_process import NAME

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
