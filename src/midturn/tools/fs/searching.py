"""The file tools `fs_list_files` and `fs_grep_files`, with globs and regular expressions."""

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
from midturn.tools.fs.beneath import MAX_FILE_BYTES, Beneath, FileTooLarge, ignored
from midturn.tools.fs.paths import Missing, relative, shown
from midturn.tools.fs.reading import decoded, lines_of
from midturn.tools.returned import Rejected

# --------------------------------------------------------------------------------------------------
# Globs: `*` and `?` match within a name, `**` matches any folders, `{a,b}` matches either


_BRACES = re.compile(r"\{([^{}]*)\}")
_MAX_ALTERNATIVES = 64


class Glob:
    """A glob. If it contains no slash, it matches names in any folder. Matching takes time
    proportional to the pattern length times the path length.
    """

    def __init__(self, pattern: str) -> None:
        self._patterns = [_parts(expanded) for expanded in _expanded(pattern)]

    def matches(self, path: PurePosixPath) -> bool:
        """Return whether a path, relative to the searched folder, matches."""
        return any(_matches(pattern, path.parts) for pattern in self._patterns)


def _expanded(pattern: str) -> list[str]:
    """Expand the alternatives in braces."""
    pending, expanded = [pattern], list[str]()
    while pending:
        if len(pending) + len(expanded) > _MAX_ALTERNATIVES:
            raise Rejected(
                f"The glob has more than {_MAX_ALTERNATIVES} alternatives; use fewer braces."
            )
        current = pending.pop()
        braces = _BRACES.search(current)
        if braces is None:
            expanded.append(current)
        else:
            pending += [
                current[: braces.start()] + choice + current[braces.end() :]
                for choice in braces[1].split(",")
            ]
    return expanded


def _parts(pattern: str) -> tuple[str, ...]:
    parts = PurePosixPath(pattern.removeprefix("./")).parts
    if not parts:
        raise Rejected("The glob is empty; leave it out to see every file.")
    return ("**", *parts) if len(parts) == 1 else parts


def _matches(pattern: Sequence[str], names: Sequence[str]) -> bool:
    """Match all alternatives at the same time. `reached` contains the possible positions in the
    pattern after each name.
    """
    reached = _skipping({0}, pattern)
    for name in names:
        stepped = {
            at if pattern[at] == "**" else at + 1
            for at in reached
            if at < len(pattern) and _fits(pattern[at], name)
        }
        reached = _skipping(stepped, pattern)
    return len(pattern) in reached


def _skipping(reached: set[int], pattern: Sequence[str]) -> set[int]:
    """Add the positions after a `**` that matches no folder."""
    for at in range(len(pattern)):
        if at in reached and pattern[at] == "**":
            reached.add(at + 1)
    return reached


def _fits(pattern: str, name: str) -> bool:
    return pattern == "**" or _compiled(pattern).fullmatch(name) is not None


@cache
def _compiled(pattern: str) -> re.Pattern[str]:
    return re.compile(fnmatch.translate(pattern))


# --------------------------------------------------------------------------------------------------
# Regular expressions from a model, matched in linear time.
# With Python's `re`, a short pattern can block the whole program forever. The engine of the schema
# validator always takes linear time, because it does not support lookaround or backreferences.


_MAX_PATTERN_LENGTH = 1_000
# maximum size of a compiled pattern; the matching time grows with this size
_MAX_COMPILED_BYTES = 64 * 1024
_MAX_SEARCHED_LENGTH = 20_000  # how many characters of a line are searched


class Pattern:
    """A regular expression to search for in lines.

    Raises:
        Rejected: The pattern is invalid, or uses unsupported features.
    """

    def __init__(self, pattern: str) -> None:
        if not pattern or len(pattern) > _MAX_PATTERN_LENGTH:
            raise Rejected(f"`pattern` must have 1 to {_MAX_PATTERN_LENGTH} characters.")
        options = jsonschema_rs.RegexOptions(
            size_limit=_MAX_COMPILED_BYTES, dfa_size_limit=_MAX_COMPILED_BYTES
        )
        try:
            self._validator = jsonschema_rs.validator_for(
                {"pattern": pattern}, offline=True, pattern_options=options
            )
        except (jsonschema_rs.ValidationError, ValueError):
            raise Rejected(
                "`pattern` is not a regular expression that is known here, or too large a one."
                " Escape the characters . ^ $ * + ? { } [ ] \\ | ( ) with a backslash to find them"
                " as they are; look-around and back-references are not available."
            ) from None

    def is_in(self, line: str) -> bool:
        """Return whether the pattern occurs in a line. Only the first part of a very long line is
        searched.
        """
        return self._validator.is_valid(line[:_MAX_SEARCHED_LENGTH])


