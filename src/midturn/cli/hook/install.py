"""`midturn hook install`: an agent asks through midturn from its next session on."""

from __future__ import annotations

import shutil

import click

from midturn.cli.hook.options import with_agent, with_policy
from midturn.cli.hook.where import WAIT, command_line, installation_of, kept_settings, writable_installation_of
from midturn.cli.output import note, say, tell
from midturn.cli.shown import block
from midturn.foreign.agents import AGENTS, DEFERRING
from midturn.foreign.installing import install, to_add
from midturn.sandbox.doors import for_people_only


@click.command
@with_agent
@with_policy
@click.option("--print", "prints", is_flag=True, help="Print what would be written, and where, and change nothing.")
def command(*, agent: str, project: bool, policy: str, prints: bool) -> None:
    """Write hooks into the settings of AGENT. What is there stays; `midturn hook uninstall` undoes it."""
    if policy != WAIT and agent not in DEFERRING:
        raise click.UsageError(
            f"{AGENTS[agent].name} cannot end in the middle of a call: `--policy {policy}` is for {', '.join(DEFERRING)}."
        )
    hook = command_line(agent, policy, project=project)
    if prints:
        installation = installation_of(agent, policy, project=project)
        note("midturn: this belongs into {}:", installation.file)
        say(block(to_add(installation, hook)))
        return
    for_people_only("change what agents ask through")
    installation = writable_installation_of(agent, policy, project=project)
    changed = install(installation, hook, agent, kept_settings())
    if changed:
        tell("{} asks through midturn now: {} was changed.", AGENTS[agent].name, installation.file)
    else:
        tell("{} asks through midturn already: {} stays as it is.", AGENTS[agent].name, installation.file)
    tell(block(installation.advice))
    tell(block(installation.killed))
    if project and not shutil.which("midturn"):
        note("midturn: `midturn` is not on your PATH, and the hooks of a project name nothing else: have it there, or nobody is asked.")
    tell("Questions wait in `midturn inbox`, and on the page of `midturn serve`; `midturn answer ID` answers one.")
