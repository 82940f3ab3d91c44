"""What `fs_grep_files` does."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from pathlib import PurePosixPath

from msgspec import Struct

from midturn.tools.context import ToolContext
from midturn.tools.fs.beneath import LARGEST, Beneath, FileTooLarge
from midturn.tools.fs.globs import Glob
from midturn.tools.fs.paths import relative, shown
from midturn.tools.fs.pattern import Pattern
from midturn.tools.fs.problems import Missing
from midturn.tools.fs.text import decoded, lines_of
from midturn.tools.fs.walk import TreeWalk
from midturn.tools.returned import Rejected

_MOST_LINES = 1_000
_MOST_CHARACTERS = 100 * 1024
_LONGEST = 500  # characters of a line that are shown
_SECONDS = 30.0
_NAMED = 5


def grep_files(ctx: ToolContext, pattern: str, path: str, glob: str | None, context: int | None) -> str:
    """Search text files."""
    start = relative(path, ctx.root)
    matching = Glob(glob) if glob else None
    result = _Result("--" if context else "")
    with Beneath(ctx.root) as beneath:
        search = _Search(beneath, Pattern(pattern), context or 0, ctx)
        for file in _files(beneath, start, matching):
            result.add(file, search.named_lines(file) if file == start else search.lines(file))
            if search.is_over():
                result.stopped = f"(stopped after {_SECONDS:g} seconds: look into one folder, or give a `glob`)"
            if result.stopped:
                break
    return "\n".join([result.text(), *_not_searched(search.too_large)])


def _not_searched(files: Sequence[str]) -> Iterator[str]:
    """Say which files are too large to be searched: that nothing was found there means nothing."""
    if files:
        more = f" and {len(files) - _NAMED} more" if len(files) > _NAMED else ""
        yield f"(not searched, larger than {LARGEST // 2**20} MiB: {', '.join(files[:_NAMED])}{more})"


class _Result:
    """The lines found so far; `stopped` says why no more are wanted."""

    def __init__(self, mark: str) -> None:
        self.stopped = ""
        self._mark = mark
        self._lines: list[str] = []
        self._room = _MOST_CHARACTERS

    def add(self, file: PurePosixPath, found: Iterator[FoundLine]) -> None:
        """Take the lines of one file; the mark, if any, stands between those that do not follow each other."""
        name, last = shown(str(file)), 0
        for line in found:
            if self._mark and self._lines and (not last or line.number != last + 1):
                self._lines.append(self._mark)
            self._lines.append(line.shown(name))
            self._room -= len(self._lines[-1])
            last = line.number
            if len(self._lines) >= _MOST_LINES or self._room < 0:
                self.stopped = "(there is more: look into one folder, give a `glob`, or a narrower pattern)"
                return

    def text(self) -> str:
        """Return everything as one text."""
        return "\n".join([*self._lines, *([self.stopped] if self.stopped else [])]) or "(no matches)"


class FoundLine(Struct, frozen=True):
    """One line of a file: a match, or beside one."""

    number: int
    text: str
    is_match: bool

    def shown(self, name: str) -> str:
        """Write it as `grep` does."""
        mark = ":" if self.is_match else "-"
        cut = self.text if len(self.text) <= _LONGEST else self.text[:_LONGEST] + "…"
        return f"{name}{mark}{self.number}{mark}{cut}"


def _files(beneath: Beneath, start: PurePosixPath, glob: Glob | None) -> Iterator[PurePosixPath]:
    """Yield the files to search: `start` itself, or what is below it."""
    try:
        walk = TreeWalk(beneath, start)
    except Missing:
        raise
    except Rejected:
        yield start  # no folder: a file, or an error of its own
        return
    for found in walk:
        if glob is None or glob.matches(found.path):
            yield start / found.path


class _Search:
    """What is looked for, and how long."""

    def __init__(self, beneath: Beneath, pattern: Pattern, context: int, ctx: ToolContext) -> None:
        self._beneath = beneath
        self._pattern = pattern
        self._context = context
        self._ctx = ctx
        self._end = time.monotonic() + _SECONDS
        self.too_large: list[str] = []

    def is_over(self) -> bool:
        """Say whether it took too long, or nobody waits any more."""
        return self._ctx.cancelled or time.monotonic() > self._end

    def lines(self, file: PurePosixPath) -> Iterator[FoundLine]:
        """Yield the matching lines of a file and those around them; what is not text, or cannot be read, has none."""
        try:
            yield from self.named_lines(file)
        except Rejected:
            return

    def named_lines(self, file: PurePosixPath) -> Iterator[FoundLine]:
        """Yield the matching lines of a file that was named.

        Raises:
            Rejected: It cannot be read: that is not the same as finding nothing in it.
        """
        try:
            text = decoded(self._beneath.read(file))
        except FileTooLarge:
            self.too_large.append(shown(str(file)))
            return
        lines = [line.removesuffix("\r") for line in lines_of(text)] if text else []
        matches = [at for at, line in enumerate(lines) if not self.is_over() and self._pattern.is_in(line)]
        found = set(matches)
        for at in _around(matches, self._context, len(lines)):
            yield FoundLine(at + 1, lines[at], at in found)


def _around(matches: Sequence[int], context: int, count: int) -> list[int]:
    """Return the places of the matches and their surroundings, each once."""
    if not context:
        return list(matches)
    return sorted({place for at in matches for place in range(max(at - context, 0), min(at + context + 1, count))})
