"""What only a person does: deciding, approving, configuring. Not a process that a tool, or an agent that we serve, has started."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Final

from midturn.core.asker import Asker
from midturn.errors import PersonNeeded
from midturn.sandbox.ancestry import ancestors
from midturn.sandbox.marks import environment_of, tool_above
from midturn.sandbox.served import agent_above

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
