"""Collecting everything that is wrong with something authored, to say it at once."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from midturn.core.json_value import Json, pointer_to, shown
from midturn.core.suggestion import did_you_mean
from midturn.errors import Problem


class Findings(list[Problem]):
    """The broken rules so far, each where it is (a JSON pointer) and what to do about it."""

    def add(self, pointer: str, message: str) -> None:
        """Note a broken rule."""
        self.append(Problem(pointer, message))

    def mistyped(self, pointer: str, name: str, expected: str, value: Json) -> None:
        """Note that a value is not of the type that it must have."""
        self.append(self.wrong(pointer, f"`{name}`", expected, value))

    @staticmethod
    def wrong(pointer: str, what: str, expected: str, value: Json) -> Problem:
        """Say that something is not what it must be."""
        return Problem(pointer, f"{what} must be {expected}, not {shown(value)}.")

    def unknown_keys(self, pointer: str, keys: Iterable[str], known: Sequence[str]) -> None:
        """Note each key that is not known, with the nearest that is, or all of them."""
        for key in keys:
            if key not in known:
                advice = did_you_mean(key, known) or f" Allowed are {', '.join(f'`{name}`' for name in known)}."
                self.add(pointer_to(pointer, key), f"unknown key {shown(key)}.{advice}")
