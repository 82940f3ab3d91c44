"""`midturn hook status`: which agents ask through midturn."""

from __future__ import annotations

import click

from midturn.cli.hook.options import with_optional_agent
from midturn.cli.hook.where import installation_of
from midturn.cli.output import say, tell
from midturn.cli.shown import block
from midturn.foreign.agents import AGENTS
from midturn.foreign.installing import installed


@click.command
@with_optional_agent
def command(*, agent: str | None, project: bool) -> None:
    """Say for AGENT, or for each of them, whether its hooks are there, and what happens where one is killed."""
    for key in [agent] if agent else AGENTS:
        installation = installation_of(key, project=project)
        events = installed(installation, key)
        if events:
            say("{}: asks through midturn ({}), by {}.", AGENTS[key].name, ", ".join(events), installation.file)
        else:
            say("{}: asks by itself; `midturn hook install {}` changes that.", AGENTS[key].name, key)
        tell(block(f"  {installation.killed}"))
