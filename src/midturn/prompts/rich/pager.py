"""Rows that do not fit above the question, in the room of the live rows."""

from __future__ import annotations

from collections.abc import Sequence

from midturn.prompts.cells import clip
from midturn.prompts.rich.face import Outcome, Sign
from midturn.prompts.rich.key import Key, Paste
from midturn.prompts.rich.screen import Frame, Row, Size, joined, row

_CLOSE = frozenset({"q", "escape", "v"})
_NEXT = frozenset({" ", "pagedown", "enter", "c-f", "c-d", "c-j"})
_BACK = frozenset({"b", "pageup", "c-b", "backspace"})


class Pager:
    """A window on many rows; whoever reached the last one has seen them all."""

    submits = None
    empty = False

    def __init__(self, rows: Sequence[Row], first: int = 0) -> None:
        self._rows = rows
        self._first = first
        self._room = 10
        self._seen = False

    def press(self, key: Key) -> Outcome:
        """Turn the page, move by a row, or close."""
        if isinstance(key, Paste):
            return Sign.RING
        if key.key in _CLOSE:
            return Sign.SEEN if self._seen else Sign.LEAVE
        last = max(0, len(self._rows) - self._room)
        step = self._step(key.key)
        if step is None:
            return Sign.RING
        self._first = max(0, min(last, self._first + step))
        return None

    def frame(self, size: Size) -> Frame:
        """Draw as many rows as there is room for, and where we are."""
        self._room = max(1, size.rows - 1)
        self._first = max(0, min(self._first, len(self._rows) - self._room))
        shown = self._rows[self._first : self._first + self._room]
        end = self._first + len(shown)
        self._seen = self._seen or end == len(self._rows)
        status = f"rows {self._first + 1}-{end} of {len(self._rows)} · Space next · b back · q return to the question"
        return Frame(joined(shown, [row(clip(status, size.columns), "key")]), (len(shown), 0))

    def _step(self, key: str) -> int | None:
        if key in _NEXT:
            return self._room
        if key in _BACK:
            return -self._room
        return {"down": 1, "j": 1, "up": -1, "k": -1, "home": -len(self._rows), "end": len(self._rows)}.get(key)
