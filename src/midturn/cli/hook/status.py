"""`midturn hook status`: which agents ask through midturn, and whether their hooks are those that this midturn would install."""

from __future__ import annotations

from collections.abc import Sequence

import click

from midturn.cli.exit_status import ExitStatus
from midturn.cli.hook.options import with_optional_agent
from midturn.cli.hook.where import WAIT, command_line, installation_of, policy_of
from midturn.cli.output import note, say, tell
from midturn.cli.shown import block
from midturn.errors import ConfigError
from midturn.foreign.agents import AGENTS
from midturn.foreign.installing import HookFound, installed, switched_off, wanted
from midturn.foreign.outdated import faults


@click.command
@with_optional_agent
def command(*, agent: str | None, project: bool) -> ExitStatus:
    """Say for AGENT, or for each of them, whether its hooks are there and up to date, and what happens where one is killed.

    Your own settings are looked at, and those of the project in the working directory; with `--project`, only these. The status is 1 if
    hooks are outdated or turned off, and 2 if settings cannot be read.
    """
    worst = ExitStatus.DONE
    for key in [agent] if agent else AGENTS:
        found = [_looked_at(key, project=one) for one in _places(key, project=project)]
        is_installed = any(status is not None for status in found)
        if not is_installed:
            say("{}: asks by itself; `{}` changes that.", AGENTS[key].name, _installing(key, WAIT, project=project))
        worst = max(worst, *(status or ExitStatus.DONE for status in found))
        if is_installed or agent:
            tell(block(f"  {installation_of(key, project=project).killed}"))
    return worst


def _places(key: str, *, project: bool) -> Sequence[bool]:
    """Return whether to look into the project's settings, into the user's own, or into both; in one's home they may be the same."""
    is_same = installation_of(key, project=True).file == installation_of(key, project=False).file
    return [True] if project else [False] if is_same else [False, True]


def _looked_at(key: str, *, project: bool) -> ExitStatus | None:
    """Say what is installed in one place; None where nothing is."""
    installation = installation_of(key, project=project)
    try:
        found, off = installed(installation, key), switched_off(installation)
    except ConfigError as error:
        note("midturn: {}: {}", AGENTS[key].name, error)
        return ExitStatus.USAGE
    if not found:
        return None
    if off:
        say("{}: runs no hooks: `{}` turns all of them off in {}. Take that out there.", AGENTS[key].name, off, installation.file)
        return ExitStatus.ERROR
    policy = policy_of(found)
    wrong = faults(found, wanted(installation_of(key, policy, project=project), command_line(key, policy, project=project)))
    if wrong:
        again = _installing(key, policy, project=project)
        say("{}: its hooks are outdated: {} ({}). `{}` replaces them.", AGENTS[key].name, "; ".join(wrong), installation.file, again)
        return ExitStatus.ERROR
    say("{}: asks through midturn ({}), by {}.", AGENTS[key].name, _events(found), installation.file)
    return ExitStatus.DONE


def _events(found: Sequence[HookFound]) -> str:
    return ", ".join(hook.entry.event for hook in found)


def _installing(key: str, policy: str, *, project: bool) -> str:
    """Return the command that installs."""
    options = [*(["--project"] if project else []), *([] if policy == WAIT else ["--policy", policy])]
    return " ".join(["midturn hook install", key, *options])
