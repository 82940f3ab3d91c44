"""Editable text with a cursor, and its editing keys."""

from __future__ import annotations

import re
from collections.abc import Callable

from midturn.terminal.prompts.cells import Range, cells, cluster_end, cluster_start, cut_ranges

_WORD_LEFT = re.compile(r"\w+\W*$|\W+$")
_WORD_RIGHT = re.compile(r"\W*\w+|\W+")
_UNDO_STEPS = 200


class Buffer:
    """Text, cursor, cut text and undo history. Keys edit a line as in a shell."""

    def __init__(self, text: str = "") -> None:
        self.text = text
        self.cursor = len(text)
        self._cut = ""
        self._before: list[tuple[str, int]] = []
        self._typing = False
        self._seen: tuple[str, int, list[Range]] = ("", 0, [(0, 0)])
        self._edits = self._editing_keys()
        self._moves = self._moving_keys()

    def press(self, key: str) -> bool:
        """Handle a key that edits or moves. Return False for any other key."""
        if move := self._moves.get(key):
            self.cursor = move()
        elif edit := self._edits.get(key):
            edit()
        else:
            return False
        self._typing = False
        return True

    def type(self, char: str) -> None:
        """Insert a character. A run of characters is one undo step."""
        if not self._typing:
            self._remember()
        self._replace(self.cursor, self.cursor, char)
        self._typing = True

    def insert(self, text: str) -> None:
        """Insert text."""
        self._remember()
        self._replace(self.cursor, self.cursor, text)
        self._typing = False

    def replace(self, text: str) -> None:
        """Replace the text and move the cursor to the end."""
        self._remember()
        self._replace(0, len(self.text), text)
        self._typing = False

    def rows(self, width: int) -> list[Range]:
        """Return the range of each row at `width` cells."""
        if self._seen[:2] != (self.text, width):
            self._seen = (self.text, width, self._cut_rows(width))
        return self._seen[2]

    def _cut_rows(self, width: int) -> list[Range]:
        found: list[Range] = []
        start = 0
        for line in self.text.split("\n"):
            ranges = [(start + first, start + last) for first, last in cut_ranges(line, width)]
            full = cells(self.text[ranges[-1][0] : ranges[-1][1]]) >= width
            found += (
                [*ranges, (start + len(line), start + len(line))] if full else ranges
            )  # an extra row for the cursor after the last cell
            start += len(line) + 1
        return found

    def place(self, width: int) -> tuple[int, int]:
        """Return the row and the column of the cursor."""
        rows = self.rows(width)
        at = max(index for index, (start, _) in enumerate(rows) if start <= self.cursor)
        return at, cells(self.text[rows[at][0] : self.cursor])

    def move_rows(self, by: int, width: int) -> bool:
        """Move the cursor by displayed rows. Return False at the first or last row."""
        rows = self.rows(width)
        at, column = self.place(width)
        if not 0 <= at + by < len(rows):
            return False
        start, end = rows[at + by]
        self.cursor = start
        while self.cursor < end and cells(self.text[start : self._right()]) <= column:
            self.cursor = self._right()
        self._typing = False
        return True

    def _editing_keys(self) -> dict[str, Callable[[], None]]:
        return {
            "backspace": lambda: self._delete(self._left(), self.cursor),
            "delete": lambda: self._delete(self.cursor, self._right()),
            "c-d": lambda: self._delete(self.cursor, self._right()),
            "c-w": lambda: self._kill(self._word_left(), self.cursor),
            "m-backspace": lambda: self._kill(self._word_left(), self.cursor),
            "m-d": lambda: self._kill(self.cursor, self._word_right()),
            "c-u": lambda: self._kill(self._line_start(), self.cursor),
            "c-k": lambda: self._kill(
                self.cursor, self._line_end() if self._line_end() > self.cursor else self._right()
            ),
            "c-y": lambda: self.insert(self._cut),
            "c-_": self._undo,
        }

    def _moving_keys(self) -> dict[str, Callable[[], int]]:
        return {
            "left": self._left,
            "c-b": self._left,
            "right": self._right,
            "c-f": self._right,
            "c-left": self._word_left,
            "m-left": self._word_left,
            "m-b": self._word_left,
            "c-right": self._word_right,
            "m-right": self._word_right,
            "m-f": self._word_right,
            "home": self._line_start,
            "c-a": self._line_start,
            "end": self._line_end,
            "c-e": self._line_end,
            "c-home": lambda: 0,
            "c-end": lambda: len(self.text),
        }

    def _left(self) -> int:
        """Return the position before the cluster left of the cursor."""
        return cluster_start(self.text, self.cursor)

    def _right(self) -> int:
        return cluster_end(self.text, self.cursor)

    def _word_left(self) -> int:
        found = _WORD_LEFT.search(self.text, 0, self.cursor)
        return found.start() if found else 0

    def _word_right(self) -> int:
        found = _WORD_RIGHT.match(self.text, self.cursor)
        return found.end() if found else len(self.text)

    def _line_start(self) -> int:
        return self.text.rfind("\n", 0, self.cursor) + 1

    def _line_end(self) -> int:
        end = self.text.find("\n", self.cursor)
        return len(self.text) if end < 0 else end

    def _delete(self, start: int, end: int) -> None:
        if start < end:
            self._remember()
            self._replace(start, end, "")

    def _kill(self, start: int, end: int) -> None:
        if start < end:
            self._cut = self.text[start:end]
            self._delete(start, end)

    def _replace(self, start: int, end: int, text: str) -> None:
        self.text = self.text[:start] + text + self.text[end:]
        self.cursor = start + len(text)

    def _remember(self) -> None:
        self._before = [*self._before[-_UNDO_STEPS:], (self.text, self.cursor)]

    def _undo(self) -> None:
        if self._before:
            self.text, self.cursor = self._before.pop()
