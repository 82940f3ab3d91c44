"""File changes for review, file by file, with unchanged lines folded.

The web page, the terminal and channels show the same rows.
"""

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
"""Maximum number of rows on a page."""
_HUNK: Final = re.compile(r"@@ -(\d{1,9})(?:,(\d{1,9}))? \+(\d{1,9})(?:,(\d{1,9}))? @@(.*)")
_FENCED: Final = re.compile(
    r"(?P<before>.*?)^(?P<fence>`{3,})diff\n(?P<diff>.*?)^(?P=fence)[ ]*$(?P<after>.*)",
    re.MULTILINE | re.DOTALL,
)
_CUT: Final = re.compile(
    r"\*\*\d+ more lines are not shown here\*\*[^\n]*\(SHA-256 (?P<digest>[0-9a-f]{64})\)\."
)
_MISCOUNTED: Final = "the line counts of its @@ headers are wrong"


class ChangeRow(Struct, frozen=True):
    """One line of a change, with its line numbers before and after the change (0: none).

    A gap is a row that stands for unchanged lines and may contain their text.
    """

    kind: RowKind
    text: str
    old: int = 0
    new: int = 0
    folded: tuple[str, ...] = ()

    @property
    def line(self) -> str:
        """The row as a displayable line of a unified diff.

        The first character is the diff sign, and the rest is the text of the line.
        """
        return (
            f"@@ {exact(self.text)} @@"
            if self.kind == "gap"
            else diff_line(f"{_SIGNS[self.kind]}{self.text}")
        )


class FileChange(Struct, frozen=True):
    """The change to one file, or to a part of it."""

    path: str
    rows: Sequence[ChangeRow]
    note: str = ""

    @property
    def added(self) -> int:
        """Number of added lines."""
        return sum(row.kind == "add" for row in self.rows)

    @property
    def removed(self) -> int:
        """Number of removed lines."""
        return sum(row.kind == "del" for row in self.rows)

    @property
    def heading(self) -> str:
        """The path, the numbers of added and removed lines, and the note, on one displayable
        line.
        """
        counts = " ".join(
            [
                *([f"+{self.added}"] if self.added else []),
                *([f"-{self.removed}"] if self.removed else []),
            ]
        )
        said = ", ".join(part for part in (counts, self.note) if part)
        return f"{exact(self.path)} ({said})" if said else exact(self.path)


class ShownFile(Struct, frozen=True):
    """The rows of a file on one page."""

    file: FileChange
    rows: Sequence[ChangeRow]


class ChangePage(Struct, frozen=True):
    """One page of a change. `lines` describes the range of lines on it."""

    files: Sequence[ShownFile]
    number: int
    pages: int
    lines: str


