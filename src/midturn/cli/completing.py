"""Shell completions: every command names what completes its arguments, so what finds it out is loaded when Tab is pressed."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, TypeAlias

import click

from midturn.errors import MidturnError
from midturn.values.text import exact

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem

    from midturn.cli.offers import What

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


def _beginning(typed: str, what: What, key: str) -> list[CompletionItem]:
    """Offer what begins as typed; where nothing can be found out, nothing is offered: the command itself says why."""
    from midturn.cli.offers import offered

    try:
        return [item(value, meaning) for value, meaning in offered(what, key) if value.startswith(typed)]
    except (MidturnError, OSError):
        return []


complete_tools = _completing("tools")
complete_keys = _completing("keys")
complete_values = _completing("values")
complete_models = _completing("models")
