"""`midturn acp`: our assistant as an agent of the Agent Client Protocol, for editors."""

from __future__ import annotations

import importlib.util
import os
import stat
import sys
from collections.abc import Mapping

import click

from midturn.cli.exit_status import ExitStatus
from midturn.cli.lazy import CommandEntry, LazyGroup
from midturn.cli.loading import Flags
from midturn.cli.options import with_model, with_store
from midturn.cli.place import StoreAddress
from midturn.config.assign import Assignment
from midturn.errors import ConfigError
from midturn.sandbox.doors import for_people_only

_MISSING = 'The Agent Client Protocol needs the extra `acp`: install it with `pip install "midturn[acp]"`.'


class _Group(LazyGroup):
    """Serves where no command is named."""

    sections: Mapping[str, Mapping[str, CommandEntry]] = {
        "Commands": {
            "run": CommandEntry("midturn.cli.acp.run", "Run one without anybody at its terminal; what it asks waits in the inbox.")
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
    from midturn.cli.acp.serving import serve_editor

    for_people_only("take answers for one")
    assignments = [Assignment("assistant.model.id", model, "--model")] if model else []
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
        raise ConfigError(_MISSING)
