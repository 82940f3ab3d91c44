"""Checking what was written against the known keys, every problem at once."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any, cast

from midturn.config.keys import KEYS
from midturn.config.nodes import Branch, Leaf, Node
from midturn.config.tree import KeyPath, Origin, Tree, TreeEntry, dotted
from midturn.config.values import WrongValue, checked
from midturn.errors import ConfigError

_LINE = 60  # characters of a value that are shown
_LONGEST = 1000  # characters of a problem
_MOST = 50  # problems of one file


class Checker:
    """Reads the values of one origin; `problems` are sentences that begin with where they are, `wrong` the keys that they are about."""

    def __init__(self, origin: Origin) -> None:
        self.origin = origin
        self.problems: list[str] = []
        self.wrong: set[KeyPath] = set()

    def read(self, document: Mapping[str, Any]) -> Tree:
        """Return what of `document` is right; what is wrong is left out and stands in `problems`."""
        return self._table(document, KEYS, ())

    def problem(self, path: KeyPath, message: str) -> None:
        """Note that the key `path` is wrong."""
        self.wrong.add(path)
        line = f"{self.origin.place(path)}: {message}"
        self.problems.append(line if len(line) <= _LONGEST else line[: _LONGEST - 1] + "…")
        if len(self.problems) == _MOST:
            self.problems.append(f"{self.origin.name}: what else is wrong is not listed")

    def _table(self, table: Mapping[str, Any], node: Branch, path: KeyPath, at: KeyPath | None = None) -> Tree:
        tree: Tree = {name: TreeEntry(value, self.origin, path) for name, value in node.implied.items()}
        for name, value in table.items():
            if len(self.problems) >= _MOST:
                break
            below = (*path, name)
            try:
                found = self._node(value, known_child(node, below), below, at)
            except ConfigError as error:
                self.problem(below, str(error))
            else:
                if found is not None:
                    tree[name] = found
        return tree

    def _node(self, value: Any, node: Node, path: KeyPath, at: KeyPath | None) -> Tree | TreeEntry | None:
        if isinstance(node, Leaf):
            return self._leaf(value, node, path, at)
        if isinstance(value, Mapping):
            return self._table(cast("Mapping[str, Any]", value), node, path, at)
        if node.shorthand is None:
            self.problem(path, f"`{dotted(path)}`: expected a table{_first_key(node, path)}")
            return None
        return self._short(value, node, path)

    def _short(self, value: Any, node: Branch, path: KeyPath) -> Tree | None:
        short = node.shorthand
        found = short and self._leaf(value, short.leaf, path, None, alternative=" or a table")
        if short is None or found is None:
            return None
        fields = dict(short.expand(found.value))
        unwritten = {name: TreeEntry(fields.pop(name), self.origin, path) for name in node.implied if name in fields}
        tree = self._table(fields, Branch(keys=node.keys, names=node.names), path, path)
        return {**unwritten, **tree}

    def _leaf(self, value: Any, leaf: Leaf, path: KeyPath, at: KeyPath | None, alternative: str = "") -> TreeEntry | None:
        try:
            return TreeEntry(checked(value, leaf, self.origin), self.origin, at or path)
        except WrongValue as wrong:
            self.problem(path, f"`{dotted(path)}`: expected {wrong.expected}{alternative}, not {_shown(value, leaf)}")
            return None


def known_child(node: Node, path: KeyPath) -> Node:
    """Return what the last name of `path` is in the table `node`.

    Raises:
        ConfigError: It is not known there; the message says what might be meant.
    """
    name = path[-1]
    if isinstance(node, Leaf):
        raise ConfigError(f"`{dotted(path)}`: `{dotted(path[:-1])}` is a value, not a table")
    if name in node.keys:
        return node.keys[name]
    if node.names is None:
        raise ConfigError(f"unknown key `{dotted(path)}`. {_suggestion(node, path)}".rstrip())
    if re.fullmatch(node.names.pattern, name) or (name == "*" and node.names.star is not None):
        return node.child(name)
    raise ConfigError(f"`{dotted(path)}`: {dotted(path[-1:])} cannot be {node.names.what}; it must match {node.names.pattern}")


def _first_key(node: Branch, path: KeyPath) -> str:
    return f"; write `{dotted((*path, next(iter(node.keys))))} = …`" if node.keys else ""


def _shown(value: Any, leaf: Leaf) -> str:
    if isinstance(value, Mapping):
        return "a table"
    if leaf.private:
        return "that"
    import json  # only where something is wrong

    text = json.dumps(value, default=str, ensure_ascii=False).encode(errors="backslashreplace").decode()
    return text if len(text) <= _LINE else text[: _LINE - 1] + "…"


def _suggestion(node: Branch, path: KeyPath) -> str:
    """Say which key of `node` is meant by the unknown key `path`, or where a key of that name stands, or what is known here."""
    from midturn.core.suggestion import did_you_mean  # only where a key is wrong

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
