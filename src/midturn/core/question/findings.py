"""Collecting everything that is wrong with something authored, to say it at once."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from midturn.core.json_value import Json, pointer_to, shown
from midturn.errors import Problem

_NAMED = 20  # unknown keys of one object, and near words that are looked for


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
        """Note each key that is not known (the first of very many), with the nearest that is, or all of them."""
        unknown = [key for key in keys if key not in known]
        if not unknown:
            return
        from midturn.core.suggestion import did_you_mean  # only where a key is wrong

        for key in unknown[:_NAMED]:
            near = did_you_mean(key, known) if len(self) < _NAMED else ""
            self.add(pointer_to(pointer, key), f"unknown key {shown(key)}.{near or _allowed(known)}")
        if len(unknown) > _NAMED:
            self.add(pointer, f"{len(unknown) - _NAMED:,} more unknown keys.{_allowed(known)}")


def _allowed(known: Sequence[str]) -> str:
    return f" Allowed are {', '.join(f'`{name}`' for name in known)}." if known else " None is allowed here."
