"""Acts reserved to people: deciding, approving, configuring. A process that a tool, or an agent that we serve, has started is refused."""

from __future__ import annotations

import os
from collections.abc import Mapping
from contextlib import suppress
from itertools import chain
from pathlib import Path
from typing import Final

from midturn.errors import PersonNeeded
from midturn.events.open_question import Asker, ProcessMark
from midturn.security import process_ancestry
from midturn.security.private_files import create_private, ensure_private, read_private, user_state
from midturn.security.process_ancestry import ancestors, boot, environment_of, process, tool_above

# ----------------------------------------------------------------------------------------------------------------------
# The agents of others that ask through us: what they start does nothing in their user's place.
# An agent's process is marked in the kernel, as a tool is, when it is first served, and noted by its number and its start in the user's
# state directory. The mark holds for what it starts from then on, whatever that does to hide; the note, for what it had started before.


_BETWEEN: Final = frozenset({"sh", "bash", "dash", "zsh", "fish", "ksh", "busybox", "env", "timeout", "uv", "uvx"})
"""Programs that may stand between an agent and us: any other one may play an agent, with its user's own work below it."""


def remember(agent: ProcessMark | None, name: str) -> None:
    """Mark and note an agent's process, which is certain; where that cannot be done, the questions still name it."""
    if agent is None:
        return
    if _is_right_above(agent.pid):
        process_ancestry.mark(agent.pid)
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


_AFTER: Final = "A person has to do it, at a terminal of their own."


def for_people_only(what: str) -> None:
    """Refuse to do `what` (`answer questions`) for a tool, or for an agent that we serve.

    Raises:
        PersonNeeded: This process was started by one.
    """
    if why := not_a_persons(os.environ):
        raise PersonNeeded(f"This process may not {what}: {why}. {_AFTER}")


def not_a_persons(environment: Mapping[str, str]) -> str | None:
    """Say why this process counts as a tool's or an agent's: a sentence's end; None where nothing says so."""
    return agent_above() or tool_above(environment)


def not_a_persons_process(pid: int) -> str | None:
    """Say why another process of this user counts as a tool's or an agent's, as `not_a_persons` does of this one."""
    return agent_above(pid) or tool_above(environment_of(pid), pid)


def not_for_its_own_agent(asker: Asker | None) -> None:
    """Refuse to answer a question for the very agent that asks it, which may run commands.

    Raises:
        PersonNeeded: This process descends from that agent.
    """
    if asker is None or asker.itself is None:
        return
    agent = (asker.itself.pid, asker.itself.started)
    if any((one.pid, str(one.started)) == agent for one in ancestors()):
        raise PersonNeeded(f"This process may not answer questions: it descends from {asker.name}, which asks them. {_AFTER}")
