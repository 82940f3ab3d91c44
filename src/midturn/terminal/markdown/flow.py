"""Markdown that is still being written: each row is given out once nothing that follows can change it."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence

from msgspec.structs import replace
from rich.text import Text

from midturn.core.visible import prose
from midturn.prompts.cells import wrap
from midturn.terminal.flow import margin
from midturn.terminal.markdown.blocks import Block, Paragraph, TooDeep, last_leaf, parse
from midturn.terminal.markdown.ink import ansi
from midturn.terminal.markdown.layout import Glyphs, Layout
from midturn.terminal.markdown.seams import Seams

PATIENCE = 1.5  # seconds that a full row may wait for what is open in it to be closed
_PAUSE = 0.04  # seconds between two looks at the text
_SHARE = 10  # a look is worth that many times its own time
_DECIDED = 40  # characters after which a line cannot turn into something else
_FENCES = ("```", "~~~")
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
        self._seams = Seams()
        self._given = 0
        self._width = 0
        self._follows = False
        self._look_at = 0.0
        self._waits_since: float | None = None

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
        if now < self._look_at or not (self._lines or self._tail):
            return ""
        shown = self._look(now)
        took = self._clock() - now
        self._look_at = now + max(_PAUSE, _SHARE * took)
        return shown

    def finish(self) -> str:
        """Return everything that was not given out yet."""
        self._take("\n" if self._tail or self._return else "")
        shown = self._show(self._lines, self._clock(), is_last=False)
        self._begin()
        return shown

    def _look(self, now: float) -> str:
        lines = [*self._lines, self._tail] if self._tail_is_text() else self._lines
        return self._show(lines, now, is_last=True) if lines else ""

    def _show(self, lines: Sequence[str], now: float, *, is_last: bool) -> str:
        """Give out what is final of the text so far."""
        try:
            blocks = parse("\n".join(lines), self._seams.lines)
        except TooDeep:
            return self._as_it_is(lines)
        if not self._given:
            self._width = max(_NARROWEST, self._columns() - 1)
        layout = Layout(lines, self._seams, self._glyphs)
        is_open = is_last and lines[-1].strip(" \t") != ""  # an empty line ends every block that might go on
        if is_open:
            self._cut_last(layout, blocks, now)
        rows = self._rows(layout, blocks, is_last=is_open)
        new, self._given = rows[self._given :], max(self._given, len(rows))
        self._drop_given(layout, blocks)
        return _written(new)

    def _rows(self, layout: Layout, blocks: Sequence[Block], *, is_last: bool) -> list[Text]:
        rows = layout.rows(blocks, self._width, is_last=is_last)
        return [Text(), *rows] if rows and self._follows else rows

    def _tail_is_text(self) -> bool:
        """Tell whether the line that is being written can only be words of a paragraph: long enough, and neither code nor a table."""
        tail = self._tail.lstrip(" ")
        return len(tail) > _DECIDED and not tail.startswith(_FENCES) and "|" not in tail and self._ends_in_a_paragraph()

    def _ends_in_a_paragraph(self) -> bool:
        try:
            leaf = last_leaf(parse("\n".join([*self._lines, self._tail]), self._seams.lines))
        except TooDeep:
            return False
        return isinstance(leaf, Paragraph) and leaf.lines[1] > len(self._lines)

    def _cut_last(self, layout: Layout, blocks: Sequence[Block], now: float) -> None:
        """Cut the paragraph that stands last, so that its full rows are final."""
        leaf, width = layout.last_leaf(blocks, self._width)
        if not isinstance(leaf, Paragraph) or "|" in leaf.content.rpartition("\n")[2]:
            self._waits_since = None
            return
        overdue = self._waits_since is not None and now - self._waits_since > PATIENCE
        if not self._tail.strip(" ") or self._tail.endswith(" "):  # its last word is whole, which the parser does not say
            leaf = replace(leaf, content=f"{leaf.content} ")
        if self._seams.cut(leaf, width, overdue=overdue):
            self._waits_since = None
        elif self._waits_since is None and len(leaf.content) > width:
            self._waits_since = now

    def _drop_given(self, layout: Layout, blocks: Sequence[Block]) -> None:
        """Forget the blocks that are closed: all of their rows were given out."""
        if len(blocks) <= 1:
            return
        gone = blocks[-1].lines[0]
        self._given -= len(self._rows(layout, blocks[:-1], is_last=False))
        self._follows = layout.parted(blocks, len(blocks) - 1)
        self._seams = self._seams.moved(gone)
        self._lines = self._lines[gone:]

    def _as_it_is(self, lines: Sequence[str]) -> str:
        """Give out what nobody can lay out."""
        self._lines, self._given, self._seams, self._follows = [], 0, Seams(), True
        return _written([Text(row) for line in lines for row in wrap(prose(line), max(_NARROWEST, self._columns() - 1))])


def _written(rows: Sequence[Text]) -> str:
    return "".join(f"{margin(row.plain)}{ansi(row)}\n" for row in rows)
