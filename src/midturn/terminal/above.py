"""The rows above a prompt.

They are printed once, and printed again in the same place when the window's width changes.
"""

from __future__ import annotations

from collections.abc import Sequence

from midturn.terminal.device import Device
from midturn.terminal.live import Canvas
from midturn.terminal.prompts.rich.prompt import RichScene
from midturn.terminal.prompts.rich.screen import Row
from midturn.terminal.resizing import reflowed


class Above:
    """The printed rows above the live rows of a prompt. Only the live rows are redrawn after a key.

    `_rows` are the printed rows that are still on the screen. `_first` is the number of earlier
    printed rows, which are in the scrollback.
    """

    def __init__(self, asked: RichScene, device: Device, canvas: Canvas) -> None:
        self.device = device
        self.canvas = canvas
        self._asked = asked
        self._first = 0
        self._rows: Sequence[Row] = ()
        self._columns = 0

    def draw(self, first: int = 0) -> None:
        """Print all rows from index `first` to the end."""
        self._columns = self.device.size.columns
        self._first = first
        self._rows = self.canvas.print(self._asked.static()[first:])

    def draw_anew(self) -> None:
        """Print all rows again for the current width."""
        self._asked.refit(self.device.size.columns, self.device.size.rows)
        self.draw()

    def make_room(self, live: int) -> None:
        """Forget the rows that moved into the scrollback to make room for `live` live rows.

        Rows in the scrollback are not drawn again.
        """
        size = self.device.size
        heights = reflowed(self._rows, size.columns)
        hidden = 0
        while hidden < len(heights) and sum(heights[hidden:]) + live > size.rows:
            hidden += 1
        self._first, self._rows = self._first + hidden, self._rows[hidden:]

    def fit(self) -> None:
        """Erase the rows and print them again if the window's width changed."""
        size = self.device.size
        if size.columns == self._columns:
            return
        self.canvas.erase_above(sum(reflowed(self._rows, size.columns)))
        before, printed = self._first, self._first + len(self._rows)
        self._asked.refit(size.columns, size.rows)
        self.draw(before * len(self._asked.static()) // max(1, printed))

    def take_away(self) -> None:
        """Erase the rows, unless the width changed after they were printed."""
        if self.device.size.columns == self._columns:
            self.canvas.erase_above(len(self._rows))
