"""`midturn acp`: run as an agent in an editor, or run another agent, over the Agent Client
Protocol (ACP).
"""

from __future__ import annotations

import asyncio
import importlib.util
import os
import stat
import sys
from collections.abc import Mapping
from pathlib import Path

import click

from midturn.cli.command_context import CommandContext, StoreAddress
from midturn.cli.headless import complain, headless_place, prompt_of, run_to_end, say_prose
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
from midturn.security.authorization import require_human

# --------------------------------------------------------------------------------------------------
# `midturn acp`: midturn as an agent for editors


class _Group(LazyGroup):
    """A group that serves an editor if no subcommand is given."""

    sections: Mapping[str, Mapping[str, CommandEntry]] = {
        "Commands": {
            "run": CommandEntry("midturn.cli.acp:run_command", "Run an ACP agent with one prompt")
        }
    }


@click.command("acp", cls=_Group, invoke_without_command=True)
@with_model
@click.option(
    "--cfg",
    multiple=True,
    metavar="KEY=VALUE|FILE",
    help="Set a configuration key, or read keys from a file",
)
@click.option("--own-servers", is_flag=True, help="Ignore MCP servers sent by the editor")
@with_store
@click.pass_context
def command(
    context: click.Context,
    *,
    model: str | None,
    cfg: tuple[str, ...],
    own_servers: bool,
    store: StoreAddress | None,
) -> ExitStatus | None:
    """Run as an agent for editors that support ACP

    The editor starts this command and talks to it over stdin and stdout. Questions appear in the
    editor and in the inbox; the first answer wins.
    """
    if context.invoked_subcommand is not None:
        return None
    check_installed()
    _check_editor()

    require_human("accept answers")
    assignments = [Assignment("assistant.model.id", model, "--model")] if model else []
    from midturn.cli.acp_serving import serve_editor  # imported lazily: requires the extra `acp`

    return serve_editor(
        Flags(cfg=cfg, assignments=assignments), store, takes_servers=not own_servers
    )


def _check_editor() -> None:
    """Check that stdin and stdout are connected to an editor.

    A file or /dev/null would never disconnect, and a person at a terminal cannot type the protocol.

    Raises:
        click.UsageError: stdin or stdout is neither a pipe nor a socket.
    """
    if sys.stdin is not None and sys.stdin.isatty():
        raise click.UsageError(
            "Editors start this command and talk to it. To chat at a terminal, run `midturn chat`."
        )
    for name, stream in (("stdin", sys.stdin), ("stdout", sys.stdout)):
        mode = os.fstat(stream.fileno()).st_mode if stream is not None else 0
        if not (stat.S_ISFIFO(mode) or stat.S_ISSOCK(mode)):
            raise click.UsageError(
                f"Editors start this command and talk to it over pipes, but {name} is not a pipe."
            )


def check_installed() -> None:
    """Check that the ACP library is installed.

    Raises:
        ConfigError: The library is not installed.
    """
    if importlib.util.find_spec("acp") is None:
        raise ConfigError(
            "The Agent Client Protocol requires the extra `acp`. To install it:"
            f" {install_command('acp')}"
        )


# --------------------------------------------------------------------------------------------------
# `midturn acp run`: another agent, without a terminal


@click.command("run")
@click.argument("agent", nargs=-1, required=True, metavar="-- AGENT [ARGUMENT]...")
@click.option("-p", "--prompt", metavar="TEXT", help="Prompt (default: stdin)")
@click.option("--mode", metavar="MODE", help="Mode of the agent")
@with_store
def run_command(
    *, agent: tuple[str, ...], prompt: str | None, mode: str | None, store: StoreAddress | None
) -> ExitStatus:
    """Run an ACP agent with one prompt and route its questions to the inbox

    Prints the response on stdout and waits for answers without a time limit.

    Example: midturn acp run -p "Fix the tests" -- gemini --acp
    """
    check_installed()
    return asyncio.run(_run(headless_place(store), agent, prompt_of(prompt), mode))


async def _run(
    place: CommandContext, agent: tuple[str, ...], prompt: str, mode: str | None
) -> ExitStatus:
    from midturn.integrations.acp.running import AcpRun

    rules, program = rules_in(place), Path(agent[0]).stem

    def rule(
        _: str, tool: str, arguments: JsonObject
    ) -> Ruling:  # rules use the name of the program, because an agent can report any name
        return rules(program, tool, arguments)

    run = AcpRun(
        command=agent,
        cwd=place.cwd,
        store=place.store,
        clock=SYSTEM,
        say=say_prose,
        complain=complain,
        rules=rule,
        mode=mode,
    )
    ended = await run_to_end(run.go(prompt), place)
    say_prose("\n")
    if ended is None or ended == "cancelled":
        note("midturn: the agent was stopped. Its unanswered questions stay recorded.")
        return ExitStatus.ENDED_BY_USER
    if ended != "end_turn":
        note("midturn: the agent stopped: {}.", ended)
        return ExitStatus.ERROR
    return ExitStatus.DONE
