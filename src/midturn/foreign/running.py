"""The agent that runs our hook: which session and which process it is, and how it was started."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Collection, Iterator, Mapping, Sequence
from pathlib import Path, PurePath

from midturn.core.json_value import JsonObject
from midturn.core.loose_json import text
from midturn.store.processes import parent

_FARTHEST = 6
_NAME, _ID = 40, 8  # characters of what names a subagent
_PROGRAM = 4  # arguments in which a program's name stands: an interpreter and its own options come before it


class Runs:
    """What agents say in the same way: their session in the document or in a variable, their process in a variable or not at all."""

    session_variable = ""
    process_variable = ""

    def session(self, document: JsonObject, environment: Mapping[str, str]) -> str:
        """Return the session's id; empty where it does not say."""
        return text(document.get("session_id")) or environment.get(self.session_variable, "")

    def subagent(self, document: JsonObject) -> str:
        """Return what kind of subagent asks, and the beginning of its id; empty where the main agent does, which has no id."""
        id = text(document.get("agent_id"))  # noqa: A001  the wire's word
        return " ".join(filter(None, (text(document.get("agent_type"))[:_NAME], id[:_ID]))) if id else ""

    def process(self, environment: Mapping[str, str]) -> int:
        """Return the agent's own process; 0 where it does not say."""
        given = environment.get(self.process_variable, "")
        return int(given) if given.isdecimal() else 0


def started_with(*names: str) -> Sequence[str]:
    """Return the arguments of the nearest process above us that is one of these programs; none where there is no such process."""
    return next((arguments[1:] for _, arguments in _above(names)), ())


def has_prompt(arguments: Sequence[str]) -> bool:
    """Say whether a program was started with a prompt (`-p`): it has one turn, and asks nobody at a terminal."""
    return not {"-p", "--prompt"}.isdisjoint(arguments)


def process_of(*names: str) -> int:
    """Return the nearest process above us that is one of these programs; 0 where there is none that can be told."""
    return next((pid for pid, _ in _above(names)), 0)


def is_above(pid: int) -> bool:
    """Say whether we descend from a process, as an agent's hook does from its agent. The first process of all is nobody's agent."""
    above, steps = os.getppid(), 0
    while above > 1 and above != pid and steps < _FARTHEST:
        above, steps = parent(above), steps + 1
    return above > 1 and above == pid


def _above(names: Collection[str]) -> Iterator[tuple[int, list[str]]]:
    """Yield the processes above us that are one of these programs, the nearest first, with their arguments."""
    pid = os.getppid()
    for _ in range(_FARTHEST):
        arguments = _arguments(pid)
        if any(not names_of(word).isdisjoint(names) for word in arguments[:_PROGRAM]):
            yield pid, arguments
        pid = parent(pid)
        if pid <= 1:
            break


def names_of(program: str) -> frozenset[str]:
    """Return what a program's path calls it: its file, and the package that the file is in."""
    path = PurePath(program)
    return frozenset((path.stem, path.parent.name, path.parent.parent.name)) if path.is_absolute() else frozenset((path.stem,))


def _arguments(pid: int) -> list[str]:
    try:
        return os.fsdecode(Path(f"/proc/{pid}/cmdline").read_bytes()).rstrip("\0").split("\0")
    except OSError:
        if Path("/proc/self/cmdline").exists():
            return []
        printed = subprocess.run(["/bin/ps", "-o", "args=", "-p", str(pid)], capture_output=True, check=False)  # noqa: S603
        return os.fsdecode(printed.stdout).split()
