"""Shared options of the commands that set hooks up."""

from __future__ import annotations

import logging
import shlex
import shutil
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from midturn.cli.hook.run import WAIT
from midturn.cli.hook_run import DEFER
from midturn.cli.place import environment
from midturn.errors import ConfigError, MidturnError
from midturn.files import user_state
from midturn.foreign.claude_deferring import POLICY
from midturn.foreign.clients import OURS, known_agents, support_of
from midturn.foreign.installing import HookFound, Installation, installed
from midturn.foreign.opencode import NAME as OPENCODE

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem

# ----------------------------------------------------------------------------------------------------------------------
# Command line by which another program starts this one


def own_program() -> Sequence[str]:
    """Return the words that start midturn wherever they are run: our own script, where the one on the path is that of this Python.

    Else the interpreter is named, with `-P`: an agent works in directories of anybody's, where a `click.py` must not be imported for ours.
    """
    found = shutil.which("midturn")
    return [found] if found and Path(found).parent == Path(sys.executable).parent else [sys.executable, "-P", "-m", "midturn"]


# ----------------------------------------------------------------------------------------------------------------------
# Settings files of agents, and the command of their hooks


_LOG = logging.getLogger(__name__)
_DEFER = shlex.join(DEFER)
STOPS = frozenset(("Stop", "AfterAgent", "agentStop"))
"""What agents call the end of a turn: a hook there wakes them."""


def installation_of(key: str, policy: str = WAIT, *, project: bool) -> Installation:
    """Return what installing means for an agent: for its user, or for the project in the working directory."""
    given = environment()
    support = support_of(key)
    support = support if policy == WAIT else support.deferring or support
    try:
        return support.installation(Path(given.get("HOME") or Path.home()), Path.cwd() if project else None, given)
    except MidturnError:
        raise
    except Exception as error:  # a package's own code; other agents are looked at all the same
        raise ConfigError(f"The agent `{key}` cannot say where its settings are ({type(error).__name__}: {error}).") from error


def writable_installation_of(key: str, policy: str = WAIT, *, project: bool) -> Installation:
    """Return `installation_of`, to be written.

    Raises:
        ConfigError: A project's settings are a link, or lie behind one: a clone may lead to a user's own files.
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
    return shlex.join([*program, "hook", key, *([] if policy == WAIT else DEFER)])


def kept_settings() -> Path:
    """Return where it is kept what agents' settings were before our hooks."""
    return user_state() / "hooks"


def policy_of(found: Sequence[HookFound]) -> str:
    """Return the policy with which hooks were installed."""
    return POLICY if any(_DEFER in hook.command for hook in found) else WAIT


def woken_agents() -> frozenset[str]:
    """Return the agents of this user whose sessions our hooks wake: those that wait for an answer.

    Settings that cannot be read have none.
    """
    return frozenset(key for key in known_agents() if any(hook.entry.event in STOPS and _DEFER not in hook.command for hook in _there(key)))


def _there(key: str) -> Sequence[HookFound]:
    try:
        return installed(installation_of(key, project=False), key)
    except ConfigError as error:
        _LOG.warning("%s", error)
        return ()


_F = TypeVar("_F", bound=Callable[..., Any])


class _Agents(click.Choice[str]):
    """The agents that have hooks."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        if value == OPENCODE:
            self.fail("opencode has no hooks to install. Run `midturn hook opencode` beside it: that carries what it asks.", param, ctx)
        return super().convert(value, param, ctx) if value in OURS else click.Choice(known_agents()).convert(value, param, ctx)

    def shell_complete(self, ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
        return click.Choice(known_agents()).shell_complete(ctx, param, incomplete)


_AGENT = _Agents(list(OURS))


def with_agent(command: _F) -> _F:
    """Add the argument AGENT, and where its settings are."""
    return _with_project(click.argument("agent", type=_AGENT, metavar="AGENT")(command))


def with_optional_agent(command: _F) -> _F:
    """Add the argument [AGENT], and where its settings are."""
    return _with_project(click.argument("agent", type=_AGENT, required=False, metavar="[AGENT]")(command))


def _with_project(command: _F) -> _F:
    help = "This project's settings, rather than yours."  # noqa: A001  click's word
    return click.option("--project", is_flag=True, help=help)(command)
