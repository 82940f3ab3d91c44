"""Explanation of settings: the value that holds and its origin, as `midturn config show`, `get` and `explain` print them."""

from __future__ import annotations

from collections.abc import Iterator

from msgspec import Struct

from midturn.config.assign import parse_key
from midturn.config.check import known_child
from midturn.config.keys import KEYS, Branch, Leaf, Node
from midturn.config.layers import Layer
from midturn.config.load import Loaded
from midturn.config.resolve import effective_tree, spellings
from midturn.config.tree import KeyPath, Tree, TreeEntry, branch, dotted, entries, entry
from midturn.errors import ConfigError
from midturn.values.json_value import Json

HIDDEN = "(hidden)"


class Setting(Struct, frozen=True):
    """One value as one layer has it: the key as it is spelled there (`'*'` included), and the file and line, flag or variable."""

    layer: str
    key: str
    value: Json
    place: str


class Explanation(Struct, frozen=True):
    """The value of a key, and every setting for it: the first one holds, the others are beneath it."""

    key: str
    value: Json
    settings: tuple[Setting, ...]
    help: str = ""


def show(loaded: Loaded) -> dict[str, Json]:
    """Return all values that hold, as the tables they stand in. Private ones (headers, variables) are hidden."""
    return _table(effective_tree(loaded.merged), KEYS)


def known_keys(loaded: Loaded) -> Iterator[tuple[str, Leaf]]:
    """Yield every key that may be set, with what it takes; free names are those that the configuration has already."""
    yield from _below(KEYS, show(loaded), ())


def _below(node: Node, values: Json, path: KeyPath) -> Iterator[tuple[str, Leaf]]:
    if isinstance(node, Leaf):
        yield dotted(path), node
        return
    table = values if isinstance(values, dict) else {}
    for name in [*node.keys, *(name for name in table if name not in node.keys and node.names)]:
        yield from _below(node.child(name), table.get(name), (*path, name))


def get(loaded: Loaded, key: str) -> Json:
    """Return the value that holds for `key`, or the table.

    Raises:
        ConfigError: The key is unknown, or has no value.
    """
    path, node = _known(key)
    found = _find(loaded.merged, path)
    if found is None:
        raise ConfigError(f"`{dotted(path)}` has no value.")
    return found.value if isinstance(found, TreeEntry) else _readable(found, node)


def explain(loaded: Loaded, key: str) -> tuple[Explanation, ...]:
    """Return where the value of `key` comes from, or of each key in a table. Private values are hidden, as in `show`.

    Raises:
        ConfigError: The key is unknown.
    """
    path, node = _known(key)
    found = _find(loaded.merged, path)
    if found is None:
        return (Explanation(dotted(path), None, (), node.help if isinstance(node, Leaf) else ""),)
    leaves = [(path, found)] if isinstance(found, TreeEntry) else list(_leaves(found, path))
    return tuple(_explained(loaded, at, below) for at, below in leaves)


def _leaves(tree: Tree, path: KeyPath) -> Iterator[tuple[KeyPath, TreeEntry]]:
    """Yield every value, without what a word in place of a table stands for: the word itself is shown."""
    for at, found in entries(tree, path):
        if at[-1] != "escalation" or found.at == at:
            yield at, found


def _explained(loaded: Loaded, path: KeyPath, holding: TreeEntry) -> Explanation:
    written = [(layer, found, word) for layer in reversed(loaded.layers) for found, word in _in_layer(layer, path)]
    first = [one for one in written if one[1] is holding]
    others = [one for one in written if one[1] is not holding]
    shown = tuple(name for name in path if name)
    node = _known(dotted(shown))[1]
    settings = tuple(Setting(layer.name, dotted(found.at), word, found.place) for layer, found, word in (*first, *others))
    value = _value(effective_tree(loaded.merged), path, holding)
    return Explanation(dotted(shown), value, settings, node.help if isinstance(node, Leaf) else "")


def _in_layer(layer: Layer, path: KeyPath) -> Iterator[tuple[TreeEntry, Json]]:
    for spelled in spellings(path):
        found = entry(layer.tree, *spelled)
        if found is not None:
            yield found, _value(layer.tree, spelled, found)


def _value(tree: Tree, path: KeyPath, found: TreeEntry) -> Json:
    """Return a value as it is written: the word where a table was meant by one."""
    if path[-1]:
        return _readable(found, _known(dotted(path))[1])
    if found.value == "user":
        return "user"
    escalates = entry(tree, *path[:-1], "escalation")
    return "assistant_with_escalation" if escalates and escalates.value is True else "assistant"


def _known(key: str) -> tuple[KeyPath, Node]:
    path = parse_key(key, "config")
    node: Node = KEYS
    for length in range(1, len(path) + 1):
        node = known_child(node, path[:length])
    return path, node


def _find(merged: Tree, path: KeyPath) -> TreeEntry | Tree | None:
    effective = effective_tree(merged)
    found = (entry(effective, *spelled) or branch(effective, *spelled) for spelled in spellings(path))
    return next(filter(None, found), None)


def _table(tree: Tree, node: Node) -> dict[str, Json]:
    return {name: _readable(found, node.child(name) if isinstance(node, Branch) else node) for name, found in tree.items() if name}


def _readable(found: TreeEntry | Tree, node: Node) -> Json:
    if isinstance(found, TreeEntry):
        return HIDDEN if isinstance(node, Leaf) and node.private and isinstance(found.value, str) else found.value
    who = entry(found, "")
    if who is None:
        return _table(found, node)
    if who.value == "user":
        return "user"
    table = _table(found, node)
    words = {False: "assistant", True: "assistant_with_escalation"}
    return table if table.keys() - {"escalation"} else words[table.get("escalation") is True]
