"""The tables of configuration keys in `docs/reference/configuration.md`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, cast

import msgspec
from msgspec import Struct

from midturn.config.check import WrongValue, checked
from midturn.config.keys import KEYS, Branch, Leaf, Node
from midturn.config.load import BUILT_IN_SETTINGS, built_in_layer
from midturn.config.tree import BUILT_IN, KeyPath, Tree, entry
from midturn.config.trust import RULES

_NAMES = {
    "a model parameter": "<parameter>",
    "a question ID": "<id>",
    "a variable": "<VARIABLE>",
    "the absolute path of a directory": "<directory>",
    "a tool's name": "<tool>",
    "a person's name": "<name>",
    "a group's name": "<name>",
    "a channel's name": "<name>",
    "an option": "<option>",
    "an agent's name": "<agent>",
    "a parameter": "<parameter>",
    "a keyword of JSON Schema": "<keyword>",
    "a provider's name": "<name>",
    "a server's name": "<name>",
    "a header": "<header>",
    "a capability": "<capability>",
}
_LONGEST = 60  # maximum number of characters shown of a default


class Key(Struct, frozen=True):
    """One key of the configuration. `takes` describes its values."""

    path: KeyPath
    takes: str
    default: str
    meaning: str
    unapproved: str

    def row(self, heading: int) -> str:
        """Return the key's row in a table. The first `heading` names of its path are in the
        table's title.
        """
        name = ".".join(self.path[heading:] or self.path)
        return (
            f"| `{name}` | {self.takes} | {self.default and f'`{self.default}`'} | {self.meaning} |"
            f" {self.unapproved} |\n"
        )


def key_tables() -> str:
    return "\n".join(_table(name, node) for name, node in _sections())


def names_for_every_tool() -> str:
    """Return the keys of a tool that are also allowed under `'*'`."""
    tools = _branch("conversation", "tools")
    assert tools.names
    assert isinstance(tools.names.star, Branch)
    return ", ".join(f"`{name}`" for name in tools.names.star.keys) + "\n"


def built_in_tools() -> str:
    """Return the table of settings of the built-in tools."""
    rows = "".join(
        f"| `{name}` | {_settings(tool)} |\n" for name, tool in BUILT_IN_SETTINGS.items()
    )
    return f"| tool | |\n| --- | --- |\n{rows}"


def _settings(tool: Mapping[str, Any]) -> str:
    shown = {name: value for name, value in tool.items() if name not in {"source", "questions"}}
    return ", ".join(f"`{name} = {_toml(value)}`" for name, value in shown.items())


def _toml(value: Any) -> str:
    if isinstance(value, dict):
        return (
            "{ "
            + ", ".join(
                f"{name} = {_toml(below)}" for name, below in cast("dict[str, Any]", value).items()
            )
            + " }"
        )
    return msgspec.json.encode(value).decode()


def _sections() -> Iterator[tuple[KeyPath, Node]]:
    for name, node in KEYS.keys.items():
        if name in {"conversation", "providers"} and isinstance(node, Branch):
            yield from (((name, below), child) for below, child in node.keys.items())
        else:
            yield (name,), node


def _table(path: KeyPath, node: Node) -> str:
    head = (
        "| key | value | default | meaning | allowed before `midturn trust` |\n| --- | --- | --- |"
        " --- | --- |\n"
    )
    rows = "".join(key.row(len(path)) for key in _keys(path, node))
    return f"### `{'.'.join(path)}`\n\n{head}{rows}"


def _keys(path: KeyPath, node: Node) -> Iterator[Key]:
    if isinstance(node, Leaf):
        yield Key(path, _allowed(node), _default(path), node.help, _unapproved(path))
        return
    if node.shorthand:
        yield Key(
            path, f"{_allowed(node.shorthand.leaf)}; or a table", "", node.shorthand.leaf.help, ""
        )
    for name, child in node.keys.items():
        yield from _keys((*path, name), child)
    if node.names:
        yield from _keys((*path, _NAMES[node.names.what]), node.names.node)


def _unapproved(path: KeyPath) -> str:
    pattern = ".".join("*" if name.startswith("<") else name for name in path)
    below = pattern.removesuffix("*")
    single = [
        f"`{key.removeprefix(below)}`"
        for key in RULES
        if pattern.endswith(".*") and key.startswith(below)
    ]
    return RULES[pattern].allowed if pattern in RULES else ", ".join(single)


def _allowed(leaf: Leaf) -> str:
    try:
        checked(object(), leaf, BUILT_IN)
    except WrongValue as wrong:
        return wrong.expected
    return "any value"


def _default(path: KeyPath) -> str:
    layer: Tree = built_in_layer()
    found = entry(layer, *path) or entry(
        layer, *("*" if name == "<tool>" else name for name in path)
    )
    if found is None:
        return ""
    text = msgspec.json.encode(found.value).decode()
    return text if len(text) <= _LONGEST else f"{text[:_LONGEST]}…"


def _branch(*path: str) -> Branch:
    node: Node = KEYS
    for name in path:
        assert isinstance(node, Branch)
        node = node.keys[name]
    assert isinstance(node, Branch)
    return node
