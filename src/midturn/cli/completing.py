"""Shell completion. The functions import their modules only when Tab is pressed.

`midturn completions` prints the script that a shell loads.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, TypeAlias

import click

from midturn.cli.lazy import COMPLETING
from midturn.cli.output import ExitStatus, block, say
from midturn.errors import MidturnError
from midturn.question.text import exact

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem

    from midturn.cli.completions import Completions, Subject

Completing: TypeAlias = "Callable[[click.Context, click.Parameter, str], list[CompletionItem]]"
_MAX_HELP_LENGTH = 72


def item(value: str, help: str = "") -> CompletionItem:
    """Return one completion, with its description on one line."""
    from click.shell_completion import CompletionItem

    text = exact(help)
    return CompletionItem(
        value,
        help=(text if len(text) <= _MAX_HELP_LENGTH else f"{text[: _MAX_HELP_LENGTH - 1]}…")
        or None,
    )


def _completing(what: Subject) -> Completing:
    def complete(
        ctx: click.Context, param: click.Parameter, incomplete: str
    ) -> list[CompletionItem]:
        del param
        return _matching(incomplete, what, str(ctx.params.get("key")))

    return complete


def known(what: Subject, key: str = "") -> Completions:
    """Return the completions of one kind. For `values`, `key` is the configuration key."""
    from midturn.cli.completions import offered

    return offered(what, key)


def _matching(typed: str, what: Subject, key: str) -> list[CompletionItem]:
    """Return the completions that start with `typed`.

    Return nothing if an error occurs. The command itself reports the error.
    """
    try:
        return [
            item(value, meaning) for value, meaning in known(what, key) if value.startswith(typed)
        ]
    except (MidturnError, OSError):
        return []


complete_tools = _completing("tools")
complete_keys = _completing("keys")
complete_values = _completing("values")
complete_models = _completing("models")


# --------------------------------------------------------------------------------------------------
# `midturn completions`


SHELLS = ("bash", "zsh", "fish")
_FIRST_CALL, _EVERY_CALL = "$zsh_eval_context[-1] == loadautofunc", "$funcstack[1] == _midturn"
"""A condition in Click's zsh script, and its replacement. Click's condition is true only for the
first Tab; the replacement is true for every Tab.
"""
_SPLIT, _SPLIT_ONCE = 'string split "," $completion', 'string split --max 1 "," $completion'
"""An expression in Click's fish script, and its replacement. Click's expression drops the part of a
description after a comma.
"""


@click.command
@click.argument("shell", type=click.Choice(SHELLS))
@click.pass_context
def command(ctx: click.Context, shell: str) -> ExitStatus:
    """Print a completion script for SHELL

    For bash, add this to ~/.bashrc: source <(midturn completions bash)
    """
    say(block(completion_script(ctx.find_root().command, shell)))
    return ExitStatus.DONE


def completion_script(midturn: click.Command, shell: str) -> str:
    """Return the completion script of `midturn` for `shell`, one of `SHELLS`."""
    from click.shell_completion import get_completion_class

    complete = get_completion_class(shell)
    if complete is None:
        raise ValueError(f"Unsupported shell {shell!r}. Supported: {', '.join(SHELLS)}.")
    script = complete(midturn, {}, "midturn", COMPLETING).source()
    return script.replace(_FIRST_CALL, _EVERY_CALL).replace(_SPLIT, _SPLIT_ONCE)
