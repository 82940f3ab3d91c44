"""`midturn hook uninstall`: an agent asks by itself again."""

from __future__ import annotations

import click

from midturn.cli.hook.options import with_agent
from midturn.cli.hook.where import kept_settings, writable_installation_of
from midturn.cli.output import tell
from midturn.foreign.agents import AGENTS
from midturn.foreign.installing import uninstall
from midturn.sandbox.doors import for_people_only


@click.command
@with_agent
def command(*, agent: str, project: bool) -> None:
    """Take our hooks out of the settings of AGENT; nothing else is changed."""
    for_people_only("change what agents ask through")
    installation = writable_installation_of(agent, project=project)
    if uninstall(installation, agent, kept_settings()):
        tell("{} asks by itself again: our hooks are gone from {}.", AGENTS[agent].name, installation.file)
    else:
        tell("There are no hooks of ours in {}.", installation.file)
