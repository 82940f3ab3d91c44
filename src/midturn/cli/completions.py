"""Completions for the shell and the chat: tools, configuration keys, values and models. No
network is used.
"""

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

Subject: TypeAlias = Literal["tools", "keys", "values", "models"]
Completions: TypeAlias = Sequence[tuple[str, str]]
"""Words with their descriptions, which may be empty."""


def offered(what: Subject, key: str) -> Completions:
    """Return the completions of one kind. For `values`, `key` is the configuration key."""
    match what:
        case "tools":
            return tools()
        case "keys":
            return keys()
        case "values":
            return values(key)
        case "models":
            return models()


def tools() -> Completions:
    """Return the tools with their summaries."""
    known = known_tools(load_here().settings)
    return [
        (name, tool.summary or ("built in" if name in BUILT_IN_TOOLS else ""))
        for name, tool in sorted(known.items())
    ]


def keys() -> Completions:
    """Return the configuration keys with their help."""
    return [(key, leaf.help) for key, leaf in _leaves().items()]


def values(key: str) -> Completions:
    """Return the values of a key, if they can be listed."""
    leaf = _leaves().get(key)
    if leaf is None:
        return []
    if leaf.kind == "model":
        return models()
    return [
        (value, "") for value in (("true", "false") if leaf.kind == "boolean" else leaf.allowed)
    ]


def models() -> Completions:
    """Return the known models, the configured one first."""
    chosen = load_here().settings.assistant.model.id
    others = [(model, "") for model in KNOWN_PROFILES if model != chosen]
    return [*([(chosen, "configured")] if chosen else []), *others]


def _leaves() -> dict[str, Leaf]:
    return dict(known_keys(load_here()))
