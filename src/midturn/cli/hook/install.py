"""`midturn hook install`: an agent asks through midturn from its next session on."""

from __future__ import annotations

import click

from midturn.cli.hook.options import with_agent, with_policy
from midturn.cli.hook.where import WAIT, command_line, writable_installation_of
from midturn.cli.output import tell
from midturn.cli.shown import block
from midturn.foreign.agents import AGENTS, DEFERRING
from midturn.foreign.installing import install
from midturn.sandbox.doors import for_people_only


@click.command
@with_agent
@with_policy
def command(*, agent: str, project: bool, policy: str) -> None:
    """Write hooks into the settings of AGENT. What is there stays; `midturn hook uninstall` undoes it."""
    for_people_only("change what agents ask through")
    if policy != WAIT and agent not in DEFERRING:
        raise click.UsageError(
            f"{AGENTS[agent].name} cannot end in the middle of a call: `--policy {policy}` is for {', '.join(DEFERRING)}."
        )
    installation = writable_installation_of(agent, policy, project=project)
    changed = install(installation, command_line(agent, policy), agent)
    if changed:
        tell("{} asks through midturn now: {} was changed.", AGENTS[agent].name, installation.file)
    else:
        tell("{} asks through midturn already: {} stays as it is.", AGENTS[agent].name, installation.file)
    tell(block(installation.advice))
    tell(block(installation.killed))
    tell("Questions wait in `midturn inbox`, and on the page of `midturn serve`; `midturn answer ID` answers one.")
