"""A window that is being resized: nothing is drawn until its size rests, then everything is drawn once, on the rows that it had."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

from prompt_toolkit.application import Application
from prompt_toolkit.data_structures import Point
from prompt_toolkit.output.vt100 import Vt100_Output

from midturn.terminal.prompts.rich.screen import Frame, Row, row_cells

QUIET = 0.15
"""Seconds without a further change of the size, after which it rests."""

_ERASE_DOWN = "\x1b[K\x1b7\x1b[C\x1b[J\x1b8"
"""Erases the row from the cursor on, then everything from the next cell on: tmux moves the whole screen into its history when everything is
erased from the first cell on."""

Result = TypeVar("Result")


class SteadyOutput(Vt100_Output):
    """An output that never moves what it erases into the history of the terminal."""

    def erase_down(self) -> None:
        """Erase everything from the cursor on."""
        self.write_raw(_ERASE_DOWN)


def reflowed(rows: Sequence[Row], columns: int) -> list[int]:
    """Return how many rows each printed row takes in a window of so many columns: terminals break what has become too long."""
    return [max(1, -(-row_cells(spans) // columns)) for spans in rows]


class SteadyApplication(Application[Result]):
    """An application that draws nothing while the window is being resized.

    prompt_toolkit erases and draws at every step, at the place of the rows before the terminal has moved them: each step leaves a copy.
    """

    def __init__(self, clock: Callable[[], float], columns: Callable[[], int], **settings: Any) -> None:
        """Make an application that reads the width of the window with `columns`."""
        super().__init__(**settings)
        self._clock = clock
        self._now_columns = columns
        self._drawn_columns = columns()
        self._rests_at = 0.0
        self._timer: asyncio.TimerHandle | None = None
        self.on_new_width: Callable[[], None] | None = None
        """Called when a window rests that has another width. Without it, the application is drawn again."""
        self.shown = Frame(())
        """The rows that were drawn last."""

    @property
    def has_new_width(self) -> bool:
        """Whether the window has another width than the rows were drawn for."""
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

    def _redraw(self, render_as_done: bool = False) -> None:  # noqa: FBT001, FBT002  prompt_toolkit calls it so
        if render_as_done:
            self._stop_waiting()
        elif self.has_new_width and self._timer is None:  # no signal says so outside of the main thread
            self._on_resize()
        if self._timer is None:
            super()._redraw(render_as_done)

    def _stop_waiting(self) -> None:
        """Have the rows erased where they are now, before they go away."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if self.has_new_width:
            at, column = self.shown.cursor
            columns = self._now_columns()
            above = sum(reflowed(self.shown.rows[:at], columns))
            place = Point(x=column % columns, y=above + column // columns)
            self.renderer._cursor_pos = place  # noqa: SLF001  # pyright: ignore[reportPrivateUsage]  # it knows nothing of reflow