# --------------------------------------------------------------------------------------------------
# Traversal of folders


_SKIPPED_NAMES = frozenset({".git", ".midturn"})


class Found(Struct, frozen=True):
    """A file, or a folder at the maximum depth. `path` is relative to the start folder."""

    path: PurePosixPath
    is_folder: bool = False


class TreeWalk:
    """Yields the files below a folder, sorted by name. Links are not followed. `unreadable` is the
    number of folders that cannot be read.

    The folders of git and midturn, and files that git ignores, are skipped, unless the traversal
    starts inside them.
    """

    def __init__(
        self, beneath: Beneath, start: PurePosixPath, max_depth: int | None = None
    ) -> None:
        self.unreadable = 0
        self._beneath = beneath
        self._start = start
        self._max_depth = max_depth
        with beneath.folder(start):  # raises for an invalid start
            self._ignored = ignored(beneath.root / start)

    def __iter__(self) -> Iterator[Found]:
        pending = [PurePosixPath()]
        while pending:
            folder = pending.pop()
            if self._max_depth is not None and len(folder.parts) >= self._max_depth:
                yield Found(folder, is_folder=True)
                continue
            folders: list[PurePosixPath] = []
            for path, is_folder in self._entries(folder):
                if is_folder:
                    folders.append(path)
                else:
                    yield Found(path)
            pending += reversed(folders)

    def _entries(self, folder: PurePosixPath) -> list[tuple[PurePosixPath, bool]]:
        try:
            with (
                self._beneath.folder(self._start / folder) as descriptor,
                os.scandir(descriptor) as entries,
            ):
                named = sorted(
                    (entry.name, entry.is_dir(follow_symlinks=False)) for entry in entries
                )
        except (Rejected, OSError):
            self.unreadable += 1
            return []
        paths = [
            (folder / name, is_folder) for name, is_folder in named if name not in _SKIPPED_NAMES
        ]
        return [
            (path, is_folder)
            for path, is_folder in paths
            if (f"{path}/" if is_folder else str(path)) not in self._ignored
        ]


_MAX_LINES = 1_000
_MAX_CHARACTERS = 100 * 1024
_MAX_LINE_LENGTH = 500  # how many characters of a line are shown
_TIME_LIMIT = 30.0
_MAX_NAMED = 5


def grep_files(
    ctx: ToolContext, pattern: str, path: str, glob: str | None, context: int | None
) -> str:
    """Search text files."""
    start = relative(path, ctx.root)
    matching = Glob(glob) if glob else None
    result = _Result("--" if context else "")
    with Beneath(ctx.root) as beneath:
        search = _Search(beneath, Pattern(pattern), context or 0, ctx)
        for file in _files(beneath, start, matching):
            result.add(file, search.named_lines(file) if file == start else search.lines(file))
            if search.is_over():
                result.stopped = (
                    f"(stopped after {_TIME_LIMIT:g} seconds: look into one folder, or give a"
                    " `glob`)"
                )
            if result.stopped:
                break
    return "\n".join([result.text(), *_not_searched(search.too_large)])


def _not_searched(files: Sequence[str]) -> Iterator[str]:
    """Yield a note about files that are too large to search."""
    if files:
        more = f" and {len(files) - _MAX_NAMED} more" if len(files) > _MAX_NAMED else ""
        yield (
            f"(not searched, larger than {MAX_FILE_BYTES // 2**20} MiB:"
            f" {', '.join(files[:_MAX_NAMED])}{more})"
        )


