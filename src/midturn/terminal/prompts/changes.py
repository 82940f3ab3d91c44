"""A change to files as a reviewer reads it: file by file, unchanged lines folded. Page, terminal and channels show the same rows."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import islice
from typing import Final, Literal, TypeAlias

from msgspec import Struct

from midturn.question.diff import Change
from midturn.question.json_value import Json
from midturn.question.text import exact
from midturn.terminal.prompts.keys import diff_line

RowKind: TypeAlias = Literal["add", "del", "same", "gap", "note"]
ROWS: Final = 500
"""How many lines of a change are on a page."""
_HUNK: Final = re.compile(r"@@ -(\d{1,9})(?:,(\d{1,9}))? \+(\d{1,9})(?:,(\d{1,9}))? @@(.*)")
_FENCED: Final = re.compile(r"(?P<before>.*?)^(?P<fence>`{3,})diff\n(?P<diff>.*?)^(?P=fence)[ ]*$(?P<after>.*)", re.MULTILINE | re.DOTALL)
_CUT: Final = re.compile(r"\*\*\d+ more lines are not shown here\*\*[^\n]*\(SHA-256 (?P<digest>[0-9a-f]{64})\)\.")
_MISCOUNTED: Final = "the line counts of its @@ headers are wrong"


class ChangeRow(Struct, frozen=True):
    """One line: its number before and after (0: it has none there), and its text. A gap says how many are left out, or holds them."""

    kind: RowKind
    text: str
    old: int = 0
    new: int = 0
    folded: tuple[str, ...] = ()

    @property
    def line(self) -> str:
        """The row as a line of a unified diff, fit to be shown: its first character says what the row is, and every other one is text."""
        return f"@@ {exact(self.text)} @@" if self.kind == "gap" else diff_line(f"{_SIGNS[self.kind]}{self.text}")


class FileChange(Struct, frozen=True):
    """What becomes of one file, or of a piece of it."""

    path: str
    rows: Sequence[ChangeRow]
    note: str = ""

    @property
    def added(self) -> int:
        """How many lines come."""
        return sum(row.kind == "add" for row in self.rows)

    @property
    def removed(self) -> int:
        """How many lines go."""
        return sum(row.kind == "del" for row in self.rows)

    @property
    def heading(self) -> str:
        """The path, how many lines come and go, and the note, in one line that is fit to be shown."""
        counts = " ".join([*([f"+{self.added}"] if self.added else []), *([f"-{self.removed}"] if self.removed else [])])
        said = ", ".join(part for part in (counts, self.note) if part)
        return f"{exact(self.path)} ({said})" if said else exact(self.path)


class ShownFile(Struct, frozen=True):
    """The rows of a file that are on one page."""

    file: FileChange
    rows: Sequence[ChangeRow]


class ChangePage(Struct, frozen=True):
    """A page of a change; `lines` says which of how many these are."""

    files: Sequence[ShownFile]
    number: int
    pages: int
    lines: str


class FileChanges(Struct, frozen=True):
    """Everything that a call or a question would change, and what else is said with it.

    `before` and `after` are the texts of a context around its diff; `rest` has the arguments of a call that the change does not show.
    """

    files: Sequence[FileChange]
    before: str = ""
    after: str = ""
    rest: Mapping[str, Json] = {}

    @property
    def lines(self) -> list[str]:
        """The change as text, each line fit to be shown."""
        return [line for file in self.files for line in (file.heading, *(row.line for row in file.rows))]

    def page(self, number: int = 1) -> ChangePage:
        """Return a page of the changes; the last page if `number` is too high."""
        total = sum(len(file.rows) for file in self.files)
        pages = max(1, -(-total // ROWS))
        number = min(max(1, number), pages)
        first, shown, at = (number - 1) * ROWS, list[ShownFile](), 0
        for file in self.files:
            rows = file.rows[max(0, first - at) : max(0, first + ROWS - at)]
            at += len(file.rows)
            if rows or (not file.rows and number == 1):
                shown.append(ShownFile(file, rows))
        return ChangePage(shown, number, pages, f"{first + 1:,} to {min(total, first + ROWS):,} of {total:,}")


# ----------------------------------------------------------------------------------------------------------------------
# A unified diff, read to its last line: a text that has anything else in it is shown as the text that it is. Models miscount the lines of a
# hunk, so counts that do not fit are replaced by a count of the lines.


def read_diff(text: str) -> list[FileChange] | None:
    """Read a unified diff; None where any of it is something else."""
    lines = text.removesuffix("\n").split("\n")
    files: list[FileChange] = []
    at = 0
    while at < len(lines):
        names = lines[at : at + 2]
        if len(names) < 2 or not (names[0].startswith("--- ") and names[1].startswith("+++ ")):  # noqa: PLR2004  two names
            return None
        rows, at, is_counted = _hunks(lines, at + 2)
        if not rows:
            return None
        files.append(FileChange(_path(names[0][4:], names[1][4:]), rows, "" if is_counted else _MISCOUNTED))
    return files or None


def _path(old: str, new: str) -> str:
    """Name a file as it is called afterwards, and before where that is another name."""
    before, after = (name.split("\t", 1)[0] for name in (old, new))
    if after == "/dev/null":
        return f"{before.removeprefix('a/')} (goes)"
    if before == "/dev/null":
        return f"{after.removeprefix('b/')} (new)"
    before, after = before.removeprefix("a/"), after.removeprefix("b/")
    return after if before == after else f"{before} → {after}"


def _hunks(lines: Sequence[str], at: int) -> tuple[list[ChangeRow], int, bool]:
    """Return the rows of the hunks from a place on, the place behind them, and whether their headers count right."""
    rows: list[ChangeRow] = []
    seen = 0
    is_counted = True
    while at < len(lines) and (head := _HUNK.fullmatch(lines[at])):
        old, olds, new, news = _numbers(head)
        gap = old - 1 - seen + (not olds)
        if gap > 0 or head[5].strip():
            said = f"{gap} unchanged line{'' if gap == 1 else 's'}" if gap > 0 else "unchanged"
            rows.append(ChangeRow("gap", f"{said} · {head[5].strip()}" if head[5].strip() else said))
        end = hunk_end(lines, at)
        hunk = _hunk(lines[at + 1 : end], old, new)
        if not hunk:
            return [], at, is_counted
        rows += hunk
        is_counted = is_counted and end == _counted_end(lines, at, olds, news)
        seen = old + sum(row.kind in ("del", "same") for row in hunk) - 1 + (not olds)
        at = end
    return rows, at, is_counted


def hunk_end(lines: Sequence[str], at: int) -> int:
    """Return the place behind the hunk whose header is at `at`: as its header counts, if its lines are so many, else by its lines."""
    head = _HUNK.match(lines[at])
    if head is None:
        return at
    _, olds, _, news = _numbers(head)
    counted = _counted_end(lines, at, olds, news)
    if counted is not None and not _continues(lines, counted):
        return counted
    end = at + 1
    while end < len(lines) and (_continues(lines, end) or not lines[end]):
        end += 1
    while end > at + 1 and not lines[end - 1]:  # an empty line at the end is no line of the file
        end -= 1
    return end


def _counted_end(lines: Sequence[str], at: int, olds: int, news: int) -> int | None:
    """Return the place behind a hunk as its header counts; None if its lines do not add up to that."""
    end = at + 1
    while olds > 0 or news > 0:
        kind = _KINDS.get(lines[end][:1] or " ") if end < len(lines) else None
        olds -= kind in ("del", "same")
        news -= kind in ("add", "same")
        if kind is None or olds < 0 or news < 0:
            return None
        end += 1
    return end + (end < len(lines) and lines[end].startswith("\\"))


def _continues(lines: Sequence[str], at: int) -> bool:
    """Return whether a line can belong to the hunk above it: not the header of a file, nor the line above a signature in a mail."""
    line = lines[at] if at < len(lines) else ""
    is_header = line.startswith("--- ") and at + 1 < len(lines) and lines[at + 1].startswith("+++ ")
    return line[:1] in _KINDS and line != "-- " and not is_header


def _numbers(head: re.Match[str]) -> tuple[int, int, int, int]:
    old, olds, new, news = (int(head[number] or "1") for number in (1, 2, 3, 4))
    return old, olds, new, news


def _hunk(lines: Sequence[str], old: int, new: int) -> list[ChangeRow]:
    rows: list[ChangeRow] = []
    for line in lines:
        kind = _KINDS[line[:1] or " "]
        goes, comes = kind in ("del", "same"), kind in ("add", "same")
        rows.append(ChangeRow(kind, line[1:], old if goes else 0, new if comes else 0))
        old, new = old + goes, new + comes
    return rows


_KINDS: Final[Mapping[str, RowKind]] = {"+": "add", "-": "del", " ": "same", "\\": "note"}
_SIGNS: Final[Mapping[RowKind, str]] = {kind: sign for sign, kind in _KINDS.items()}


# ----------------------------------------------------------------------------------------------------------------------
# Where a change stands: in what is said above a question, whole or kept beside it; and in the arguments of a call


def change_in(context: str, whole: Callable[[str], str | None] = lambda _: None) -> FileChanges | None:
    """Return the change that a context shows; None if it has no diff.

    Args:
        context: The context of a question.
        whole: Returns the diff with a SHA-256 digest, if it is kept. Only the beginning of a large diff is in its context.
    """
    found = _FENCED.fullmatch(context)
    if found is None:
        return None
    diff, after = found["diff"], found["after"]
    if (cut := _CUT.search(after)) and (kept := whole(cut["digest"])) is not None:
        diff, after = kept, after.replace(cut[0], "")
    files = read_diff(diff)
    return None if files is None else FileChanges(files, found["before"].strip("\n"), after.strip("\n"))


def is_cut(context: str) -> bool:
    """Say whether a context shows only the beginning of a change."""
    return _CUT.search(context) is not None


_PATHS: Final = ("path", "file_path", "filePath", "notebook_path")
_PAIRS: Final = (("old", "new"), ("old_string", "new_string"), ("oldString", "newString"), ("oldText", "newText"))
_EVERYWHERE: Final = ("all", "replace_all", "replaceAll")
_CONTENTS: Final = ("content", "contents")
_PATCHES: Final = ("patch", "diff", "unified_diff")
_SHOWN: Final = frozenset({*_EVERYWHERE, *(name for pair in _PAIRS for name in pair)})
"""Keys of an edit that its change shows."""


def change_of(arguments: Json) -> FileChanges | None:
    """Return what a call would change in files, where its arguments are edits; None where they are anything else."""
    if not isinstance(arguments, Mapping):
        return None
    if patch := _first(arguments, _PATCHES):
        files = read_diff(str(arguments[patch]))
        return None if files is None else FileChanges(files, rest=_without(arguments, {patch}))
    path = _first(arguments, _PATHS)
    return None if path is None else _change_at(path, arguments)


def _change_at(path: str, arguments: Mapping[str, Json]) -> FileChanges | None:
    """Return what a call would change in the file that its argument `path` names."""
    name = str(arguments[path])
    edits = arguments.get("edits")
    if isinstance(edits, Sequence) and not isinstance(edits, str):
        pieces = [_piece(name, edit) for edit in edits]
        if not pieces or not all(pieces):
            return None
        whole = all(isinstance(edit, Mapping) and edit.keys() <= _SHOWN for edit in edits)
        return FileChanges([piece for piece in pieces if piece], rest=_without(arguments, {path, "edits"} if whole else {path}))
    if piece := _piece(name, arguments):
        return FileChanges([piece], rest=_without(arguments, {path, *_SHOWN}))
    content = _first(arguments, _CONTENTS)
    if content is None:
        return None
    return FileChanges([_written(name, str(arguments[content]))], rest=_without(arguments, {path, content}))


def _first(arguments: Mapping[str, Json], names: Sequence[str]) -> str | None:
    """Return the first of these names that an argument has whose value is a text."""
    return next((name for name in names if isinstance(arguments.get(name), str)), None)


def _without(arguments: Mapping[str, Json], shown: set[str]) -> dict[str, Json]:
    """Return the arguments that a change does not show. A flag is shown by the note beside its file, if it is on."""
    return {name: value for name, value in arguments.items() if name not in shown or (name in _EVERYWHERE and value is not True)}


def _piece(path: str, edit: Json) -> FileChange | None:
    if not isinstance(edit, Mapping):
        return None
    for names in _PAIRS:
        old, new = (edit.get(name) for name in names)
        if isinstance(old, str) and isinstance(new, str):
            everywhere = any(edit.get(name) is True for name in _EVERYWHERE)
            return FileChange(path, _folded(old, new), "wherever this occurs in the file" if everywhere else "")
    return None


def _folded(old: str, new: str) -> Sequence[ChangeRow]:
    """Compare two pieces of text; what is the same at a distance from a change is folded, and still there."""
    files = read_diff(Change("piece", old, new).diff())
    if files is None:
        return [ChangeRow("same", line) for line in old.removesuffix("\n").split("\n")]
    lines = old.removesuffix("\n").split("\n")
    rows, seen = list[ChangeRow](), 0
    for row in files[0].rows:
        if row.kind == "gap":
            count = int(row.text.split(" ", 1)[0])
            rows.append(ChangeRow("gap", row.text, folded=tuple(islice(lines, seen, seen + count))))
            seen += count
        else:
            seen += row.kind in ("del", "same")
            rows.append(ChangeRow(row.kind, row.text))
    left = tuple(lines[seen:]) if old else ()
    return [*rows, ChangeRow("gap", f"{len(left)} unchanged line{'' if len(left) == 1 else 's'}", folded=left)] if left else rows


def _written(path: str, content: str) -> FileChange:
    """Show what is written to a file: what is there now is not in the call."""
    return FileChange(path, list(_lines(content)), "its whole content")


def _lines(content: str) -> Iterator[ChangeRow]:
    for number, line in enumerate(content.removesuffix("\n").split("\n") if content else (), 1):
        yield ChangeRow("add", line, new=number)
    if content and not content.endswith("\n"):
        yield ChangeRow("note", " No newline at end of file")
