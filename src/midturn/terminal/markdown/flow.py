"""Markdown that is still being written: each row is given out once nothing that follows can change it.

The lines so far are parsed anew at each look, and the rows of what is closed come out: blocks that another one follows, items of a list,
lines of code. What was given out is never drawn again, so the last paragraph or table waits for the line that closes it. Blocks at the
edge that are closed are forgotten, so that a long answer costs no more than its longest block.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence

from rich.text import Text

from midturn.question.text import prose
from midturn.terminal.flow import margin
from midturn.terminal.markdown.ink import ansi
from midturn.terminal.markdown.layout import Block, Glyphs, Heading, Layout, RuleBlock, TooDeep, parse, settled
from midturn.terminal.prompts.cells import wrap

_PAUSE = 0.04  # seconds between two looks at the text
_SHARE = 10  # a look is worth that many times its own time
_RETURN = "\u240d"
_NARROWEST = 10


class MarkdownFlow:
    """Takes Markdown in pieces of any size; what it gives out does not depend on the pieces."""

    def __init__(self, width: Callable[[], int], glyphs: Glyphs, clock: Callable[[], float] = time.monotonic) -> None:
        self._columns = width
        self._glyphs = glyphs
        self._clock = clock
        self._begin()

    def _begin(self) -> None:
        """Forget everything: a new message."""
        self._lines: list[str] = []
        self._tail = self._return = ""
        self._given = 0
        self._width = 0
        self._follows = False
        self._look_at = 0.0

    def feed(self, text: str) -> str:
        """Take the next piece, and return the rows that are final."""
        self._take(text)
        return self.tick()

    def _take(self, text: str) -> None:
        """Cut a piece into lines, at the line ends that everybody agrees about: a lone carriage return is a character like others."""
        held = "\r" if text.endswith("\r") else ""
        whole = f"{self._return}{text.removesuffix(held)}".replace("\r\n", "\n").replace("\r", _RETURN)
        self._return = held
        *lines, self._tail = f"{self._tail}{whole}".split("\n")
        self._lines += lines

    def tick(self) -> str:
        """Return the rows that are final, if it is time for a look."""
        now = self._clock()
        if now < self._look_at or not self._lines:
            return ""
        is_open = self._lines[-1].strip(" \t") != ""  # an empty line ends every block that might go on
        shown = self._show(is_open=is_open)
        took = self._clock() - now
        self._look_at = now + max(_PAUSE, _SHARE * took)
        return shown

    def finish(self) -> str:
        """Return everything that was not given out yet."""
        self._take("\n" if self._tail or self._return else "")
        shown = self._show(is_open=False)
        self._begin()
        return shown

    def _show(self, *, is_open: bool) -> str:
        """Give out what is final of the lines so far; the last block may still be open."""
        try:
            blocks = parse("\n".join(self._lines))
        except TooDeep:
            return self._as_it_is()
        if not self._given:
            self._width = max(_NARROWEST, self._columns() - 1)
        layout = Layout(self._lines, self._glyphs)
        rows = self._rows(layout, settled(blocks) if is_open else blocks)
        new, self._given = rows[self._given :], max(self._given, len(rows))
        self._drop_given(layout, blocks)
        return _written(new)

    def _rows(self, layout: Layout, blocks: Sequence[Block]) -> list[Text]:
        rows = layout.rows(blocks, self._width)
        return [Text(), *rows] if rows and self._follows else rows

    def _drop_given(self, layout: Layout, blocks: Sequence[Block]) -> None:
        """Forget the blocks that are closed: all of their rows were given out."""
        if blocks and isinstance(blocks[-1], Heading | RuleBlock):  # nothing goes on with these
            self._lines, self._given, self._follows = [], 0, True
            return
        if len(blocks) <= 1:
            return
        self._given -= len(self._rows(layout, blocks[:-1]))
        self._follows = layout.parted(blocks, len(blocks) - 1)
        self._lines = self._lines[blocks[-1].lines[0] :]

    def _as_it_is(self) -> str:
        """Give out what cannot be laid out."""
        lines, self._lines, self._given, self._follows = self._lines, [], 0, True
        return _written([Text(row) for line in lines for row in wrap(prose(line), max(_NARROWEST, self._columns() - 1))])


def _written(rows: Sequence[Text]) -> str:
    return "".join(f"{margin(row.plain)}{ansi(row)}\n" for row in rows)
