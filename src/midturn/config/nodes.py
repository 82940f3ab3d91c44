"""What the table of known keys is made of."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Literal, TypeAlias

from msgspec import Struct

from midturn.core.json_value import Json

ValueKind: TypeAlias = Literal[
    "string", "boolean", "integer", "number", "seconds", "argv", "model", "cache", "variable", "paths", "json_type", "required", "json"
]


class Leaf(Struct, frozen=True, kw_only=True):
    """One value. `least` and `most` bound numbers; `aliases` are read as the values that they name; `private` is not displayed.

    `why` says what it does, where a workspace's file sets it and its user is asked for approval (`runs a program`).
    """

    kind: ValueKind = "string"
    allowed: tuple[str, ...] = ()
    aliases: Mapping[str, str] = {}
    least: float | None = None
    most: float | None = None
    why: str = ""
    private: bool = False
    help: str = ""


class Names(Struct, frozen=True):
    """Free names in a table: those that match `pattern`, each with `node` below; `'*'` has a node of its own where it is allowed."""

    node: Node
    what: str
    pattern: str
    star: Node | None = None


class Shorthand(Struct, frozen=True):
    """A plain value in place of a table, and the fields that it stands for."""

    leaf: Leaf
    expand: Callable[[Json], Mapping[str, Json]]


class Branch(Struct, frozen=True, kw_only=True):
    """A table. `implied` fields are set by writing the table at all; `why` is that of every key in it that has none."""

    keys: Mapping[str, Node] = {}
    names: Names | None = None
    shorthand: Shorthand | None = None
    implied: Mapping[str, Json] = {}
    star_covers_names: bool = False
    why: str = ""

    def child(self, name: str) -> Node:
        """Return the node of a key that was checked; what stands below a free value has no rules."""
        found = self.keys.get(name)
        if found is None and self.names is not None:
            found = self.names.star if name == "*" and self.names.star is not None else self.names.node
        return found if found is not None else _FREE


Node: TypeAlias = Leaf | Branch

_FREE = Leaf(kind="json")
