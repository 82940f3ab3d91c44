"""Shell completions: every command names what completes its arguments, so what finds it out is loaded when Tab is pressed.

`midturn completions` prints the script with which a shell asks.
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

    from midturn.cli.completions import Offers, What

Completing: TypeAlias = "Callable[[click.Context, click.Parameter, str], list[CompletionItem]]"
_LONGEST = 72


def item(value: str, help: str = "") -> CompletionItem:
    """Return one offer; what it means stays on its line in every shell."""
    from click.shell_completion import CompletionItem

    said = exact(help)
    return CompletionItem(value, help=(said if len(said) <= _LONGEST else f"{said[: _LONGEST - 1]}…") or None)


def _completing(what: What) -> Completing:
    def complete(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
        del param
        return _beginning(incomplete, what, str(ctx.params.get("key")))

    return complete


def known(what: What, key: str = "") -> Offers:
    """Return what an argument of a command may be; `key` is the one whose values are asked for."""
    from midturn.cli.completions import offered

    return offered(what, key)


def _beginning(typed: str, what: What, key: str) -> list[CompletionItem]:
    """Offer what begins as typed; where nothing can be found out, nothing is offered: the command itself says why."""
    try:
        return [item(value, meaning) for value, meaning in known(what, key) if value.startswith(typed)]
    except (MidturnError, OSError):
        return []


complete_tools = _completing("tools")
complete_keys = _completing("keys")
complete_values = _completing("values")
complete_models = _completing("models")


# ----------------------------------------------------------------------------------------------------------------------
# `midturn completions`: the script that completes commands, options and ids in a shell


SHELLS = ("bash", "zsh", "fish")
_FIRST_CALL, _EVERY_CALL = "$zsh_eval_context[-1] == loadautofunc", "$funcstack[1] == _midturn"
"""Test by which zsh's script knows a Tab: click's own test holds for the first Tab only, and the second offers nothing."""


@click.command
@click.argument("shell", type=click.Choice(SHELLS))
@click.pass_context
def command(ctx: click.Context, shell: str) -> ExitStatus:
    """Print completions for SHELL. For bash: `source <(midturn completions bash)` in ~/.bashrc."""
    say(block(completion_script(ctx.find_root().command, shell)))
    return ExitStatus.DONE


def completion_script(midturn: click.Command, shell: str) -> str:
    """Return the script that completes `midturn` in `shell`, one of `SHELLS`."""
    from click.shell_completion import get_completion_class

    complete = get_completion_class(shell)
    if complete is None:
        raise ValueError(f"There are no completions for {shell!r}, only for {', '.join(SHELLS)}.")
    return complete(midturn, {}, "midturn", COMPLETING).source().replace(_FIRST_CALL, _EVERY_CALL)
