"""Shell completions: tools, configuration keys and their values, models. No network is used.

Every command names what completes its arguments, so what finds it out is loaded when Tab is pressed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, TypeAlias

import click

from midturn.errors import MidturnError
from midturn.values.text import BUILT_IN_TOOLS, exact

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem

    from midturn.config.keys import Leaf
    from midturn.config.load import Loaded

Completing: TypeAlias = "Callable[[click.Context, click.Parameter, str], list[CompletionItem]]"
_LONGEST = 72


def item(value: str, help: str = "") -> CompletionItem:
    """Return one offer; what it means stays on its line in every shell."""
    from click.shell_completion import CompletionItem  # every command names what completes its arguments, and few shells ask

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
    from midturn.config.edit import known_keys

    return dict(known_keys(_loaded()))


def tools() -> Iterable[CompletionItem]:
    """Offer the tools, each with its summary."""
    from midturn.compose.command_line import known_tools

    known = known_tools(_loaded().settings)
    return [item(name, tool.summary or ("built in" if name in BUILT_IN_TOOLS else "")) for name, tool in sorted(known.items())]


def keys() -> Iterable[CompletionItem]:
    """Offer the keys of the configuration, each with its meaning."""
    return [item(key, leaf.help) for key, leaf in _known_keys().items()]


def values(key: str) -> Iterable[CompletionItem]:
    """Offer the values that a key may have, where they can be listed."""
    leaf = _known_keys().get(key)
    if leaf is None:
        return []
    if leaf.kind == "model":
        return models()
    return [item(value) for value in (("true", "false") if leaf.kind == "boolean" else leaf.allowed)]


def models() -> Iterable[CompletionItem]:
    """Offer the models whose names are known, the configured one first."""
    from midturn.models.profiles import KNOWN_PROFILES

    chosen = _loaded().settings.assistant.model.id
    others = [item(model) for model in KNOWN_PROFILES if model != chosen]
    return [*([item(chosen, "as configured")] if chosen else []), *others]


complete_tools = _completing(lambda ctx: tools())  # noqa: ARG005
complete_keys = _completing(lambda ctx: keys())  # noqa: ARG005
complete_values = _completing(lambda ctx: values(str(ctx.params.get("key"))))
complete_models = _completing(lambda ctx: models())  # noqa: ARG005
