"""One layer of configuration as values that remember where each was written."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import TypeAlias, cast

from msgspec import Struct

from midturn.core.json_value import Json

KeyPath: TypeAlias = tuple[str, ...]
Tree: TypeAlias = "dict[str, Tree | TreeEntry]"

_BARE = re.compile(r"[A-Za-z0-9_-]+")


class Origin(Struct, frozen=True):
    """Where values come from: a file (`text` is its content), a flag, an environment variable, or `built-in`.

    A relative `scripted:` file of a value is looked for in `bases`, in this order.
    """

    name: str
    text: str | None = None
    bases: tuple[str, ...] = ()

    def place(self, path: KeyPath) -> str:
        """Return `config.toml:14` for the key `path` or its nearest parent that is written there; the name alone without a text."""
        if self.text is None:
            return self.name
        from midturn.config.lines import key_lines  # only what is wrong, or shown, is looked up in its file

        lines = key_lines(self.text)
        known = (lines[path[:length]] for length in range(len(path), 0, -1) if path[:length] in lines)
        line = next(known, None)
        return self.name if line is None else f"{self.name}:{line}"


BUILT_IN = Origin("built-in")


class TreeEntry(Struct, frozen=True):
    """One value, and the key `at` which it was written (`detached`, where `detached.run` was meant, too)."""

    value: Json
    origin: Origin
    at: KeyPath

    @property
    def place(self) -> str:
        """The file and line, or the flag, that set it."""
        return self.origin.place(self.at)


def dotted(path: KeyPath) -> str:
    """Write a key as TOML does: `conversation.tools.'*'.run`."""
    return ".".join(_segment(name) for name in path)


def _segment(name: str) -> str:
    if _BARE.fullmatch(name):
        return name
    if name.isprintable() and "'" not in name:
        return f"'{name}'"
    return '"' + "".join(c if c.isprintable() and c not in '"\\' else f"\\U{ord(c):08X}" for c in name) + '"'


def branch(tree: Tree, *path: str) -> Tree:
    """Return the branch at `path`, empty where there is none."""
    for name in path:
        below = tree.get(name)
        if not isinstance(below, dict):
            return {}
        tree = below
    return tree


def entry(tree: Tree, *path: str) -> TreeEntry | None:
    """Return the entry at `path`, if there is one."""
    found = branch(tree, *path[:-1]).get(path[-1])
    return found if isinstance(found, TreeEntry) else None


def entries(tree: Tree, path: KeyPath = ()) -> Iterator[tuple[KeyPath, TreeEntry]]:
    """Yield every entry with its path."""
    for name, below in tree.items():
        if isinstance(below, TreeEntry):
            yield (*path, name), below
        else:
            yield from entries(below, (*path, name))


def plain(tree: Tree) -> dict[str, Json]:
    """Return the values alone. The unwritten key `''` (see `keys.TARGET`) is left out."""
    return cast(
        "dict[str, Json]",
        {name: below.value if isinstance(below, TreeEntry) else plain(below) for name, below in tree.items() if name},
    )
