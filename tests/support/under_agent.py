"""Runs `midturn` below a process that is called like an agent, and was started with an argument.

    under_agent.py AGENT ARGUMENT [WORD...]

An agent's hook looks for its agent among the processes above it. This one writes another command line over its own, and forks.
"""

from __future__ import annotations

import ctypes
import os
import sys
from pathlib import Path

from midturn import __main__ as midturn

_BEGIN, _END = 45, 46  # where a process says, after its name in `stat`, where in its memory its command line is


def main(agent: str, given: str, *arguments: str) -> None:
    """Be called like the agent; end as `midturn` does."""
    _be_called(agent, given)
    child = os.fork()
    if child:
        sys.exit(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
    sys.argv = ["midturn", *arguments]
    midturn.main()


def _be_called(*words: str) -> None:
    places = Path("/proc/self/stat").read_text().rpartition(") ")[2].split()
    begin, end = int(places[_BEGIN]), int(places[_END])
    line = b"".join(os.fsencode(word) + b"\0" for word in words)
    assert len(line) <= end - begin, "the command line of what forks commands is too short"
    ctypes.memmove(begin, line.ljust(end - begin, b"\0"), end - begin)


main(*sys.argv[1:])
