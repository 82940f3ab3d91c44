"""`midturn acp`: our assistant for editors; and agents of others that speak the Agent Client Protocol."""

from __future__ import annotations

import asyncio
import importlib.util
import os
import stat
import sys
from collections.abc import Mapping
from pathlib import Path

import click

from midturn.cli.command_context import Place, StoreAddress
from midturn.cli.headless import complain, headless_place, prompt_of, say_prose, to_its_end
from midturn.cli.lazy import CommandEntry, LazyGroup
from midturn.cli.loading import Flags, rules_in
from midturn.cli.options import with_model, with_store
from midturn.cli.output import ExitStatus, note
from midturn.clock import SYSTEM
from midturn.config.assign import Assignment
from midturn.errors import ConfigError
from midturn.extras import install_command
from midturn.question.json_value import JsonObject
from midturn.routing.rules import Ruling
from midturn.security.authorization import for_people_only

# ----------------------------------------------------------------------------------------------------------------------
# `midturn acp`: our assistant as an agent of the Agent Client Protocol, for editors


class _Group(LazyGroup):
    """Serves where no command is named."""

    sections: Mapping[str, Mapping[str, CommandEntry]] = {
        "Commands": {
            "run": CommandEntry("midturn.cli.acp:run_command", "Run one without anybody at its terminal; what it asks waits in the inbox.")
        }
    }


@click.command("acp", cls=_Group, invoke_without_command=True)
@with_model
@click.option("--cfg", multiple=True, metavar="KEY=VALUE|FILE", help="Set a key of the configuration, or read a file of keys.")
@click.option("--own-servers", is_flag=True, help="Use the MCP servers of the configuration only, and none that the editor sends.")
@with_store
@click.pass_context
def command(
    context: click.Context, *, model: str | None, cfg: tuple[str, ...], own_servers: bool, store: StoreAddress | None
) -> ExitStatus | None:
    """Be an agent for editors that speak the Agent Client Protocol: they start this command, and talk with it over stdin and stdout.

    What the assistant asks is shown in the editor, and waits in the inbox; the first answer counts.
    """
    if context.invoked_subcommand is not None:
        return None
    check_installed()
    _check_editor()

    for_people_only("take answers for one")
    assignments = [Assignment("assistant.model.id", model, "--model")] if model else []
    from midturn.cli.acp_serving import serve_editor  # needs the extra

    return serve_editor(Flags(cfg=cfg, assignments=assignments), store, takes_servers=not own_servers)


def _check_editor() -> None:
    """Make sure that a program is at the other end: a file and /dev/null never hang up, and a person has nothing to type here.

    Raises:
        click.UsageError: stdin or stdout is neither a pipe nor a socket.
    """
    if sys.stdin is not None and sys.stdin.isatty():
        raise click.UsageError("Editors start this command, and talk with it: there is nothing to type here. `midturn chat` is for you.")
    for name, stream in (("stdin", sys.stdin), ("stdout", sys.stdout)):
        mode = os.fstat(stream.fileno()).st_mode if stream is not None else 0
        if not (stat.S_ISFIFO(mode) or stat.S_ISSOCK(mode)):
            raise click.UsageError(f"Editors start this command, and talk with it over pipes: its {name} is not one.")


def check_installed() -> None:
    """Make sure that the library for the protocol is there.

    Raises:
        ConfigError: It is not.
    """
    if importlib.util.find_spec("acp") is None:
        raise ConfigError(f"The Agent Client Protocol needs the extra `acp`: {install_command('acp')}")


# ----------------------------------------------------------------------------------------------------------------------
# `midturn acp run`: another agent, without a terminal; its permissions and questions wait in the inbox


@click.command("run")
@click.argument("agent", nargs=-1, required=True, metavar="-- AGENT [ARGUMENT]...")
@click.option("-p", "--prompt", metavar="TEXT", help="What the agent is to do; without it, what is piped into stdin.")
@click.option("--mode", metavar="MODE", help="One of the agent's own modes, such as one in which it asks before it edits.")
@with_store
def run_command(*, agent: tuple[str, ...], prompt: str | None, mode: str | None, store: StoreAddress | None) -> ExitStatus:
    """Run AGENT, such as `gemini --acp`, with one prompt. What it says goes to stdout.

    What it asks waits in `midturn inbox`, for as long as it takes: silence is never an answer.
    """
    check_installed()
    return asyncio.run(_run(headless_place(store), agent, prompt_of(prompt), mode))


async def _run(place: Place, agent: tuple[str, ...], prompt: str, mode: str | None) -> ExitStatus:
    from midturn.integrations.acp.running import AcpRun

    rules, program = rules_in(place), Path(agent[0]).stem

    def rule(_: str, tool: str, arguments: JsonObject) -> Ruling:  # whatever name the agent gives itself
        return rules(program, tool, arguments)

    run = AcpRun(command=agent, cwd=place.cwd, store=place.store, clock=SYSTEM, say=say_prose, complain=complain, rules=rule, mode=mode)
    ended = await to_its_end(run.go(prompt), place)
    say_prose("\n")
    if ended is None or ended == "cancelled":
        note("midturn: the agent was stopped. Its unanswered questions stay on record.")
        return ExitStatus.ENDED_BY_USER
    if ended != "end_turn":
        note("midturn: the agent stopped: {}.", ended)
        return ExitStatus.ERROR
    return ExitStatus.DONE
