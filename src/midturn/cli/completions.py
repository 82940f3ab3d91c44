"""What a shell, or a chat, offers when Tab is pressed: tools, configuration keys and their values, models. No network is used."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Literal, TypeAlias

from midturn.agent.assembly.command_line import known_tools
from midturn.cli.loading import load_here
from midturn.config.edit import known_keys
from midturn.models.profiles import KNOWN_PROFILES
from midturn.question.text import BUILT_IN_TOOLS

if TYPE_CHECKING:
    from midturn.config.keys import Leaf

What: TypeAlias = Literal["tools", "keys", "values", "models"]
Offers: TypeAlias = Sequence[tuple[str, str]]
"""Words that may follow, each with its meaning, which may be empty."""


def offered(what: What, key: str) -> Offers:
    """Offer what an argument of a command may be; `key` is the one whose values are asked for."""
    match what:
        case "tools":
            return tools()
        case "keys":
            return keys()
        case "values":
            return values(key)
        case "models":
            return models()


def tools() -> Offers:
    """Offer the tools, each with its summary."""
    known = known_tools(load_here().settings)
    return [(name, tool.summary or ("built in" if name in BUILT_IN_TOOLS else "")) for name, tool in sorted(known.items())]


def keys() -> Offers:
    """Offer the keys of the configuration, each with its meaning."""
    return [(key, leaf.help) for key, leaf in _leaves().items()]


def values(key: str) -> Offers:
    """Offer the values that a key may have, where they can be listed."""
    leaf = _leaves().get(key)
    if leaf is None:
        return []
    if leaf.kind == "model":
        return models()
    return [(value, "") for value in (("true", "false") if leaf.kind == "boolean" else leaf.allowed)]


def models() -> Offers:
    """Offer the models whose names are known, the configured one first."""
    chosen = load_here().settings.assistant.model.id
    others = [(model, "") for model in KNOWN_PROFILES if model != chosen]
    return [*([(chosen, "as configured")] if chosen else []), *others]


def _leaves() -> dict[str, Leaf]:
    return dict(known_keys(load_here()))
