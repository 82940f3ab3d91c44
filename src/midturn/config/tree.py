"""Trees of configuration values that record where each value was written."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterator
from functools import lru_cache
from typing import TypeAlias, cast

from msgspec import Struct

from midturn.config.keys import Branch, Node
from midturn.question.json_value import Json

KeyPath: TypeAlias = tuple[str, ...]
Tree: TypeAlias = "dict[str, Tree | TreeEntry]"

_BARE = re.compile(r"[A-Za-z0-9_-]+")


class Origin(Struct, frozen=True):
    """The origin of values: a file (`text` is its content), a flag, an environment variable, or
    `built-in`.

    A relative `scripted:` file is searched in `bases`, in order. If `approved` is false, a value
    applies only if it is stricter than the value in other layers. `in_workspace` is true for
    workspace files.
    """

    name: str
    text: str | None = None
    bases: tuple[str, ...] = ()
    approved: bool = True
    in_workspace: bool = False

    def place(self, path: KeyPath) -> str:
        """Return the location of the key `path`, such as `config.toml:14`.

        If the file does not contain the key, return the location of its nearest parent. If the
        origin is not a file, return only its name.
        """
        if self.text is None:
            return self.name

        lines = key_lines(self.text)
        known = (
            lines[path[:length]] for length in range(len(path), 0, -1) if path[:length] in lines
        )
        line = next(known, None)
        return self.name if line is None else f"{self.name}:{line}"


BUILT_IN = Origin("built-in")


class TreeEntry(Struct, frozen=True):
    """A value, and the key that set it (`at`).

    That key can differ from the path of the entry: for example, `detached` also sets
    `detached.run`.
    """

    value: Json
    origin: Origin
    at: KeyPath

    @property
    def place(self) -> str:
        """The file and line, or the flag, that set the value."""
        return self.origin.place(self.at)


def dotted(path: KeyPath) -> str:
    """Format a key in TOML syntax: `conversation.tools.'*'.run`."""
    return ".".join(_segment(name) for name in path)


def _segment(name: str) -> str:
    if _BARE.fullmatch(name):
        return name
    if name.isprintable() and "'" not in name:
        return f"'{name}'"
    return (
        '"'
        + "".join(c if c.isprintable() and c not in '"\\' else f"\\U{ord(c):08X}" for c in name)
        + '"'
    )


def branch(tree: Tree, *path: str) -> Tree:
    """Return the branch at `path`, or an empty tree if it does not exist."""
    for name in path:
        below = tree.get(name)
        if not isinstance(below, dict):
            return {}
        tree = below
    return tree


def entry(tree: Tree, *path: str) -> TreeEntry | None:
    """Return the entry at `path`, or None."""
    found = branch(tree, *path[:-1]).get(path[-1])
    return found if isinstance(found, TreeEntry) else None


def entries(tree: Tree, path: KeyPath = ()) -> Iterator[tuple[KeyPath, TreeEntry]]:
    """Yield all entries with their paths."""
    for name, below in tree.items():
        if isinstance(below, TreeEntry):
            yield (*path, name), below
        else:
            yield from entries(below, (*path, name))


def plain(tree: Tree) -> dict[str, Json]:
    """Return the values without their origins. The internal key `''` is omitted (see
    `keys.TARGET`).
    """
    return cast(
        "dict[str, Json]",
        {
            name: below.value if isinstance(below, TreeEntry) else plain(below)
            for name, below in tree.items()
            if name
        },
    )


# --------------------------------------------------------------------------------------------------
# Line numbers of the keys of a valid TOML document, because tomllib does not report them


_WORD = r"""(?xs)
      (?P<string>\"\"\"(?:\\.|[^\\])*?\"{3,5}|'''.*?'{3,5}|"(?:\\.|[^"\\\n])*"|'[^'\n]*')
    | (?P<comment>\#[^\n]*)
    | (?P<newline>\n)
    | (?P<mark>[\[\]{}=,.])
    | (?P<bare>[^\s\[\]{}=,."'\#]+)
"""
_OPEN = {"[", "{"}
_CLOSE = {"]", "}"}


@lru_cache(maxsize=16)
def key_lines(text: str) -> dict[tuple[str, ...], int]:
    """Return the line number (from 1) of the first occurrence of each key and each table.

    The tables in an array of tables are included under their index, from 0.
    """
    return _Scanner(text).lines


class _Scanner:
    """Scans the tokens of a document once."""

    def __init__(self, text: str) -> None:
        self.lines: dict[tuple[str, ...], int] = {}
        self._counted: dict[tuple[str, ...], int] = {}
        self._words = _tokens(text)
        self._word, self._line = "", 0
        self._next()
        table: tuple[str, ...] = ()
        while self._word:
            if self._word == "\n":
                self._next()
            elif self._word == "[":
                table = self._header()
            else:
                self._assignment(table)

    def _next(self) -> None:
        self._word, self._line = next(self._words, ("", self._line))

    def _header(self) -> tuple[str, ...]:
        brackets, line = 0, self._line
        while self._word == "[":
            brackets += 1
            self._next()
        table = self._key((), "]")
        if brackets > 1:
            number = self._counted[table] = self._counted.get(table, -1) + 1
            self.lines.setdefault((*table, str(number)), line)
        while self._word == "]":
            self._next()
        return table

    def _assignment(self, table: tuple[str, ...]) -> None:
        path = self._key(table, "=")
        self._next()
        if self._word == "{":
            self._inline(path)
        else:
            self._skip_value()

    def _key(self, path: tuple[str, ...], end: str) -> tuple[str, ...]:
        while self._word and self._word not in (end, "\n"):
            if self._word != ".":
                path = (*path, _unquoted(self._word))
                self.lines.setdefault(path, self._line)
            self._next()
        return path

    def _inline(self, table: tuple[str, ...]) -> None:
        self._next()
        while self._word and self._word != "}":
            if self._word in {",", "\n"}:
                self._next()
            else:
                self._assignment(table)
        self._next()

    def _skip_value(self) -> None:
        depth = 0
        while self._word:
            if not depth and self._word in {",", "\n", *_CLOSE}:
                return
            depth += (self._word in _OPEN) - (self._word in _CLOSE)
            self._next()


def _tokens(text: str) -> Iterator[tuple[str, int]]:
    line = 1
    for match in re.finditer(_WORD, text):
        token = match.group()
        if match.lastgroup != "comment":
            yield token, line
        line += token.count("\n")


def _unquoted(token: str) -> str:
    if token[0] not in "\"'":
        return token
    return str(tomllib.loads(f"key = {token}")["key"])


# --------------------------------------------------------------------------------------------------
# Merging layers, field by field


def merge(low: Tree, high: Tree, node: Node) -> Tree:
    """Merge the layer `high` into `low`. A field of `high` replaces the field of `low`.

    For questions, a higher layer has precedence over a more specific key: a field that `high` sets
    for `'*'` also replaces the field that `low` sets for single IDs.
    """
    below = (
        _without_fields(low, high.get("*"))
        if isinstance(node, Branch) and node.star_covers_names
        else low
    )
    merged = dict(below)
    for name, above in high.items():
        existing = merged.get(name)
        if isinstance(above, dict) and isinstance(existing, dict):
            merged[name] = merge(
                existing, above, node.child(name) if isinstance(node, Branch) else node
            )
        else:
            merged[name] = above
    return merged


def _without_fields(named: Tree, star: Tree | TreeEntry | None) -> Tree:
    if not isinstance(star, dict):
        return named
    return {
        name: _minus(tree, star) if isinstance(tree, dict) and name != "*" else tree
        for name, tree in named.items()
    }


def _minus(tree: Tree, fields: Tree) -> Tree:
    kept: Tree = {}
    for name, below in tree.items():
        removed = fields.get(name)
        if isinstance(below, dict) and isinstance(removed, dict):
            kept[name] = _minus(below, removed)
        elif removed is None:
            kept[name] = below
    return kept
