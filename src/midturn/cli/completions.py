"""`midturn completions`: the script that completes commands, options and ids in a shell."""

from __future__ import annotations

import click
from click.shell_completion import get_completion_class

from midturn.cli.main import COMPLETING, midturn
from midturn.cli.output import ExitStatus, block, say

SHELLS = ("bash", "zsh", "fish")
_FIRST_CALL, _EVERY_CALL = "$zsh_eval_context[-1] == loadautofunc", "$funcstack[1] == _midturn"
"""Test by which zsh's script knows a Tab: click's own test holds for the first Tab only, and the second offers nothing."""


@click.command
@click.argument("shell", type=click.Choice(SHELLS))
def command(shell: str) -> ExitStatus:
    """Print completions for SHELL. For bash: `source <(midturn completions bash)` in ~/.bashrc."""
    say(block(completion_script(shell)))
    return ExitStatus.DONE


def completion_script(shell: str) -> str:
    """Return the script that completes `midturn` in `shell`, one of `SHELLS`."""
    complete = get_completion_class(shell)
    if complete is None:
        raise ValueError(f"There are no completions for {shell!r}, only for {', '.join(SHELLS)}.")
    return complete(midturn, {}, "midturn", COMPLETING).source().replace(_FIRST_CALL, _EVERY_CALL)
