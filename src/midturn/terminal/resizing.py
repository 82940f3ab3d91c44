"""Redraws during resizing. Nothing is drawn until the size is stable; then everything is drawn
once.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

from prompt_toolkit.application import Application
from prompt_toolkit.data_structures import Point
from prompt_toolkit.output.vt100 import Vt100_Output

from midturn.terminal.prompts.rich.screen import Frame, Row, row_cells

QUIET = 0.15
"""Seconds without a change after which the size is stable."""

_ERASE_DOWN = "\x1b[K\x1b7\x1b[C\x1b[J\x1b8"
"""Erases the rest of the row, then everything from the next cell on.

Erasing from the first cell on would make tmux move the screen into its scrollback.
"""

Result = TypeVar("Result")


class SteadyOutput(Vt100_Output):
    """An output that never moves erased rows into the scrollback."""

    def erase_down(self) -> None:
        """Erase everything from the cursor on."""
        self.write_raw(_ERASE_DOWN)


def reflowed(rows: Sequence[Row], columns: int) -> list[int]:
    """Return the number of screen rows of each printed row, after the terminal wrapped it at
    `columns`.
    """
    return [max(1, -(-row_cells(spans) // columns)) for spans in rows]


class SteadyApplication(Application[Result]):
    """An application that does not draw while the window is being resized.

    prompt_toolkit redraws at every step of a resize. By then, the terminal has moved the rows and
    the known cursor position is outdated, so each redraw would leave a copy of the rows.
    """

    def __init__(
        self, clock: Callable[[], float], columns: Callable[[], int], **settings: Any
    ) -> None:
        """Create an application. `columns` returns the width of the window."""
        super().__init__(**settings)
        self._clock = clock
        self._now_columns = columns
        self._drawn_columns = columns()
        self._rests_at = 0.0
        self._timer: asyncio.TimerHandle | None = None
        self.on_new_width: Callable[[], None] | None = None
        """Called when a changed width is stable. Default: draw again."""
        self.shown = Frame(())
        """The frame that was drawn last."""

    @property
    def has_new_width(self) -> bool:
        """Whether the window's width has changed since the rows were drawn."""
        return not self.full_screen and self._now_columns() != self._drawn_columns

    def _on_resize(self) -> None:
        self._rests_at = self._clock() + QUIET
        if self._timer is None:
            self._timer = asyncio.get_running_loop().call_later(QUIET, self._draw_at_rest)

    def _draw_at_rest(self) -> None:
        self._timer = None
        left = self._rests_at - self._clock()
        if left > 0:
            self._timer = asyncio.get_running_loop().call_later(left, self._draw_at_rest)
        elif self.is_done or not self.is_running:
            return
        elif self.has_new_width and self.on_new_width is not None:
            self.on_new_width()
        else:
            super()._on_resize()

    def _redraw(self, render_as_done: bool = False) -> None:  # noqa: FBT001, FBT002  prompt_toolkit's signature
        if render_as_done:
            self._stop_waiting()
        elif (
            self.has_new_width and self._timer is None
        ):  # there is no resize signal outside of the main thread
            self._on_resize()
        if self._timer is None:
            super()._redraw(render_as_done)

    def _stop_waiting(self) -> None:
        """Cancel the timer. If the width changed, correct the position from which prompt_toolkit
        erases the rows.
        """
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if self.has_new_width:
            at, column = self.shown.cursor
            columns = self._now_columns()
            above = sum(reflowed(self.shown.rows[:at], columns))
            place = Point(x=column % columns, y=above + column // columns)
            self.renderer._cursor_pos = place  # noqa: SLF001  # pyright: ignore[reportPrivateUsage]  # prompt_toolkit ignores reflow
