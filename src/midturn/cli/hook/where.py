"""Where an agent's settings are, and which command its hooks run."""

from __future__ import annotations

import logging
import shlex
from collections.abc import Sequence
from pathlib import Path

from midturn.cli.own_program import own_program
from midturn.cli.place import environment
from midturn.errors import ConfigError
from midturn.files.user_directories import user_state
from midturn.foreign.agents import AGENTS, DEFERRING, INSTALLATIONS
from midturn.foreign.claude_deferring import POLICY
from midturn.foreign.installing import HookFound, Installation, installed

_LOG = logging.getLogger(__name__)
WAIT, DEFER = "wait", f"--policy {POLICY}"
STOPS = frozenset(("Stop", "AfterAgent", "agentStop"))
"""What agents call the end of a turn: a hook there wakes them."""


def installation_of(key: str, policy: str = WAIT, *, project: bool) -> Installation:
    """Return what installing means for an agent: for its user, or for the project in the working directory."""
    given = environment()
    locate = INSTALLATIONS[key] if policy == WAIT else DEFERRING[key][1]
    return locate(Path(given.get("HOME") or Path.home()), Path.cwd() if project else None, given)


def writable_installation_of(key: str, policy: str = WAIT, *, project: bool) -> Installation:
    """Return `installation_of`, to be written.

    Raises:
        ConfigError: A project's settings are a link, or lie behind one: a clone may lead to what is somebody's own.
    """
    installation = installation_of(key, policy, project=project)
    root = Path.cwd()
    parts = [installation.file, *installation.file.parents]
    link = next((part for part in parts if project and part.is_relative_to(root) and part != root and part.is_symlink()), None)
    if link:
        raise ConfigError(f"{link}: a symbolic link; hooks of a project are written in the project itself. Nothing was changed.")
    return installation


def command_line(key: str, policy: str = WAIT, *, project: bool = False) -> str:
    """Return the command of an agent's hooks; it works wherever the agent runs it.

    A project's settings are shared: the command is named there, and not where it is on this machine.
    """
    program = ["midturn"] if project else own_program()
    return shlex.join([*program, "hook", key, *([] if policy == WAIT else ["--policy", policy])])


def kept_settings() -> Path:
    """Return where it is kept what agents' settings were before our hooks."""
    return user_state() / "hooks"


def policy_of(found: Sequence[HookFound]) -> str:
    """Return the policy with which hooks were installed."""
    return POLICY if any(DEFER in hook.command for hook in found) else WAIT


def woken_agents() -> frozenset[str]:
    """Return the agents of this user whose sessions our hooks wake: those that wait for an answer.

    Settings that cannot be read have none.
    """
    return frozenset(key for key in AGENTS if any(hook.entry.event in STOPS and DEFER not in hook.command for hook in _there(key)))


def _there(key: str) -> Sequence[HookFound]:
    try:
        return installed(installation_of(key, project=False), key)
    except ConfigError as error:
        _LOG.warning("%s", error)
        return ()
