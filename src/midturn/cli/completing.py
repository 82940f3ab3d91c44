"""What a shell offers at the Tab key: tools, configuration keys and their values, models. Nothing is asked of a network.

Every command names what completes its arguments, so what finds it out is loaded when Tab is pressed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, TypeAlias

import click

from midturn.core.visible import exact
from midturn.errors import MidturnError

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem

    from midturn.config.load import Loaded
    from midturn.config.nodes import Leaf

Completing: TypeAlias = "Callable[[click.Context, click.Parameter, str], list[CompletionItem]]"
_LONGEST = 72


def item(value: str, help: str = "") -> CompletionItem:
    """Return one offer; what it means stays on its line in every shell."""
    from click.shell_completion import CompletionItem  # as above

    said = exact(help)
    return CompletionItem(value, help=(said if len(said) <= _LONGEST else f"{said[: _LONGEST - 1]}…") or None)


def _completing(known: Callable[[click.Context], Iterable[CompletionItem]]) -> Completing:
    """Offer what begins as typed; where nothing can be found out, nothing is offered: the command itself says why."""

    def complete(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
        del param
        try:
            return [one for one in known(ctx) if str(one.value).startswith(incomplete)]
        except (MidturnError, OSError):
            return []

    return complete


def _loaded() -> Loaded:
    """Read the configuration as it is in this directory."""
    from midturn.cli.loading import load_here

    return load_here()


def _known_keys() -> dict[str, Leaf]:
    from midturn.config.explain import known_keys

    return dict(known_keys(_loaded()))


def _tools(ctx: click.Context) -> Iterable[CompletionItem]:
    from midturn.compose.tools import known_tools
    from midturn.core.names import BUILT_IN_TOOLS

    del ctx
    tools = known_tools(_loaded().settings)
    return [item(name, tool.summary or ("built in" if name in BUILT_IN_TOOLS else "")) for name, tool in sorted(tools.items())]


def _keys(ctx: click.Context) -> Iterable[CompletionItem]:
    del ctx
    return [item(key, leaf.help) for key, leaf in _known_keys().items()]


def _values(ctx: click.Context) -> Iterable[CompletionItem]:
    leaf = _known_keys().get(str(ctx.params.get("key")))
    if leaf is None:
        return []
    if leaf.kind == "model":
        return _models(ctx)
    return [item(value) for value in (("true", "false") if leaf.kind == "boolean" else leaf.allowed)]


def _models(ctx: click.Context) -> Iterable[CompletionItem]:
    from midturn.models.nearest import KNOWN

    del ctx
    chosen = _loaded().settings.assistant.model.id
    others = [item(model) for model in KNOWN if model != chosen]
    return [*([item(chosen, "as configured")] if chosen else []), *others]


complete_tools = _completing(_tools)
complete_keys = _completing(_keys)
complete_values = _completing(_values)
complete_models = _completing(_models)
