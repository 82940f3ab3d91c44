"""`fs_list_files` and `fs_grep_files`, with their patterns and regular expressions."""

from __future__ import annotations

import fnmatch
import os
import re
import time
from collections.abc import Iterator, Sequence
from functools import cache
from itertools import islice
from pathlib import PurePosixPath

import jsonschema_rs
from msgspec import Struct

from midturn.tools.asking import ToolContext
from midturn.tools.fs.beneath import LARGEST, Beneath, FileTooLarge, ignored
from midturn.tools.fs.paths import Missing, relative, shown
from midturn.tools.fs.reading import decoded, lines_of
from midturn.tools.returned import Rejected

# ----------------------------------------------------------------------------------------------------------------------
# Patterns for paths: `*` and `?` stay inside a name, `**` stands for any folders, `{a,b}` for either


_BRACES = re.compile(r"\{([^{}]*)\}")
_MOST_PARTS = 64


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
        if len(todo) + len(done) > _MOST_PARTS:
            raise Rejected(f"The glob has more than {_MOST_PARTS} alternatives; use fewer braces.")
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


# ----------------------------------------------------------------------------------------------------------------------
# Regular expressions that a model writes, matched in linear time.
# Python's own `re` can be made to run for ever by a pattern of a few characters, with the whole program standing still. The engine
# behind the schema validator cannot: it knows no look-around and no back-references.


_LONGEST_PATTERN = 1_000
_COMPILED = 64 * 1024  # bytes of a compiled pattern: the time for each byte of text grows with it
_SEARCHED = 20_000  # characters of a line that are looked at


class Pattern:
    """A pattern that is looked for anywhere in a line.

    Raises:
        Rejected: It is not a regular expression, or uses what the engine does not know.
    """

    def __init__(self, pattern: str) -> None:
        if not pattern or len(pattern) > _LONGEST_PATTERN:
            raise Rejected(f"`pattern` must have 1 to {_LONGEST_PATTERN} characters.")
        options = jsonschema_rs.RegexOptions(size_limit=_COMPILED, dfa_size_limit=_COMPILED)
        try:
            self._validator = jsonschema_rs.validator_for({"pattern": pattern}, offline=True, pattern_options=options)
        except (jsonschema_rs.ValidationError, ValueError):
            raise Rejected(
                "`pattern` is not a regular expression that is known here, or too large a one. Escape the characters . ^ $ * + ? { } [ ] "
                "\\ | ( ) with a backslash to find them as they are; look-around and back-references are not available."
            ) from None

    def is_in(self, line: str) -> bool:
        """Say whether the pattern occurs in a line, or in the beginning of a very long one."""
        return self._validator.is_valid(line[:_SEARCHED])


# ----------------------------------------------------------------------------------------------------------------------
# Walking through the folders of a workspace


_LEFT_OUT = frozenset({".git", ".midturn"})


class Found(Struct, frozen=True):
    """A file, or a folder that was not entered because it is too deep. `path` is relative to the folder where the walk began."""

    path: PurePosixPath
    is_folder: bool = False


class TreeWalk:
    """Yields the files below a folder, by name, and follows no link. `unreadable` counts folders that could not be entered.

    Left out are git's and our own folders, and what git ignores, unless the walk begins inside of it.
    """

    def __init__(self, beneath: Beneath, start: PurePosixPath, max_depth: int | None = None) -> None:
        self.unreadable = 0
        self._beneath = beneath
        self._start = start
        self._max_depth = max_depth
        with beneath.folder(start):  # a wrong start is an error, not an empty walk
            self._ignored = ignored(beneath.root / start)

    def __iter__(self) -> Iterator[Found]:
        todo = [PurePosixPath()]
        while todo:
            folder = todo.pop()
            if self._max_depth is not None and len(folder.parts) >= self._max_depth:
                yield Found(folder, is_folder=True)
                continue
            folders: list[PurePosixPath] = []
            for path, is_folder in self._entries(folder):
                if is_folder:
                    folders.append(path)
                else:
                    yield Found(path)
            todo += reversed(folders)

    def _entries(self, folder: PurePosixPath) -> list[tuple[PurePosixPath, bool]]:
        try:
            with self._beneath.folder(self._start / folder) as descriptor, os.scandir(descriptor) as entries:
                named = sorted((entry.name, entry.is_dir(follow_symlinks=False)) for entry in entries)
        except (Rejected, OSError):
            self.unreadable += 1
            return []
        paths = [(folder / name, is_folder) for name, is_folder in named if name not in _LEFT_OUT]
        return [(path, is_folder) for path, is_folder in paths if (f"{path}/" if is_folder else str(path)) not in self._ignored]


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
    """A search, with its time limit."""

    def __init__(self, beneath: Beneath, pattern: Pattern, context: int, ctx: ToolContext) -> None:
        self._beneath = beneath
        self._pattern = pattern
        self._context = context
        self._ctx = ctx
        self._end = time.monotonic() + _SECONDS
        self.too_large: list[str] = []

    def is_over(self) -> bool:
        """Say whether it took too long, or was given up."""
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


# ----------------------------------------------------------------------------------------------------------------------
# `fs_list_files`


_MOST = 1_000


def list_files(ctx: ToolContext, path: str, glob: str | None, max_depth: int | None) -> str:
    """List files, one path a line."""
    start = relative(path, ctx.root)
    pattern = Glob(glob) if glob else None
    with Beneath(ctx.root) as beneath:
        walk = TreeWalk(beneath, start, max_depth)
        found = (entry for entry in walk if pattern is None or entry.is_folder or pattern.matches(entry.path))
        lines = [shown(str(start / entry.path)) + ("/" if entry.is_folder else "") for entry in islice(found, _MOST + 1)]
    notes = [f"(there are more than {_MOST}: look into one folder, or give a `glob` or `max_depth`)"] if len(lines) > _MOST else []
    if walk.unreadable:
        notes.append(f"({walk.unreadable} folders could not be read)")
    return "\n".join([*lines[:_MOST], *notes]) or "(no files)"
