"""Patterns for paths: `*` and `?` stay inside a name, `**` stands for any folders, `{a,b}` for either."""

from __future__ import annotations

import fnmatch
import re
from collections.abc import Sequence
from functools import cache
from pathlib import PurePosixPath

from midturn.tools.returned import Rejected

_BRACES = re.compile(r"\{([^{}]*)\}")
_MOST = 64


class Glob:
    """A pattern; one without a slash matches names in any folder. Matching takes time proportional to pattern times path."""

    def __init__(self, pattern: str) -> None:
        self._patterns = [_parts(expanded) for expanded in _expanded(pattern)]

    def matches(self, path: PurePosixPath) -> bool:
        """Say whether a path, relative to the folder that is looked in, matches."""
        return any(_matches(pattern, path.parts) for pattern in self._patterns)


def _expanded(pattern: str) -> list[str]:
    """Write the alternatives in braces out."""
    todo, done = [pattern], list[str]()
    while todo:
        if len(todo) + len(done) > _MOST:
            raise Rejected(f"The glob has more than {_MOST} alternatives; use fewer braces.")
        one = todo.pop()
        braces = _BRACES.search(one)
        if braces is None:
            done.append(one)
        else:
            todo += [one[: braces.start()] + choice + one[braces.end() :] for choice in braces[1].split(",")]
    return done


def _parts(pattern: str) -> tuple[str, ...]:
    parts = PurePosixPath(pattern.removeprefix("./")).parts
    if not parts:
        raise Rejected("The glob is empty; leave it out to see every file.")
    return ("**", *parts) if len(parts) == 1 else parts


def _matches(pattern: Sequence[str], names: Sequence[str]) -> bool:
    """Follow all ways through the pattern at once: `reached` holds how much of it the names so far can have used."""
    reached = _skipping({0}, pattern)
    for name in names:
        stepped = {at if pattern[at] == "**" else at + 1 for at in reached if at < len(pattern) and _fits(pattern[at], name)}
        reached = _skipping(stepped, pattern)
    return len(pattern) in reached


def _skipping(reached: set[int], pattern: Sequence[str]) -> set[int]:
    """Add the places after a `**` that stands for no folder at all."""
    for at in range(len(pattern)):
        if at in reached and pattern[at] == "**":
            reached.add(at + 1)
    return reached


def _fits(pattern: str, name: str) -> bool:
    return pattern == "**" or _compiled(pattern).fullmatch(name) is not None


@cache
def _compiled(pattern: str) -> re.Pattern[str]:
    return re.compile(fnmatch.translate(pattern))