class FileChanges(Struct, frozen=True):
    """All changes in a call or a question, and the text around them.

    `before` and `after` are the parts of the context around the diff. `rest` contains the arguments
    of the call that are not part of the change.
    """

    files: Sequence[FileChange]
    before: str = ""
    after: str = ""
    rest: Mapping[str, Json] = {}

    @property
    def lines(self) -> list[str]:
        """The change as displayable lines."""
        return [
            line for file in self.files for line in (file.heading, *(row.line for row in file.rows))
        ]

    def page(self, number: int = 1) -> ChangePage:
        """Return a page of the changes, or the last page if `number` is too high."""
        total = sum(len(file.rows) for file in self.files)
        pages = max(1, -(-total // ROWS))
        number = min(max(1, number), pages)
        first, shown, at = (number - 1) * ROWS, list[ShownFile](), 0
        for file in self.files:
            rows = file.rows[max(0, first - at) : max(0, first + ROWS - at)]
            at += len(file.rows)
            if rows or (not file.rows and number == 1):
                shown.append(ShownFile(file, rows))
        return ChangePage(
            shown, number, pages, f"{first + 1:,} to {min(total, first + ROWS):,} of {total:,}"
        )


# --------------------------------------------------------------------------------------------------
# Parsing unified diffs. Text that is not entirely a diff is displayed as text. Models often
# miscount the lines of a hunk, so wrong counts are replaced by the counted lines.


def read_diff(text: str) -> list[FileChange] | None:
    """Parse a unified diff. Return None if any part of the text is not part of a diff."""
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
        files.append(
            FileChange(_path(names[0][4:], names[1][4:]), rows, "" if is_counted else _MISCOUNTED)
        )
    return files or None


def _path(old: str, new: str) -> str:
    """Return the new path, preceded by the old path if it differs. Mark new and deleted files."""
    before, after = (name.split("\t", 1)[0] for name in (old, new))
    if after == "/dev/null":
        return f"{before.removeprefix('a/')} (deleted)"
    if before == "/dev/null":
        return f"{after.removeprefix('b/')} (new)"
    before, after = before.removeprefix("a/"), after.removeprefix("b/")
    return after if before == after else f"{before} → {after}"


def _hunks(lines: Sequence[str], at: int) -> tuple[list[ChangeRow], int, bool]:
    """Return the rows of the hunks from `at` on, the position after them, and whether the line
    counts in their headers are correct.
    """
    rows: list[ChangeRow] = []
    seen = 0
    is_counted = True
    while at < len(lines) and (head := _HUNK.fullmatch(lines[at])):
        old, olds, new, news = _numbers(head)
        gap = old - 1 - seen + (not olds)
        if gap > 0 or head[5].strip():
            said = f"{gap} unchanged line{'' if gap == 1 else 's'}" if gap > 0 else "unchanged"
            rows.append(
                ChangeRow("gap", f"{said} · {head[5].strip()}" if head[5].strip() else said)
            )
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
    """Return the end of the hunk whose header is at `at`.

    The end is computed from the counts in the header. If the counts are wrong, it is computed from
    the lines.
    """
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
    while end > at + 1 and not lines[end - 1]:  # an empty line at the end is not part of the file
        end -= 1
    return end


def _counted_end(lines: Sequence[str], at: int, olds: int, news: int) -> int | None:
    """Return the end of a hunk according to the counts in its header, or None if the lines do not
    match them.
    """
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
    """Return whether a line can belong to the previous hunk.

    File headers and mail signatures do not belong to hunks.
    """
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


# --------------------------------------------------------------------------------------------------
# Finding changes in the context of a question and in the arguments of a call


def change_in(
    context: str, whole: Callable[[str], str | None] = lambda _: None
) -> FileChanges | None:
    """Return the change in a context, or None if the context contains no diff.

    Args:
        context: The context of a question.
        whole: Returns the stored diff with this SHA-256 digest. The context contains only the
            beginning of a large diff.
    """
    found = _FENCED.fullmatch(context)
    if found is None:
        return None
    diff, after = found["diff"], found["after"]
    if (cut := _CUT.search(after)) and (kept := whole(cut["digest"])) is not None:
        diff, after = kept, after.replace(cut[0], "")
    files = read_diff(diff)
    return (
        None
        if files is None
        else FileChanges(files, found["before"].strip("\n"), after.strip("\n"))
    )


def is_cut(context: str) -> bool:
    """Return whether a context contains only the beginning of a change."""
    return _CUT.search(context) is not None


_PATHS: Final = ("path", "file_path", "filePath", "notebook_path")
_PAIRS: Final = (
    ("old", "new"),
    ("old_string", "new_string"),
    ("oldString", "newString"),
    ("oldText", "newText"),
)
_EVERYWHERE: Final = ("all", "replace_all", "replaceAll")
_CONTENTS: Final = ("content", "contents")
_PATCHES: Final = ("patch", "diff", "unified_diff")
_SHOWN: Final = frozenset({*_EVERYWHERE, *(name for pair in _PAIRS for name in pair)})
"""Names of arguments that are part of the displayed change."""


def change_of(arguments: Json) -> FileChanges | None:
    """Return the change that a call makes to files, or None if the call does not edit a file."""
    if not isinstance(arguments, Mapping):
        return None
    if patch := _first(arguments, _PATCHES):
        files = read_diff(str(arguments[patch]))
        return None if files is None else FileChanges(files, rest=_without(arguments, {patch}))
    path = _first(arguments, _PATHS)
    return None if path is None else _change_at(path, arguments)


def _change_at(path: str, arguments: Mapping[str, Json]) -> FileChanges | None:
    """Return the change to the file named by the argument `path`."""
    name = str(arguments[path])
    edits = arguments.get("edits")
    if isinstance(edits, Sequence) and not isinstance(edits, str):
        pieces = [_piece(name, edit) for edit in edits]
        if not pieces or not all(pieces):
            return None
        whole = all(isinstance(edit, Mapping) and edit.keys() <= _SHOWN for edit in edits)
        return FileChanges(
            [piece for piece in pieces if piece],
            rest=_without(arguments, {path, "edits"} if whole else {path}),
        )
    if piece := _piece(name, arguments):
        return FileChanges([piece], rest=_without(arguments, {path, *_SHOWN}))
    content = _first(arguments, _CONTENTS)
    if content is None:
        return None
    return FileChanges(
        [_written(name, str(arguments[content]))], rest=_without(arguments, {path, content})
    )


def _first(arguments: Mapping[str, Json], names: Sequence[str]) -> str | None:
    """Return the first of these names whose argument is a string."""
    return next((name for name in names if isinstance(arguments.get(name), str)), None)


def _without(arguments: Mapping[str, Json], shown: set[str]) -> dict[str, Json]:
    """Return the arguments that are not part of the change.

    A flag that is true is displayed in the note of the file instead.
    """
    return {
        name: value
        for name, value in arguments.items()
        if name not in shown or (name in _EVERYWHERE and value is not True)
    }


def _piece(path: str, edit: Json) -> FileChange | None:
    if not isinstance(edit, Mapping):
        return None
    for names in _PAIRS:
        old, new = (edit.get(name) for name in names)
        if isinstance(old, str) and isinstance(new, str):
            everywhere = any(edit.get(name) is True for name in _EVERYWHERE)
            return FileChange(
                path, _folded(old, new), "wherever this occurs in the file" if everywhere else ""
            )
    return None


def _folded(old: str, new: str) -> Sequence[ChangeRow]:
    """Compare two strings. Unchanged lines far from a change are folded, but their text is kept."""
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
    return (
        [
            *rows,
            ChangeRow(
                "gap", f"{len(left)} unchanged line{'' if len(left) == 1 else 's'}", folded=left
            ),
        ]
        if left
        else rows
    )


def _written(path: str, content: str) -> FileChange:
    """Return the change made by a call that writes a whole file. The previous content is not known."""
    return FileChange(path, list(_lines(content)), "its whole content")


def _lines(content: str) -> Iterator[ChangeRow]:
    for number, line in enumerate(content.removesuffix("\n").split("\n") if content else (), 1):
        yield ChangeRow("add", line, new=number)
    if content and not content.endswith("\n"):
        yield ChangeRow("note", " No newline at end of file")
