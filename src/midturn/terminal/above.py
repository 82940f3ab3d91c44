"""The rows above a prompt: printed once, and again on the same rows of the screen when the window has another width."""

from __future__ import annotations

from collections.abc import Sequence

from midturn.terminal.device import Device
from midturn.terminal.live import Canvas
from midturn.terminal.prompts.rich.prompt import RichScene
from midturn.terminal.prompts.rich.screen import Row
from midturn.terminal.resizing import reflowed


class Above:
    """Rows above the live ones, printed once for each width. `_rows` are those still on the screen, before them came `_first` others."""

    def __init__(self, asked: RichScene, device: Device, canvas: Canvas) -> None:
        self.device = device
        self.canvas = canvas
        self._asked = asked
        self._first = 0
        self._rows: Sequence[Row] = ()
        self._columns = 0

    def draw(self, first: int = 0) -> None:
        """Print the rows, from one of them on."""
        self._columns = self.device.size.columns
        self._first = first
        self._rows = self.canvas.print(self._asked.static()[first:])

    def draw_anew(self) -> None:
        """Print everything again, for the width that there is now."""
        self._asked.refit(self.device.size.columns, self.device.size.rows)
        self.draw()

    def make_room(self, live: int) -> None:
        """Take note of the rows that live ones have pushed out of the screen: those stay as they are."""
        size = self.device.size
        heights = reflowed(self._rows, size.columns)
        hidden = 0
        while hidden < len(heights) and sum(heights[hidden:]) + live > size.rows:
            hidden += 1
        self._first, self._rows = self._first + hidden, self._rows[hidden:]

    def fit(self) -> None:
        """If the window has another width, erase the rows that are on the screen, and print as many for the new width."""
        size = self.device.size
        if size.columns == self._columns:
            return
        self.canvas.erase_above(sum(reflowed(self._rows, size.columns)))
        before, printed = self._first, self._first + len(self._rows)
        self._asked.refit(size.columns, size.rows)
        self.draw(before * len(self._asked.static()) // max(1, printed))

    def take_away(self) -> None:
        """Erase the rows where they are still on the screen as they were printed."""
        if self.device.size.columns == self._columns:
            self.canvas.erase_above(len(self._rows))
