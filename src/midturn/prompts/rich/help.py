"""The help of a prompt: it comes and goes, and scrolls where the window is too low for it."""

from __future__ import annotations

from collections.abc import Sequence

from midturn.prompts.rich.screen import Row, row

_STEPS = {"up": -1, "k": -1, "c-p": -1, "down": 1, "j": 1, "c-n": 1}
_PAGES = {"pageup": -1, "pagedown": 1, " ": 1}


class Help:
    """Whether the help is open, and from which row on it is seen."""

    def __init__(self) -> None:
        self.is_open = False
        self._first = 0
        self._count = 0
        self._room = 1

    def toggle(self) -> None:
        """Open it at its beginning, or close it."""
        self.is_open = not self.is_open
        self._first = 0

    def scrolls(self, key: str) -> bool:
        """Move by a row or a page; False where the key is for something else, because all of the help is seen."""
        by = _STEPS.get(key) or _PAGES.get(key, 0) * max(1, self._room - 1)
        if not self.is_open or not by or self._count <= self._room:
            return False
        self._first = max(0, min(self._first + by, self._count - max(1, self._room - 1)))
        return True

    def window(self, rows: Sequence[Row], room: int) -> list[Row]:
        """Return as many rows as there is room for; what is left out is said."""
        self._count, self._room = len(rows), max(1, room)
        if self._count <= self._room:
            return [*rows]
        seen = max(1, self._room - 1)
        self._first = max(0, min(self._first, self._count - seen))
        end = self._first + seen
        more = [row(f"  rows {self._first + 1}-{end} of {self._count} · ↑↓ scrolls", "key")] if self._room > 1 else []
        return [*rows[self._first : end], *more]
