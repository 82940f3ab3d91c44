"""Blocks as rows. Of a text that is still being written, only the rows that nothing after them can change.

Its last paragraph or table waits until it is closed, while code appears line by line.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import assert_never

from msgspec import Struct
from rich.style import Style
from rich.text import Text

from midturn.prompts.cells import cells
from midturn.terminal.markdown.blocks import Block, Code, Heading, List, ListItem, Paragraph, Quote, RuleBlock, Table
from midturn.terminal.markdown.ink import DIM, HEADING, MARKER, PLAIN, STRONG, cut, highlighted, styled, wrapped

_INDENT = "    "
_GAP = "  "
_LEAST = 3  # cells of a column; where there is no room for that, each row becomes a list
_NARROWEST = 12  # cells that are left for text, however deep it stands
_MAJOR = 2  # headings down to this level are underlined
_EMPTY = re.compile(r"[ \t>]*")


class Glyphs(Struct, frozen=True):
    """What is drawn besides letters."""

    bullet: str
    gutter: str
    line: str


UNICODE = Glyphs("•", "▌ ", "─")
ASCII = Glyphs("-", "> ", "-")


class Layout:
    """Lays out the blocks of one source; `lines` are its lines."""

    def __init__(self, lines: Sequence[str], glyphs: Glyphs) -> None:
        self._lines = lines
        self._glyphs = glyphs

    def rows(self, blocks: Sequence[Block], width: int, *, is_last: bool) -> list[Text]:
        """Lay out blocks that stand below each other. With `is_last`, the last of them is still being written."""
        found: list[Text] = []
        for number, block in enumerate(blocks):
            rows = self._block(block, width, is_open=is_last and number == len(blocks) - 1)
            if found and rows and self.parted(blocks, number):
                found.append(Text())
            found += rows
        return found

    def parted(self, blocks: Sequence[Block], number: int) -> bool:
        """Tell whether an empty row stands above a block: always, but in a list only where the source has one."""
        block, above = blocks[number], blocks[number - 1]
        if isinstance(block, ListItem) or (isinstance(block, List) and isinstance(above, Paragraph)):
            return _EMPTY.fullmatch(self._lines[block.lines[0] - 1]) is not None
        return True

    def _edge(self, block: Quote | ListItem | List) -> str:
        """Return what stands before the rows of what is in a block."""
        match block:
            case Quote():
                return self._glyphs.gutter
            case ListItem():
                return " " * cells(self._sign(block))
            case List():
                return ""

    def _sign(self, item: ListItem) -> str:
        return f"{self._glyphs.bullet if item.marker == '-' else item.marker} "

    def _block(self, block: Block, width: int, *, is_open: bool) -> list[Text]:
        """Lay out one block. One that is closed has a row, even if there is nothing in it: so all of them can be told apart."""
        return self._laid_out(block, width, is_open=is_open) or ([] if is_open else [Text()])

    def _laid_out(self, block: Block, width: int, *, is_open: bool) -> list[Text]:  # noqa: PLR0911  one for each kind of block
        match block:
            case Paragraph():
                return [] if is_open else wrapped(styled(block.content), width)
            case Heading():
                return wrapped(styled(block.content, HEADING if block.level <= _MAJOR else STRONG), width)
            case Code():
                return [Text(_INDENT) + row for line in highlighted(block) for row in cut(line, _room(width, _INDENT))]
            case RuleBlock():
                return [Text(self._glyphs.line * width, DIM)]
            case Table():
                return [] if is_open else table_rows(block, width, self._glyphs.line)
            case Quote():
                edge = _dressed(self._edge(block), DIM)
                return self._behind(edge, edge, block, width, is_open=is_open)
            case ListItem():
                return self._behind(_dressed(self._sign(block), MARKER), Text(self._edge(block)), block, width, is_open=is_open)
            case List(children=children):
                return self.rows(children, width, is_last=is_open)
            case _ as other:
                assert_never(other)

    def _behind(self, first: Text, edge: Text, block: Quote | ListItem, width: int, *, is_open: bool) -> list[Text]:
        """Lay out the blocks in a block behind its edge; the first row has one of its own."""
        rows = self.rows(block.children, _room(width, edge.plain), is_last=is_open) or ([] if is_open else [Text()])
        return [(edge if number else first) + row for number, row in enumerate(rows)]


def _dressed(text: str, style: Style) -> Text:
    """Return a text whose style ends where it ends, whatever is put behind it."""
    return Text().append(text, style)


def _room(width: int, edge: str) -> int:
    return max(_NARROWEST, width - cells(edge))


# Tables: columns as wide as they need, and together no wider than the terminal ------------------------------------------


def table_rows(table: Table, width: int, line: str) -> list[Text]:
    """Lay out a table; the first row of it is its head."""
    styled_rows = [[styled(cell, PLAIN if number else STRONG) for cell in row] for number, row in enumerate(table.rows)]
    widths = _fit([max(cells(row[column].plain) for row in styled_rows) for column in range(len(table.sides))], width)
    if widths is None:
        return _as_lists(styled_rows, width)
    head, *body = styled_rows
    rule = Text(_GAP.join(line * column for column in widths), DIM)
    return [*_row(head, widths, table.sides), rule, *(row for record in body for row in _row(record, widths, table.sides))]


def _fit(wanted: Sequence[int], width: int) -> list[int] | None:
    """Share out the width: narrow columns get what they want, the widest give way; None where it is not enough."""
    room = width - cells(_GAP) * (len(wanted) - 1)
    widths = [max(1, column) for column in wanted]
    if room < min(_LEAST, max(widths)) * len(widths):
        return None
    while (excess := sum(widths) - room) > 0:
        widest = max(widths)
        next_widest = max((column for column in widths if column < widest), default=0)
        many = widths.count(widest)
        lowered = max(next_widest, widest - -(-excess // many), 1)
        widths = [lowered if column == widest else column for column in widths]
    return widths


def _row(record: Sequence[Text], widths: Sequence[int], sides: Sequence[str]) -> list[Text]:
    """Lay out one record; a long text takes several rows."""
    columns = [_lines(text, width) for text, width in zip(record, widths, strict=True)]
    rows: list[Text] = []
    for number in range(max(map(len, columns))):
        row = Text()
        for column, (lines, width, side) in enumerate(zip(columns, widths, sides, strict=True)):
            text = lines[number] if number < len(lines) else Text()
            row = row + (_GAP if column else "") + _aligned(text, width, side)
        rows.append(row)
    return rows


def _lines(text: Text, width: int) -> list[Text]:
    return [part for row in wrapped(text, width) for part in cut(row, width)]


def _aligned(text: Text, width: int, side: str) -> Text:
    spare = max(0, width - cells(text.plain))
    before = {"right": spare, "center": spare // 2}.get(side, 0)
    return Text(" " * before) + text + " " * (spare - before)


def _as_lists(records: Sequence[Sequence[Text]], width: int) -> list[Text]:
    """Lay out a table that is too wide for its columns: record by record, each value below its heading."""
    head, *body = records
    rows: list[Text] = []
    for record in body or [head]:
        rows += [Text()] if rows else []
        for name, value in zip(head, record, strict=True):
            rows += wrapped(name + ": " + value if record is not head else name, width)
    return rows
