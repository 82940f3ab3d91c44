"""The preview of the highlighted option, below the list. ← and → scroll it."""

from __future__ import annotations

from collections.abc import Sequence

from midturn.question.answer_type import SelectOption
from midturn.terminal.prompts.keys import preview_lines
from midturn.terminal.prompts.rich.screen import Row, Span, cut, row

_GUTTER = Span("│ ", "gutter")
_STEPS = {"left": -1, "right": 1}
_MIN_ROWS = 3
"""Minimum number of rows: one row of the preview, and one row with the position."""
_MAX_ROWS = 24
"""Maximum number of rows, so that the list stays near the question on a tall screen."""


class PreviewPane:
    """Previews of options, and the scroll position."""

    def __init__(self, options: Sequence[SelectOption]) -> None:
        self._lines = [preview_lines(option) for option in options]
        self._place = -1
        self._first = 0
        self._seen = 0
        self._count = 0
        self._columns = 0
        self._rows: list[list[Row]] = []

    @property
    def is_empty(self) -> bool:
        """Whether no option has a preview."""
        return not any(self._lines)

    def scrolls(self, key: str) -> bool:
        """Scroll by about one page.

        Return False if the key does not scroll, or if the whole preview is visible.
        """
        by = _STEPS.get(key, 0) * max(1, self._seen - 1)
        if not by or self._count <= self._seen:
            return False
        self._first = max(0, min(self._first + by, self._count - self._seen))
        return True

    def rows(self, place: int, columns: int, room: int) -> list[Row]:
        """Draw the preview of an option in at most `room` rows.

        All previews of a list have the same height.
        """
        height = self._height(columns, room)
        if place != self._place:
            self._place, self._first = place, 0
        self._count = self._seen = 0
        if not height:
            return []
        drawn = self._rows[place] if 0 <= place < len(self._rows) else []
        blank: list[Row] = [()]
        if len(drawn) <= height:
            return [*drawn, *blank * (height - len(drawn))]
        self._count, self._seen = len(drawn), height - 1
        self._first = min(self._first, self._count - self._seen)
        end = self._first + self._seen
        said = f"  rows {self._first + 1}-{end} of {self._count} · ← → scroll the preview"
        return [*drawn[self._first : end], *cut(row(said, "key"), columns)[:1]]

    def _height(self, columns: int, room: int) -> int:
        if columns != self._columns:
            self._columns, self._rows = columns, [_drawn(lines, columns) for lines in self._lines]
        tallest = max(map(len, self._rows), default=0)
        height = min(tallest, room, _MAX_ROWS)
        return height if height >= min(tallest, _MIN_ROWS) else 0


def _drawn(lines: Sequence[str], columns: int) -> list[Row]:
    return [
        (_GUTTER, *spans)
        for line in lines
        for spans in cut(row(line), max(1, columns - len(_GUTTER.text)))
    ]
