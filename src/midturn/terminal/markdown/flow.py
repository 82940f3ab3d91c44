"""Streaming Markdown: each row is written as soon as further text cannot change it.

The pending lines are parsed again at intervals, and the rows of complete blocks, list items and
code lines are written. Written rows are never drawn again. Therefore, the last paragraph or table
is pending until a later line completes it. Complete top-level blocks are dropped, so the parsing
time depends on the longest block and not on the length of the answer.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence

from rich.text import Text

from midturn.question.text import prose
from midturn.terminal.flow import margin
from midturn.terminal.markdown.ink import ansi
from midturn.terminal.markdown.layout import (
    Block,
    Glyphs,
    Heading,
    Layout,
    RuleBlock,
    TooDeep,
    parse,
    settled,
)
from midturn.terminal.prompts.cells import wrap

_MIN_PARSE_INTERVAL = 0.04  # minimum seconds between two parses
_PARSE_COST_FACTOR = 10  # minimum pause after a parse, as a multiple of the duration of the parse
_RETURN = "\u240d"
_MIN_WIDTH = 10


class MarkdownFlow:
    """Converts Markdown, which can arrive in pieces of any size, to rows.

    The rows do not depend on how the text is split.
    """

    def __init__(
        self, width: Callable[[], int], glyphs: Glyphs, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._columns = width
        self._glyphs = glyphs
        self._clock = clock
        self._begin()

    def _begin(self) -> None:
        """Reset the state for a new message."""
        self._lines: list[str] = []
        self._tail = self._return = ""
        self._rows_written = 0
        self._width = 0
        self._follows = False
        self._next_parse_at = 0.0

    def feed(self, text: str) -> str:
        """Process the next piece and return the rows that are final."""
        self._take(text)
        return self.tick()

    def _take(self, text: str) -> None:
        r"""Split a piece into lines at `\n` and `\r\n`.

        A carriage return without a newline becomes a visible symbol.
        """
        held = "\r" if text.endswith("\r") else ""
        whole = f"{self._return}{text.removesuffix(held)}".replace("\r\n", "\n").replace(
            "\r", _RETURN
        )
        self._return = held
        *lines, self._tail = f"{self._tail}{whole}".split("\n")
        self._lines += lines

    def tick(self) -> str:
        """Return the rows that are final, if enough time has passed since the last parse."""
        now = self._clock()
        if now < self._next_parse_at or not self._lines:
            return ""
        is_open = (
            self._lines[-1].strip(" \t") != ""
        )  # an empty line completes every block that could continue
        shown = self._show(is_open=is_open)
        took = self._clock() - now
        self._next_parse_at = now + max(_MIN_PARSE_INTERVAL, _PARSE_COST_FACTOR * took)
        return shown

    def finish(self) -> str:
        """Return all remaining rows."""
        self._take("\n" if self._tail or self._return else "")
        shown = self._show(is_open=False)
        self._begin()
        return shown

    def _show(self, *, is_open: bool) -> str:
        """Return the rows that are final and not yet written.

        `is_open`: The last block can still change.
        """
        try:
            blocks = parse("\n".join(self._lines))
        except TooDeep:
            return self._as_plain_text()
        if not self._rows_written:
            self._width = max(_MIN_WIDTH, self._columns() - 1)
        layout = Layout(self._lines, self._glyphs)
        rows = self._rows(layout, settled(blocks) if is_open else blocks)
        new, self._rows_written = rows[self._rows_written :], max(self._rows_written, len(rows))
        self._drop_complete_blocks(layout, blocks)
        return _written(new)

    def _rows(self, layout: Layout, blocks: Sequence[Block]) -> list[Text]:
        rows = layout.rows(blocks, self._width)
        return [Text(), *rows] if rows and self._follows else rows

    def _drop_complete_blocks(self, layout: Layout, blocks: Sequence[Block]) -> None:
        """Drop the complete blocks, because their rows are written."""
        if blocks and isinstance(
            blocks[-1], Heading | RuleBlock
        ):  # headings and rules are always complete
            self._lines, self._rows_written, self._follows = [], 0, True
            return
        if len(blocks) <= 1:
            return
        self._rows_written -= len(self._rows(layout, blocks[:-1]))
        self._follows = layout.is_separated(blocks, len(blocks) - 1)
        self._lines = self._lines[blocks[-1].lines[0] :]

    def _as_plain_text(self) -> str:
        """Return the pending lines as plain text, because they cannot be laid out."""
        lines, self._lines, self._rows_written, self._follows = self._lines, [], 0, True
        return _written(
            [
                Text(row)
                for line in lines
                for row in wrap(prose(line), max(_MIN_WIDTH, self._columns() - 1))
            ]
        )


def _written(rows: Sequence[Text]) -> str:
    return "".join(f"{margin(row.plain)}{ansi(row)}\n" for row in rows)
