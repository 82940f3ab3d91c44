"""Actions that only a person may perform: answering, approving and configuring.

A process may not perform them if it was started by a tool, or by an external agent that midturn
serves.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from contextlib import suppress
from itertools import chain
from pathlib import Path
from typing import Final

from midturn.errors import PersonNeeded
from midturn.events.open_question import AskingAgent, ProcessMark
from midturn.security import process_ancestry
from midturn.security.private_files import create_private, ensure_private, read_private, user_state
from midturn.security.process_ancestry import ancestors, boot, environment_of, process, tool_above

# --------------------------------------------------------------------------------------------------
# External agents that ask questions through midturn. The processes that they start may not act
# for the user.
# When an agent connects for the first time, its process is marked in the kernel (see
# `process_ancestry`) and recorded by pid and start time in the user's state directory. The kernel
# mark covers every process that the agent starts later, even if that process tries to hide. The
# record covers the processes that the agent started earlier.


_WRAPPER_PROGRAMS: Final = frozenset(
    {"sh", "bash", "dash", "zsh", "fish", "ksh", "busybox", "env", "timeout", "uv", "uvx"}
)
"""Programs that may be between an agent and midturn in the process tree.

Any other program above midturn could be the agent.
"""


def mark_agent(agent: ProcessMark | None, name: str) -> None:
    """Mark an agent's process in the kernel and record the process.

    If neither is possible, the agent is still identified by its name in its questions.
    """
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
    """Return a clause for an error message if this process or one of its ancestors is a served
    agent, otherwise None.

    `pid` selects another process.
    """
    notes = _notes()
    if not notes.is_dir():
        return None
    current = process(os.getpid() if pid is None else pid)
    for candidate in chain([current] if current else [], ancestors(pid)):
        written = read_private(notes / _named(candidate.pid, str(candidate.started)))
        since, _, name = (written or b"").decode(errors="replace").partition("\n")
        if written and since == boot():
            return f"it descends from {name}, which asks through midturn"
    return None


def _is_right_above(pid: int) -> bool:
    for ancestor in ancestors():
        if ancestor.pid == pid:
            # a shell may have been started by the user
            return ancestor.name not in _WRAPPER_PROGRAMS
        if ancestor.name not in _WRAPPER_PROGRAMS:
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


_REMEDY: Final = "A person must do this, in a terminal that no agent started."


def require_human(what: str) -> None:
    """Raise an error if this process was started by a tool or by a served agent.

    Args:
        what: The refused action, as a verb phrase for the message, such as `answer questions`.

    Raises:
        PersonNeeded: A tool or an agent started this process.
    """
    if why := nonhuman_reason(os.environ):
        raise PersonNeeded(f"This process may not {what}: {why}. {_REMEDY}")


def nonhuman_reason(environment: Mapping[str, str]) -> str | None:
    """Return why this process is considered a tool's or agent's process, or None.

    The result is a clause for a message.
    """
    return agent_above() or tool_above(environment)


def nonhuman_process_reason(pid: int) -> str | None:
    """Return why another process is considered a tool's or agent's process, or None."""
    return agent_above(pid) or tool_above(environment_of(pid), pid)


def refuse_asking_agent(asker: AskingAgent | None) -> None:
    """Raise an error if this process descends from the agent that asked the question.

    Otherwise, an agent that can run commands could answer its own questions.

    Raises:
        PersonNeeded: This process descends from that agent.
    """
    if asker is None or asker.itself is None:
        return
    agent = (asker.itself.pid, asker.itself.started)
    if any((ancestor.pid, str(ancestor.started)) == agent for ancestor in ancestors()):
        raise PersonNeeded(
            f"This process may not answer questions: it descends from {asker.name}, which asked"
            f" them. {_REMEDY}"
        )
