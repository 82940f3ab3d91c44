"""A diff line by line: its line numbers beside it, and what has changed within a line marked in it."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from msgspec import Struct

from midturn.prompts.keys import diff_line
from midturn.prompts.rich.screen import Row, Span, Style, cut, row, row_cells, wrapped

_HUNK = re.compile(r"@@ -(\d{1,7})(?:,(\d{1,7}))? \+(\d{1,7})(?:,(\d{1,7}))? @@")
_HUNK_BEGINS = re.compile(r"@@ -\d")
_LEAST = 24  # cells; where a line has less room than this beside its number, it has none
_CHANGES: dict[str, Style] = {"+": "added", "-": "removed"}
_WITHIN: dict[str, Style] = {"+": "inserted", "-": "deleted"}


class ContextLine(Struct, frozen=True):
    """One line of a context. `kept` lines are broken at the edge of the screen with every character, others between words.

    `margin` stands before the line, and is no part of it: a number.
    """

    spans: Row
    kept: bool = False
    margin: str = ""

    def rows(self, width: int) -> list[Row]:
        """Return the rows of the line at a width."""
        room = width - len(self.margin)
        if not self.margin or room < _LEAST:
            return (cut if self.kept else wrapped)(self.spans, width)
        first, *more = cut(self.spans, room)
        beside = [Span(self.margin, "dim"), Span(" " * len(self.margin))]
        return [(beside[0], *first), *((beside[1], *spans) for spans in more)]


def diff_lines(lines: Sequence[str]) -> list[ContextLine]:
    """Return the lines of a diff, fit to be shown: every character is, and the numbers are those that its hunks name."""
    read = list(_read(lines))
    margin = max((len(str(line.number)) for line in read if line.number), default=0)
    marked = _marked(read)
    return [ContextLine(spans, kept=True, margin=_margin(line, margin)) for line, spans in zip(read, marked, strict=True)]


class _Line(Struct, frozen=True):
    """A line as it is shown; `sign` is its first column where it belongs to a hunk, and else empty."""

    shown: str
    sign: str = ""
    number: int = 0


def _margin(line: _Line, digits: int) -> str:
    if not digits or not (line.sign or line.shown.startswith("\\")):
        return ""
    return f"{line.number or '':>{digits}} "


def _read(lines: Sequence[str]) -> Iterator[_Line]:
    """Tell the lines of hunks from those around them, by the counts of each hunk: a removed line may begin as a header does."""
    old = new = old_left = new_left = 0
    counted = False
    for line in lines:
        shown = diff_line(line)
        if found := _HUNK.match(line):
            old, new = int(found[1]), int(found[3])
            old_left, new_left = int(found[2] or 1), int(found[4] or 1)
            counted = True
            yield _Line(shown)
        elif counted and (old_left > 0 or new_left > 0) and (sign := line[:1] or " ") in " +-":
            yield _Line(shown, sign, old if sign == "-" else new)
            old, old_left = (old, old_left) if sign == "+" else (old + 1, old_left - 1)
            new, new_left = (new, new_left) if sign == "-" else (new + 1, new_left - 1)
        elif line.startswith(("+++", "---")):
            yield _Line(shown)
        else:
            yield _Line(shown, line[:1] if line[:1] in _CHANGES else "")


def _marked(lines: Sequence[_Line]) -> list[Row]:
    """Colour the lines; where as many were added as were removed before them, each is compared with its own."""
    rows = [_coloured(line) for line in lines]
    at = 0
    while at < len(lines):
        removed = _run(lines, at, "-")
        added = _run(lines, removed, "+")
        if removed - at == added - removed:
            for old in range(at, removed):
                new = old + removed - at
                rows[old], rows[new] = _compared(lines[old], lines[new])
        at = max(added, at + 1)
    return rows


def _run(lines: Sequence[_Line], start: int, sign: str) -> int:
    """Return where the lines with this sign end that begin at `start`."""
    end = start
    while end < len(lines) and lines[end].sign == sign:
        end += 1
    return end


def _coloured(line: _Line) -> Row:
    if line.sign:
        return row(line.shown, _CHANGES.get(line.sign, ""))
    if _HUNK_BEGINS.match(line.shown):
        return row(line.shown, "hunk")
    return row(line.shown, "strong" if line.shown.startswith(("+++", "---")) else "")


def _compared(old: _Line, new: _Line) -> tuple[Row, Row]:
    """Mark what lies between what two lines begin and end with alike; nothing where they have hardly anything in common."""
    before, after = old.shown[1:], new.shown[1:]
    start = _alike(before, after)
    end = _alike(before[start:][::-1], after[start:][::-1])
    if not (before[:start].strip() or before[len(before) - end :].strip()):
        return _coloured(old), _coloured(new)
    return _split(old, start + 1, len(old.shown) - end), _split(new, start + 1, len(new.shown) - end)


def _alike(one: str, other: str) -> int:
    """Return with how many characters both begin."""
    return next((at for at, (mine, its) in enumerate(zip(one, other, strict=False)) if mine != its), min(len(one), len(other)))


def _split(line: _Line, start: int, end: int) -> Row:
    style, within = _CHANGES[line.sign], _WITHIN[line.sign]
    spans = (Span(line.shown[:start], style), Span(line.shown[start:end], within), Span(line.shown[end:], style))
    return tuple(span for span in spans if row_cells([span]))
