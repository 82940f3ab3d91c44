"""What a workspace's files may do before their user has approved them: nothing that weakens a guarantee or runs code."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

from msgspec import Struct

from midturn.config.keys import KEYS
from midturn.config.nodes import Branch, Claim, Gate, Node
from midturn.config.tree import Entry, KeyPath, Tree, dotted


class Enabled(Struct, frozen=True):
    """One thing that a file does: the key as written, its value there and its line, and what it means (`runs a program`)."""

    key: str
    value: str
    place: str
    why: str


class FileTrust(Struct, frozen=True, kw_only=True):
    """One workspace file that does something which needs approval. `sha256` is of its content; `name` is how messages call it."""

    path: Path
    name: str
    sha256: str
    approved: bool
    enables: tuple[Enabled, ...]

    @property
    def notice(self) -> str:
        """Say what has no effect, by name, and what to do."""
        return f"{self.name} is not trusted, so {no_effect(self.enables)}. `midturn trust` shows what it enables and asks you."


def no_effect(enables: Sequence[Enabled]) -> str:
    """Write the end of a sentence: which keys have no effect."""
    keys = ", ".join(f"`{one.key}`" for one in enables)
    return f"{keys} {'has' if len(enables) == 1 else 'have'} no effect"


class Weakening(Struct, frozen=True):
    """One value that needs approval."""

    path: KeyPath
    entry: Entry
    gate: Gate


def weakening(tree: Tree, below: Tree) -> tuple[Weakening, ...]:
    """Find what a layer must not do unasked; `below` holds the layers beneath it."""
    return tuple(_walk(tree, KEYS, (), below))


def _walk(tree: Tree, node: Branch, path: KeyPath, below: Tree) -> Iterator[Weakening]:
    for name, found in tree.items():
        at = (*path, name)
        child = node.child(name)
        if isinstance(found, Entry):
            gate = child.gate
            if gate is not None and gate.weakens(Claim(at, found.value, {}, below)):
                yield Weakening(at, found, gate)
        elif _closed(child, at, found, below):
            yield from _all(found, at, child.gate)
        elif isinstance(child, Branch):
            yield from _walk(found, child, at, below)


def _closed(node: Node, path: KeyPath, tree: Tree, below: Tree) -> bool:
    return node.gate is not None and node.gate.weakens(Claim(path, None, tree, below))


def _all(tree: Tree, path: KeyPath, gate: Gate | None) -> Iterator[Weakening]:
    for name, found in tree.items():
        if isinstance(found, dict):
            yield from _all(found, (*path, name), gate)
        elif gate is not None:
            yield Weakening((*path, name), found, gate)


def without(tree: Tree, weak: tuple[Weakening, ...]) -> Tree:
    """Return the layer with these values left out, and the tables that held nothing else."""
    return _without(tree, {one.path for one in weak}, ())


def _without(tree: Tree, paths: set[KeyPath], path: KeyPath) -> Tree:
    kept: Tree = {}
    for name, found in tree.items():
        if isinstance(found, dict):
            rest = _without(found, paths, (*path, name))
            if rest or not found:
                kept[name] = rest
        elif (*path, name) not in paths:
            kept[name] = found
    return kept


def enabled(weak: tuple[Weakening, ...]) -> tuple[Enabled, ...]:
    """Describe each value once, under the key that is written."""
    from json import dumps  # only a file that needs approval needs it

    found: dict[KeyPath, Enabled] = {}
    for one in weak:
        value = dumps(one.entry.value, ensure_ascii=False)
        found.setdefault(one.entry.at, Enabled(dotted(one.entry.at), value, one.entry.place, one.gate.why))
    return tuple(found.values())
