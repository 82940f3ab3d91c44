"""`midturn completions`: the script that completes commands, options and ids in a shell."""

from __future__ import annotations

import click
from click.shell_completion import get_completion_class

from midturn.cli.exit_status import ExitStatus
from midturn.cli.main import midturn
from midturn.cli.output import say
from midturn.cli.shown import block

SHELLS = ("bash", "zsh", "fish")
_VARIABLE = "_MIDTURN_COMPLETE"


@click.command
@click.argument("shell", type=click.Choice(SHELLS))
def command(shell: str) -> ExitStatus:
    """Print completions for SHELL. For bash: `source <(midturn completions bash)` in ~/.bashrc."""
    complete = get_completion_class(shell)
    if complete is not None:
        say(block(complete(midturn, {}, "midturn", _VARIABLE).source()))
    return ExitStatus.DONE
