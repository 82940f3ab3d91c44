"""The pager: the whole body of a question on a screen of its own."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from midturn.prompts.cells import cells, clip
from midturn.prompts.content import one_line
from midturn.prompts.rich.buffer import Buffer
from midturn.prompts.rich.keyboard import ENTER, Key, Paste, Press
from midturn.prompts.rich.screen import Frame, Pressed, Row, Sign, Size, fitted, joined, row, row_text
from midturn.question.reply import EndedTurn

_CLOSE = frozenset({"q", "escape", "v"})
_NEXT = frozenset({" ", "pagedown", "enter", "c-f", "c-d", "c-j"})
_BACK = frozenset({"b", "pageup", "c-b", "backspace"})
_KEYS = (
    " · Space next · b back · ↑↓ j k · / search · q back to the question",
    " · Space next · b back · / search · q leave",
    " · Space · b · / · q leave",
    " · q leave",
)
"""From all words to few: the first that fit stand in the bar."""


class Pager:
    """A window on many rows, which are laid out for each width; it knows how many rows were never in it."""

    def __init__(self, layout: Callable[[int], Sequence[Row]], first: int = 0) -> None:
        self._layout = layout
        self._columns = 0
        self._rows: Sequence[Row] = ()
        self._first = first
        self._room = 10
        self._unseen: set[int] | None = None
        self._shown_before = first
        self._search: Buffer | None = None
        self._words = ""
        self._note = ""

    @property
    def unseen(self) -> int:
        """How many rows were not seen, those included that were printed above the question."""
        return len(self._unseen) if self._unseen is not None else len(self._rows)

    def press(self, key: Key, now: float) -> Pressed:  # noqa: PLR0911 (one for each thing that a key may do)
        """Turn the page, move by a row, search, or close."""
        del now
        self._note = ""
        if isinstance(key, Press) and key.key == "c-c":
            return EndedTurn()
        if isinstance(key, Press) and key.key == "c-z":
            return Sign.SUSPEND
        if self._search is not None:
            return self._press_in_search(key, self._search)
        if isinstance(key, Paste):
            return Sign.RING
        if key.key in _CLOSE:
            return Sign.LEAVE
        if key.key == "/":
            self._search = Buffer()
            return None
        if key.key in {"n", "N"} and self._words:
            return self._find(1 if key.key == "n" else -1)
        step = self._step(key.key)
        if step is None:
            return Sign.RING
        self._first += step
        return None

    def frame(self, size: Size) -> Frame:
        """Draw as many rows as there is room for, and where we are."""
        if size.columns != self._columns:
            self._lay_out(size.columns)
        self._room = max(1, size.rows - 1)
        self._first = max(0, min(self._first, len(self._rows) - self._room))
        shown = self._rows[self._first : self._first + self._room]
        end = self._first + len(shown)
        if self._unseen is not None:
            self._unseen -= set(range(self._first, end))
        blank: list[Row] = [()] * (self._room - len(shown))
        bar = self._bar(end, size)
        return fitted(Frame(joined(shown, blank, [row(bar, "key")]), (self._room, min(len(bar), size.columns - 1))), size)

    def _lay_out(self, columns: int) -> None:
        """Lay out for a new width; who has seen all has seen all, and else only what was printed above counts."""
        all_seen = self._unseen is not None and not self._unseen
        before = self._rows[self._first : self._first + 1]
        self._rows, self._columns = self._layout(columns), columns
        if all_seen:
            return
        self._unseen = set(range(min(self._shown_before, len(self._rows)), len(self._rows)))
        if before and before[0] in self._rows:
            self._first = list(self._rows).index(before[0])

    def _bar(self, end: int, size: Size) -> str:
        if self._search is not None:
            return clip(f"/{one_line(self._search.text)}", size.columns)
        place = f"rows {self._first + 1}-{end} of {len(self._rows)}"
        keys = next((keys for keys in _KEYS if cells(f"{place}{keys}") < size.columns), _KEYS[-1])
        return clip(self._note or f"{place}{keys}", size.columns - 1)

    def _press_in_search(self, key: Key, words: Buffer) -> Pressed:
        if isinstance(key, Paste):
            words.insert(one_line(key.text))
        elif key.key in ENTER:
            self._search, self._words = None, words.text or self._words
            return self._find(1) if self._words else None
        elif key.key == "escape" or (key.key == "backspace" and not words.text):
            self._search = None
        elif key.character:
            words.type(key.character)
        else:
            words.press(key.key)
        return None

    def _find(self, step: int) -> Pressed:
        """Go to the next row that has the words in it, from the end on from the beginning."""
        wanted = self._words.casefold()
        count = len(self._rows)
        for by in range(1, count + 1):
            at = (self._first + step * by) % count
            if wanted in row_text(self._rows[at]).casefold():
                self._first = at
                return None
        self._note = f"nothing has {one_line(self._words)} in it"
        return Sign.RING

    def _step(self, key: str) -> int | None:
        if key in _NEXT:
            return self._room
        if key in _BACK:
            return -self._room
        count = len(self._rows)
        return {"down": 1, "j": 1, "up": -1, "k": -1, "home": -count, "g": -count, "end": count, "G": count}.get(key)
