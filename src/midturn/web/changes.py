"""A change to files as one reviews it: file by file, what is unchanged folded, a long one in pages. What is shown is what was recorded."""

from __future__ import annotations

import hashlib
import os
import re
from collections.abc import Iterator, Mapping, Sequence
from itertools import islice
from pathlib import Path
from typing import Final, Literal, TypeAlias

from msgspec import Struct

from midturn.tools.fs.diff import Change
from midturn.values.json_value import Json

RowKind: TypeAlias = Literal["add", "del", "same", "gap", "note"]
ROWS: Final = 500
"""How many lines of a change are on a page."""
_HUNK: Final = re.compile(r"@@ -(\d{1,9})(?:,(\d{1,9}))? \+(\d{1,9})(?:,(\d{1,9}))? @@(.*)")
_FENCED: Final = re.compile(r"(?P<before>.*?)^(?P<fence>`{3,})diff\n(?P<diff>.*?)^(?P=fence)[ ]*$(?P<after>.*)", re.MULTILINE | re.DOTALL)
_CUT: Final = re.compile(r"\*\*\d+ more lines are not shown here\*\*[^\n]*\(SHA-256 (?P<digest>[0-9a-f]{64})\)\.")
_LARGEST: Final = 16 * 1024 * 1024  # bytes of a diff that is kept beside its question


class ChangeRow(Struct, frozen=True):
    """One line: its number before and after (0: it has none there), and its text. A gap says how many are left out, or holds them."""

    kind: RowKind
    text: str
    old: int = 0
    new: int = 0
    folded: tuple[str, ...] = ()


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
    """Everything that a call or a question would change, and what else is said with it."""

    files: Sequence[FileChange]
    before: str = ""
    after: str = ""

    def page(self, number: int = 1) -> ChangePage:
        """Return a page of it; the last one where there are fewer."""
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
# A unified diff, read strictly: what is none, to the last line, is shown as the text that it is


def read_diff(text: str) -> list[FileChange] | None:
    """Read a unified diff; None where any of it is something else."""
    lines = text.removesuffix("\n").split("\n")
    files: list[FileChange] = []
    at = 0
    while at < len(lines):
        names = lines[at : at + 2]
        if len(names) < 2 or not (names[0].startswith("--- ") and names[1].startswith("+++ ")):  # noqa: PLR2004  two names
            return None
        rows, at = _hunks(lines, at + 2)
        if not rows:
            return None
        files.append(FileChange(_path(names[0][4:], names[1][4:]), rows))
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


def _hunks(lines: Sequence[str], at: int) -> tuple[list[ChangeRow], int]:
    """Return the rows of the hunks from a place on, and the place behind them; no rows where a hunk is not what its head says."""
    rows: list[ChangeRow] = []
    seen = 0
    while at < len(lines) and (head := _HUNK.fullmatch(lines[at])):
        old, olds, new, news = (int(head[number] or "1") for number in (1, 2, 3, 4))
        gap = old - 1 - seen + (not olds)
        if gap > 0 or head[5].strip():
            said = f"{gap} unchanged line{'' if gap == 1 else 's'}" if gap > 0 else "unchanged"
            rows.append(ChangeRow("gap", f"{said} · {head[5].strip()}" if head[5].strip() else said))
        hunk, at = _hunk(lines, at + 1, (old, olds, new, news))
        if not hunk:
            return [], at
        rows += hunk
        seen = old + olds - 1 + (not olds)
    return rows, at


def _hunk(lines: Sequence[str], at: int, head: tuple[int, int, int, int]) -> tuple[list[ChangeRow], int]:
    old, olds, new, news = head
    ends = old + olds, new + news
    rows: list[ChangeRow] = []
    while (old, new) != ends or (at < len(lines) and lines[at].startswith("\\")):
        line = lines[at] if at < len(lines) else ""
        kind = _KINDS.get(line[:1])
        if kind is None or old > ends[0] or new > ends[1]:
            return [], at
        goes, comes = kind in ("del", "same"), kind in ("add", "same")
        rows.append(ChangeRow(kind, line[1:], old if goes else 0, new if comes else 0))
        old, new, at = old + goes, new + comes, at + 1
    return rows, at


_KINDS: Final[Mapping[str, RowKind]] = {"+": "add", "-": "del", " ": "same", "\\": "note"}


# ----------------------------------------------------------------------------------------------------------------------
# Where a change stands: in what is said above a question, whole or kept beside it; and in the arguments of a call


def change_in(context: str, root: Path | None) -> FileChanges | None:
    """Return the change that a context shows, whole where only its beginning had room there; None where it has no diff."""
    found = _FENCED.fullmatch(context)
    if found is None:
        return None
    diff, after = found["diff"], found["after"]
    if (cut := _CUT.search(after)) and root and (whole := _kept(root, cut["digest"])) is not None:
        diff, after = whole, after.replace(cut[0], "")
    files = read_diff(diff)
    return None if files is None else FileChanges(files, found["before"].strip("\n"), after.strip("\n"))


def _kept(root: Path, digest: str) -> str | None:
    """Return a diff that a tool of ours has kept, if it is the very one; no link is followed."""
    path = root / ".midturn" / "output" / f"{digest[:16]}.txt"
    try:
        with os.fdopen(os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC), "rb") as file:
            data = file.read(_LARGEST + 1)
    except OSError:
        return None
    return data.decode("utf-8", "replace") if hashlib.sha256(data).hexdigest() == digest else None


def is_cut(context: str) -> bool:
    """Say whether a context shows only the beginning of a change."""
    return _CUT.search(context) is not None


_PATHS: Final = ("path", "file_path", "filePath", "notebook_path")
_PAIRS: Final = (("old", "new"), ("old_string", "new_string"), ("oldString", "newString"), ("oldText", "newText"))
_EVERYWHERE: Final = ("all", "replace_all", "replaceAll")
_CONTENTS: Final = ("content", "contents")
_PATCHES: Final = ("patch", "diff", "unified_diff")


def change_of(arguments: Json) -> FileChanges | None:
    """Return what a call would change in files, where its arguments are edits; None where they are anything else."""
    if not isinstance(arguments, Mapping):
        return None
    path = _first(arguments, _PATHS)
    if patch := _first(arguments, _PATCHES):
        files = read_diff(patch)
        return None if files is None else FileChanges(files)
    if path is None:
        return None
    edits = arguments.get("edits")
    if isinstance(edits, Sequence) and not isinstance(edits, str):
        pieces = [_piece(path, edit) for edit in edits]
        return FileChanges([piece for piece in pieces if piece]) if pieces and all(pieces) else None
    if piece := _piece(path, arguments):
        return FileChanges([piece])
    content = _first(arguments, _CONTENTS)
    return None if content is None else FileChanges([_written(path, content)])


def _first(arguments: Mapping[str, Json], names: Sequence[str]) -> str | None:
    return next((value for name in names if isinstance(value := arguments.get(name), str)), None)


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
