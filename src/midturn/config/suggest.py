"""Finding the key that somebody meant."""

from __future__ import annotations

from collections.abc import Iterator

from midturn.config.keys import KEYS
from midturn.config.nodes import Branch, Node
from midturn.config.tree import KeyPath, dotted
from midturn.core.suggestion import did_you_mean


def suggestion(node: Branch, path: KeyPath) -> str:
    """Say which key of `node` is meant by the unknown key `path`, or where a key of that name stands, or what is known here."""
    near = did_you_mean(path[-1], node.keys)
    if near:
        return near.strip()
    elsewhere = next((known for known in _paths(KEYS) if known[-1] == path[-1]), None)
    if elsewhere is not None:
        return f"Did you mean `{dotted(elsewhere)}`?"
    return f"Known here: {', '.join(f'`{name}`' for name in node.keys)}." if node.keys else ""


def _paths(node: Node, path: KeyPath = ()) -> Iterator[KeyPath]:
    if path:
        yield path
    if not isinstance(node, Branch):
        return
    for name, child in node.keys.items():
        yield from _paths(child, (*path, name))
    if node.names is not None and isinstance(node.names.node, Branch):
        yield from _paths(node.names.node, (*path, "<name>"))