class _Result:
    """The lines found so far. `stopped` is the reason why the search ended early."""

    def __init__(self, separator: str) -> None:
        self.stopped = ""
        self._mark = separator
        self._lines: list[str] = []
        self._room = _MAX_CHARACTERS

    def add(self, file: PurePosixPath, found: Iterator[FoundLine]) -> None:
        """Add the lines of one file. If there is a separator, it is inserted between lines that are
        not adjacent.
        """
        name, last = shown(str(file)), 0
        for line in found:
            if self._mark and self._lines and (not last or line.number != last + 1):
                self._lines.append(self._mark)
            self._lines.append(line.shown(name))
            self._room -= len(self._lines[-1])
            last = line.number
            if len(self._lines) >= _MAX_LINES or self._room < 0:
                self.stopped = (
                    "(there is more: look into one folder, give a `glob`, or a narrower pattern)"
                )
                return

    def text(self) -> str:
        """Return the result as one string."""
        return (
            "\n".join([*self._lines, *([self.stopped] if self.stopped else [])]) or "(no matches)"
        )


class FoundLine(Struct, frozen=True):
    """A matching line of a file, or a line of its context."""

    number: int
    text: str
    is_match: bool

    def shown(self, name: str) -> str:
        """Format the line like `grep`."""
        mark = ":" if self.is_match else "-"
        cut = (
            self.text if len(self.text) <= _MAX_LINE_LENGTH else self.text[:_MAX_LINE_LENGTH] + "…"
        )
        return f"{name}{mark}{self.number}{mark}{cut}"


def _files(beneath: Beneath, start: PurePosixPath, glob: Glob | None) -> Iterator[PurePosixPath]:
    """Yield the files to search: `start` itself, or the files below it."""
    try:
        walk = TreeWalk(beneath, start)
    except Missing:
        raise
    except Rejected:
        yield start  # a file, or a path for which reading it raises the right error
        return
    for found in walk:
        if glob is None or glob.matches(found.path):
            yield start / found.path


class _Search:
    """A search with its time limit."""

    def __init__(self, beneath: Beneath, pattern: Pattern, context: int, ctx: ToolContext) -> None:
        self._beneath = beneath
        self._pattern = pattern
        self._context = context
        self._ctx = ctx
        self._end = time.monotonic() + _TIME_LIMIT
        self.too_large: list[str] = []

    def is_over(self) -> bool:
        """Return whether the time limit has passed or the call was cancelled."""
        return self._ctx.cancelled or time.monotonic() > self._end

    def lines(self, file: PurePosixPath) -> Iterator[FoundLine]:
        """Yield the matching lines of a file with their context. A file that is unreadable or not
        text yields no lines.
        """
        try:
            yield from self.named_lines(file)
        except Rejected:
            return

    def named_lines(self, file: PurePosixPath) -> Iterator[FoundLine]:
        """Yield the matching lines of a file that the model named.

        Raises:
            Rejected: The file cannot be read. An empty result would hide this from the model.
        """
        try:
            text = decoded(self._beneath.read(file))
        except FileTooLarge:
            self.too_large.append(shown(str(file)))
            return
        lines = [line.removesuffix("\r") for line in lines_of(text)] if text else []
        matches = [
            at for at, line in enumerate(lines) if not self.is_over() and self._pattern.is_in(line)
        ]
        found = set(matches)
        for at in _around(matches, self._context, len(lines)):
            yield FoundLine(at + 1, lines[at], at in found)


def _around(matches: Sequence[int], context: int, count: int) -> list[int]:
    """Return the indexes of the matches and their context, without duplicates."""
    if not context:
        return list(matches)
    return sorted(
        {
            index
            for at in matches
            for index in range(max(at - context, 0), min(at + context + 1, count))
        }
    )


# --------------------------------------------------------------------------------------------------
# `fs_list_files`


_MAX_FILES = 1_000


def list_files(ctx: ToolContext, path: str, glob: str | None, max_depth: int | None) -> str:
    """List files, one path per line."""
    start = relative(path, ctx.root)
    pattern = Glob(glob) if glob else None
    with Beneath(ctx.root) as beneath:
        walk = TreeWalk(beneath, start, max_depth)
        found = (
            entry
            for entry in walk
            if pattern is None or entry.is_folder or pattern.matches(entry.path)
        )
        lines = [
            shown(str(start / entry.path)) + ("/" if entry.is_folder else "")
            for entry in islice(found, _MAX_FILES + 1)
        ]
    notes = (
        [
            (
                f"(there are more than {_MAX_FILES}: look into one folder, or give a `glob` or"
                " `max_depth`)"
            )
        ]
        if len(lines) > _MAX_FILES
        else []
    )
    if walk.unreadable:
        notes.append(f"({walk.unreadable} folders could not be read)")
    return "\n".join([*lines[:_MAX_FILES], *notes]) or "(no files)"
