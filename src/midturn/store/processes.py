"""Processes that are told apart from later ones of the same number."""

from __future__ import annotations

import os
from pathlib import Path

from msgspec.structs import replace

from midturn.core.asker import ProcessMark
from midturn.core.stream import OpenQuestion
from midturn.sandbox.ancestry import boot, namespace

_ENDED = ("Z", "X", "x")
_STARTED = 19  # the place of the start time in /proc/<pid>/stat, counted behind the name
_PARENT = 1


def mark(pid: int) -> ProcessMark:
    """Return what tells this process from any other."""
    return ProcessMark(pid, _started(pid), boot(), namespace() or "")


def lives(process: ProcessMark | None) -> bool:
    """Say whether a process still runs. One of another machine, or of before it was started, does not.

    One in another container cannot be looked up from here: it counts as running, as one that holds a conversation does.
    """
    if process is None or process.boot != boot():
        return False
    return not _is_here(process) or is_found(process)


def is_found(process: ProcessMark | None) -> bool:
    """Say whether a process still runs where this one does: what it asked is not to be taken up by the next that asks the same."""
    if process is None or process.boot != boot() or not _is_here(process):
        return False
    started = _started(process.pid)
    return bool(started) and started == process.started


def _is_here(process: ProcessMark) -> bool:
    return process.namespace in ("", namespace() or "")


def looked_at(question: OpenQuestion, now: str) -> OpenQuestion | None:
    """Return the question with what is so just now: whether the process that asked still waits. None where it is over by its own end."""
    asker = question.asker
    if asker is None:
        return question
    if asker.has_ended(now):
        return None
    return replace(question, asker=replace(asker, waits=not asker.cancelled and lives(asker.process)))


def parent(pid: int) -> int:
    """Return the process that started another one; 0 where that cannot be told."""
    fields = _stat(pid)
    if fields:
        return int(fields[_PARENT])
    return int(_ps(pid, "ppid") or 0)


def _started(pid: int) -> str:
    """Return when a process was started; nothing where it has ended, also if whoever started it has not taken note of that."""
    fields = _stat(pid)
    state = fields[0] if fields else _ps(pid, "stat")
    if state[:1] in _ENDED:
        return ""
    return fields[_STARTED] if fields else _ps(pid, "lstart")


def _stat(pid: int) -> list[str]:
    try:
        return Path(f"/proc/{pid}/stat").read_text(errors="replace").rpartition(")")[2].split()
    except OSError:  # it is gone, or there is no /proc here
        return []


def _ps(pid: int, column: str) -> str:
    if Path("/proc/self/stat").exists():
        return ""
    import subprocess  # only systems without /proc need another program for that

    printed = subprocess.run(["/bin/ps", "-o", f"{column}=", "-p", str(pid)], capture_output=True, check=False, env={"LC_ALL": "C"})  # noqa: S603
    return os.fsdecode(printed.stdout).strip()
