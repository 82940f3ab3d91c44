"""Replacing pieces of a text."""

from __future__ import annotations

from collections.abc import Sequence

from midturn.tools.fs.arguments import Replacement
from midturn.tools.returned import Rejected

_LISTED = 5


def edited(text: str, edits: Sequence[Replacement]) -> str:
    """Make all edits, one after the other.

    Raises:
        Rejected: An edit's `old` does not occur, or occurs several times; none is made.
    """
    for place, edit in enumerate(edits):
        text = _made(text, _with_line_ends_of(text, edit), f"/edits/{place}/old")
    return text


def _made(text: str, edit: Replacement, pointer: str) -> str:
    count = text.count(edit.old)
    if count == 0:
        raise Rejected(f"{pointer}: this text does not occur in the file.{_hint(text, edit.old)} No change was made.")
    if count > 1 and not edit.all:
        lines = _places(text, edit.old)
        raise Rejected(
            f"{pointer}: this text occurs {count} times (lines {lines}). Add surrounding lines, or set `all`. No change was made."
        )
    return text.replace(edit.old, edit.new)


def _with_line_ends_of(text: str, edit: Replacement) -> Replacement:
    """Write an edit with the line ends of the file: who reads CRLF as lines writes it as LF."""
    if edit.old in text or "\r\n" not in text or "\r" in edit.old:
        return edit
    old, new = (piece.replace("\r\n", "\n").replace("\n", "\r\n") for piece in (edit.old, edit.new))
    return Replacement(old, new, edit.all)


def _places(text: str, old: str) -> str:
    at, lines = text.find(old), list[str]()
    while at >= 0 and len(lines) < _LISTED:
        lines.append(str(text.count("\n", 0, at) + 1))
        at = text.find(old, at + len(old))
    return ", ".join(lines) + (", …" if at >= 0 else "")


def _hint(text: str, old: str) -> str:
    """Say where the text would be, if only its white space were right."""
    wanted = [line.split() for line in old.strip().splitlines()]
    lines = [line.split() for line in text.split("\n")]
    for at in range(len(lines) - len(wanted) + 1):
        if wanted and lines[at : at + len(wanted)] == wanted:
            return f" It occurs with other white space at line {at + 1}."
    return " Read the file again: it may have changed."
