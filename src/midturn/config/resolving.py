"""Merged layers on their way to settings: looking values up, and noting what does not fit together."""

from __future__ import annotations

from collections.abc import Mapping
from typing import cast

import msgspec
from msgspec import Struct

from midturn.config.tree import KeyPath, Tree, branch, dotted, entries, entry
from midturn.core.json_value import Json
from midturn.sandbox.profile import Declared


class Resolving(Struct, frozen=True):
    """The merged layers, the keys that were left out (not approved, or wrong), and where problems go."""

    merged: Tree
    withheld: frozenset[KeyPath]
    problems: list[str]

    def problem(self, path: KeyPath, message: str) -> None:
        """Note what is wrong with `path`; the place is where it, or the first value in it, was written."""
        found = entry(self.merged, *path) or next((below for _, below in entries(branch(self.merged, *path))), None)
        place = f"{found.place}: " if found else ""
        self.problems.append(f"{place}`{dotted(path)}`: {message}")

    def is_withheld(self, *path: str) -> bool:
        """Say whether a value of `path`, or in it, was left out."""
        return any(one[: len(path)] == path for one in self.withheld)

    def command(self, value: Json, path: KeyPath) -> tuple[str, ...]:
        """Return the program and its arguments; a string is split like a shell does it."""
        if not isinstance(value, str):
            return tuple(map(str, value)) if isinstance(value, list | tuple) else ()
        from shlex import split  # not every configuration has a command written as a string

        try:
            words = split(value)
        except ValueError as error:
            self.problem(path, f"cannot be split into words ({error}); write a list")
            return ()
        return tuple(words)


def declared(values: Mapping[str, Json]) -> Declared:
    """Return what a tool or a server says of its sandbox; `network` may stand beside it, too."""
    given = {"network": values.get("network"), **cast("Mapping[str, Json]", values.get("sandbox", {}))}
    return msgspec.convert(given, Declared)


def variables(values: Json) -> dict[str, str | None]:
    """Return what a program finds in its environment: values, and None for what is passed on."""
    if not isinstance(values, Mapping):
        return {}
    return {name: value if isinstance(value, str) else None for name, value in values.items() if value is not False}
