"""Runs `midturn` below a process with the command line of an agent.

    under_agent.py AGENT ARGUMENT [WORD...]

A hook searches for its agent among its parent processes. This process overwrites its own
command line with the agent's, and forks.
"""

from __future__ import annotations

import ctypes
import os
import sys
from pathlib import Path

from midturn import __main__ as midturn

_BEGIN, _END = 45, 46  # fields after the name in /proc/PID/stat: addresses of the command line


def main(agent: str, given: str, *arguments: str) -> None:
    """Take the agent's command line; exit with the status of `midturn`."""
    _set_command_line(agent, given)
    child = os.fork()
    if child:
        sys.exit(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
    sys.argv = ["midturn", *arguments]
    midturn.main()


def _set_command_line(*words: str) -> None:
    places = Path("/proc/self/stat").read_text().rpartition(") ")[2].split()
    begin, end = int(places[_BEGIN]), int(places[_END])
    line = b"".join(os.fsencode(word) + b"\0" for word in words)
    assert len(line) <= end - begin, "the command line of what forks commands is too short"
    ctypes.memmove(begin, line.ljust(end - begin, b"\0"), end - begin)


main(*sys.argv[1:])
