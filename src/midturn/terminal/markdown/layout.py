"""Blocks as rows. Of a text that is still being written, only the rows that nothing after them can change."""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import lru_cache
from typing import assert_never

from msgspec import Struct
from rich.style import Style
from rich.text import Text

from midturn.prompts.cells import cells
from midturn.terminal.markdown.blocks import Block, Code, Heading, List, ListItem, Paragraph, Quote, RuleBlock, Table
from midturn.terminal.markdown.code import highlighted
from midturn.terminal.markdown.ink import DIM, HEADING, MARKER, PLAIN, STRONG, cut, wrapped
from midturn.terminal.markdown.inline import styled
from midturn.terminal.markdown.seams import Seams
from midturn.terminal.markdown.table import table_rows

_INDENT = "    "
_NARROWEST = 12  # cells that are left for text, however deep it stands
_MAJOR = 2  # headings down to this level are underlined
_BREAK = re.compile(r" *\n?")
_EMPTY = re.compile(r"[ \t>]*")


class Glyphs(Struct, frozen=True):
    """What is drawn besides letters."""

    bullet: str
    gutter: str
    line: str


UNICODE = Glyphs("•", "▌ ", "─")
ASCII = Glyphs("-", "> ", "-")


class Layout:
    """Lays out the blocks of one source; `lines` are its lines, `seams` where its paragraphs were cut."""

    def __init__(self, lines: Sequence[str], seams: Seams, glyphs: Glyphs) -> None:
        self._lines = lines
        self._seams = seams
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

    def last_leaf(self, blocks: Sequence[Block], width: int) -> tuple[Block | None, int]:
        """Return the block that stands last and holds no other, and how wide it is."""
        last = blocks[-1] if blocks else None
        while isinstance(last, Quote | ListItem | List) and last.children:
            width = _room(width, self._edge(last))
            last = last.children[-1]
        return last, width

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
                return self._paragraph(block, width, PLAIN, is_open=is_open)
            case Heading():
                return self._heading(block, width)
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

    def _paragraph(self, block: Paragraph | Heading, width: int, style: Style, *, is_open: bool) -> list[Text]:
        *closed, rest = self._seams.pieces(block.lines[0], block.content)
        pieces = closed if is_open else [*closed, rest]
        return [row for number, piece in enumerate(pieces) for row in _piece_rows(piece, width, style, is_first=not number) if piece]

    def _heading(self, block: Heading, width: int) -> list[Text]:
        if block.lines[0] in self._seams.lines:  # its beginning was shown as a paragraph before the line below it was written
            return [*self._paragraph(block, width, PLAIN, is_open=False), Text(self._glyphs.line * width, DIM)]
        return self._paragraph(block, width, HEADING if block.level <= _MAJOR else STRONG, is_open=False)

    def _behind(self, first: Text, edge: Text, block: Quote | ListItem, width: int, *, is_open: bool) -> list[Text]:
        """Lay out the blocks in a block behind its edge; the first row has one of its own."""
        rows = self.rows(block.children, _room(width, edge.plain), is_last=is_open) or ([] if is_open else [Text()])
        return [(edge if number else first) + row for number, row in enumerate(rows)]


@lru_cache(maxsize=2_048)
def _piece_rows(piece: str, width: int, style: Style, *, is_first: bool) -> Sequence[Text]:
    """Lay out a piece of a paragraph; one that goes on begins without the spaces at which the row above was broken."""
    text = styled(piece, style)
    broken = _BREAK.match("" if is_first else text.plain)
    return wrapped(text[broken.end() if broken else 0 :], width)


def _dressed(text: str, style: Style) -> Text:
    """Return a text whose style ends where it ends, whatever is put behind it."""
    return Text().append(text, style)


def _room(width: int, edge: str) -> int:
    return max(_NARROWEST, width - cells(edge))
