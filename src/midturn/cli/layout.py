"""Listings on a terminal of any width, and points in time in them; what is not read on a terminal is neither wrapped nor cut."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Sequence
from datetime import datetime
from typing import TextIO

from midturn.cli.shown import Shown, line

_GAP = 2
_LEAST = 24  # cells; a last column with less room begins on a line of its own
_INDENT = "  "
QUOTED = "| "
"""What begins a line that is shown character by character, such as one of a diff: every row of it stands behind the same."""


def columns(stream: TextIO | None) -> int | None:
    """Return how wide the terminal is that `stream` goes to; None where it goes elsewhere."""
    if stream is None or not stream.isatty():
        return None
    try:
        return os.get_terminal_size(stream.fileno()).columns or 80
    except (OSError, ValueError):  # a terminal that does not say
        return 80


def wrapped(text: Shown, stream: TextIO | None, indent: str = "") -> list[Shown]:
    """Break text between words to the width of the terminal.

    Lines after the first of a paragraph stand behind `indent`; those of a paragraph that is indented itself stand behind more than that.
    """
    width = columns(stream)
    rows: list[Shown] = []
    for paragraph in text.split("\n"):
        own = paragraph[: len(paragraph) - len(paragraph.lstrip(" "))]
        rows += [Shown(row) for row in _hang(paragraph, width, indent or own + _INDENT if own else indent)]
    return rows


def table(rows: Sequence[Sequence[Shown]], stream: TextIO | None = None) -> list[Shown]:
    """Align columns for stdout (or `stream`); the last one wraps behind its own beginning, or below the others if there is little room."""
    width = columns(stream or sys.stdout)
    widths = [max(map(_cells, column)) for column in zip(*(row[:-1] for row in rows), strict=True)]
    start = sum(widths) + _GAP * len(widths)
    below = width is not None and width - start < _LEAST
    lines: list[Shown] = []
    for row in rows:
        *firsts, last = row
        padded = "".join(cell + " " * (column - _cells(cell) + _GAP) for cell, column in zip(firsts, widths, strict=True))
        if below:
            lines += [Shown(text) for text in _hang(padded.rstrip(), width, _INDENT) if text]
            padded = _INDENT
        lines += _behind(padded, last, width)
    return lines


def _behind(padded: str, last: Shown, width: int | None) -> list[Shown]:
    """Wrap the last column behind the others."""
    first, *more = _hang(last, None if width is None else max(1, width - _cells(padded)), "")
    rows = [padded + first, *(" " * _cells(padded) + row for row in more)]
    return [Shown(row.rstrip()) for row in rows if row.strip()]


def indented(text: Shown, gutter: Shown) -> list[Shown]:
    """Put each line behind a gutter, wrapped for stdout so that no continuation begins where a line of ours would."""
    width = columns(sys.stdout)
    room = None if width is None else max(width - len(gutter), _LEAST // 2)
    lines = text.rstrip("\n").split("\n")
    return [Shown((gutter + row).rstrip()) for paragraph in lines for row in _hang(paragraph, room, "")]


def _hang(text: str, width: int | None, indent: str) -> list[str]:
    if width is None or (text.isascii() and len(text) <= width):
        return [text]
    from midturn.prompts.cells import continued_rows, hang  # measuring needs a table of Unicode

    if text.startswith(QUOTED):
        return [QUOTED + row for row in continued_rows(text.removeprefix(QUOTED), max(1, width - len(QUOTED)))]
    if any(len(word) > width - len(indent) and re.search(_PART, word) for word in text.split(" ")):
        return _hang_parts(text, width, indent)
    return hang(text, width, indent)


_PART = r"(?<=[./])(?=[^./ ])"


def _hang_parts(text: str, width: int, indent: str) -> list[str]:
    """Break text between words, and one that is longer than a row behind its dots and slashes: keys and paths are read by their parts."""
    from midturn.prompts.cells import cut_ranges

    rows = [""]
    for part in re.findall(r" *[^ ]+", text):
        for piece in [part] if _cells(part.lstrip(" ")) <= width - len(indent) else re.split(_PART, part):
            if _cells(rows[-1] + piece) <= width:
                rows[-1] += piece
                continue
            first, *more = cut_ranges(piece.lstrip(" "), max(1, width - len(indent)))
            rows += [indent + piece.lstrip(" ")[start:end] for start, end in (first, *more)]
    return [row for row in rows if row.strip()] or [""]


def _cells(text: str) -> int:
    if text.isascii():
        return len(text)
    from midturn.prompts.cells import cells

    return cells(text)


def moment(text: str, now: datetime | None = None) -> Shown:
    """Show an RFC 3339 time in the local zone: the time of day, with the date unless it is today's. Anything else is shown as it is."""
    try:
        at = datetime.fromisoformat(text).astimezone()
    except (ValueError, OverflowError):
        return line("{}", text)
    today = (now or datetime.now().astimezone()).date()
    return line("{}", f"{at:%H:%M}" if at.date() == today else f"{at:%Y-%m-%d %H:%M}")
