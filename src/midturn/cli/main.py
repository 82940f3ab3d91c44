"""`midturn`: finds the command, and turns every error into a message and an exit status."""

from __future__ import annotations

import importlib
import os
import signal
import sys
from collections.abc import Sequence
from difflib import get_close_matches

import click

from midturn.cli.exit_status import ExitStatus
from midturn.cli.output import note
from midturn.errors import ConfigError, MidturnError

COMMANDS = {
    "answer": "midturn.cli.answer",
    "config": "midturn.cli.config",
    "conversation": "midturn.cli.conversation",
    "demo": "midturn.cli.demo.command",
    "inbox": "midturn.cli.inbox",
    "init": "midturn.cli.init",
    "query": "midturn.cli.query",
    "resume": "midturn.cli.resume",
    "trust": "midturn.cli.trust",
}
ALIASES = {"q": "query", "c": "conversation"}


class Commands(click.Group):
    """Loads a command's module when it is called: `midturn --help` costs nothing of what a command needs.

    Several words in one argument are a query: `midturn "two words"`.
    """

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002  click's signature
        """Return the names of all commands."""
        return sorted(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:  # noqa: ARG002  click's signature
        """Load a command."""
        module = COMMANDS.get(ALIASES.get(cmd_name, cmd_name))
        return importlib.import_module(module).command if module else None

    def resolve_command(self, ctx: click.Context, args: list[str]) -> tuple[str | None, click.Command | None, list[str]]:
        """Find the command that the arguments name."""
        first = args[0]
        if any(letter.isspace() for letter in first):
            return "query", self.get_command(ctx, "query"), args
        if self.get_command(ctx, first) is None:
            near = get_close_matches(first, [*COMMANDS, *ALIASES], n=1)
            hint = f" Did you mean `{near[0]}`?" if near else f' To ask something, write `midturn query "{first} …"`.'
            raise click.UsageError(f"There is no command {first!r}.{hint}", ctx)
        return super().resolve_command(ctx, args)


def _print_version(ctx: click.Context, _: click.Parameter, value: bool) -> None:  # noqa: FBT001  click's signature
    if value:
        from midturn import __version__

        click.echo(f"midturn {__version__}")
        ctx.exit()


@click.command(cls=Commands, context_settings={"help_option_names": ["-h", "--help"]})
@click.option("--version", is_flag=True, is_eager=True, expose_value=False, callback=_print_version, help="Say which version this is.")
def midturn() -> None:
    """Ask whoever should answer, in the middle of an agent's turn, and lose nothing."""


def run(arguments: Sequence[str] | None = None) -> int:  # noqa: PLR0911  one return a kind of ending
    """Run a command; return its exit status."""
    try:
        status = midturn.main(args=list(arguments) if arguments is not None else None, prog_name="midturn", standalone_mode=False)
    except click.exceptions.Exit as stop:
        return stop.exit_code
    except click.ClickException as error:
        note(_usage(error))
        return ExitStatus.USAGE
    except ConfigError as error:
        note(f"midturn: {error}")
        return ExitStatus.USAGE
    except MidturnError as error:
        note(f"midturn: {error}")
        return ExitStatus.ERROR
    except (KeyboardInterrupt, click.Abort):
        return ExitStatus.ENDED_BY_USER
    except BrokenPipeError:
        _forget_stdout()
        return 128 + signal.SIGPIPE
    return status if isinstance(status, int) else ExitStatus.DONE


def _usage(error: click.ClickException) -> str:
    context = getattr(error, "ctx", None)
    hint = f"\nTry `{context.command_path} --help`." if isinstance(context, click.Context) else ""
    return f"midturn: {error.format_message()}{hint}"


def _forget_stdout() -> None:
    """Whoever read stdout is gone: keep Python from complaining about it when it ends."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
