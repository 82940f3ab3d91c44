"""The agents of others that ask through us: what they start does nothing in their user's place.

An agent's process is marked in the kernel, as a tool is, when it is first served, and noted by its number and its start in the user's
state directory. The mark holds for what it starts from then on, whatever that does to hide; the note, for what it had started before.
"""

from __future__ import annotations

import os
from contextlib import suppress
from itertools import chain
from pathlib import Path
from typing import Final

from midturn.core.asker import ProcessMark
from midturn.files.private import create_private, ensure_private, read_private
from midturn.files.user_directories import user_state
from midturn.sandbox import marks
from midturn.sandbox.ancestry import ancestors, boot, process

_BETWEEN: Final = frozenset({"sh", "bash", "dash", "zsh", "fish", "ksh", "busybox", "env", "timeout", "uv", "uvx"})
"""What may stand between an agent and us: any other program is perhaps one that plays an agent, with its user's own work below it."""


def remember(agent: ProcessMark | None, name: str) -> None:
    """Mark and note an agent's process, which is certain; where that cannot be done, the questions still name it."""
    if agent is None:
        return
    if _is_right_above(agent.pid):
        marks.mark(agent.pid)
    note = _notes() / _named(agent.pid, agent.started)
    if not note.exists():
        with suppress(OSError):
            ensure_private(note.parent)
            _forget_ended(note.parent)
            create_private(note, f"{agent.boot}\n{name}".encode())


def agent_above(pid: int | None = None) -> str | None:
    """Say which agent that we serve a process (by default this one) is, or descends from: a sentence's end; None where there is none."""
    notes = _notes()
    if not notes.is_dir():
        return None
    itself = process(os.getpid() if pid is None else pid)
    for one in chain([itself] if itself else [], ancestors(pid)):
        written = read_private(notes / _named(one.pid, str(one.started)))
        since, _, name = (written or b"").decode(errors="replace").partition("\n")
        if written and since == boot():
            return f"it descends from {name}, which asks through midturn"
    return None


def _is_right_above(pid: int) -> bool:
    for one in ancestors():
        if one.pid == pid:
            return one.name not in _BETWEEN  # a shell is perhaps its user's own
        if one.name not in _BETWEEN:
            break
    return False


def _forget_ended(notes: Path) -> None:
    for note in notes.iterdir():
        number, _, started = note.name.partition("-")
        found = process(int(number)) if number.isdecimal() else None
        if found is None or str(found.started) != started:
            note.unlink(missing_ok=True)


def _named(pid: int, started: str) -> str:
    return f"{pid}-{started}"


def _notes() -> Path:
    return user_state() / "agents"
