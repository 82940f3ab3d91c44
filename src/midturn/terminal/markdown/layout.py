"""Markdown as blocks that know where they stand (CommonMark with tables), and blocks as rows.

What could hide text is switched off: HTML, definitions. Of a text that is still being written, the last paragraph or table waits until it
is closed, while code appears line by line.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import TypeAlias, assert_never

from markdown_it import MarkdownIt
from markdown_it.token import Token
from msgspec import Struct
from msgspec.structs import replace
from rich.style import Style
from rich.text import Text

from midturn.terminal.markdown.ink import DIM, HEADING, MARKER, PLAIN, STRONG, cut, highlighted, styled, wrapped
from midturn.terminal.prompts.cells import cells

Lines: TypeAlias = tuple[int, int]
"""The first line, and the one after the last."""

DEEPEST = 60


class TooDeep(Exception):  # noqa: N818 (it says what the text is)
    """Blocks in blocks in blocks: unreadable."""


class Paragraph(Struct, frozen=True):
    """Text; `content` is its source without indentation and markers."""

    lines: Lines
    content: str


class Heading(Struct, frozen=True):
    """A heading of level 1 to 6."""

    lines: Lines
    content: str
    level: int


class Code(Struct, frozen=True):
    """Lines of code."""

    lines: Lines
    content: tuple[str, ...]
    language: str


class RuleBlock(Struct, frozen=True):
    """A line across."""

    lines: Lines


class Table(Struct, frozen=True):
    """A table; `sides` says where the text of each column stands (`left`, `right`, `center`)."""

    lines: Lines
    sides: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]


class Quote(Struct, frozen=True):
    """Quoted blocks."""

    lines: Lines
    children: tuple[Block, ...]


class ListItem(Struct, frozen=True):
    """An item of a list; the marker is `-` for all kinds of bullets."""

    lines: Lines
    marker: str
    children: tuple[Block, ...]


class List(Struct, frozen=True):
    """A list."""

    lines: Lines
    children: tuple[Block, ...]


LeafBlock: TypeAlias = Paragraph | Heading | Code | RuleBlock | Table
Block: TypeAlias = LeafBlock | Quote | ListItem | List

_PARSER = MarkdownIt("commonmark", {"html": False, "maxNesting": DEEPEST})
_PARSER.enable("table").disable(["reference", "html_block", "inline", "text_join"])


def parse(text: str) -> tuple[Block, ...]:
    """Return the blocks of a text.

    Raises:
        TooDeep: Blocks are nested so deeply that some were left out.
    """
    tokens = _PARSER.parse(f"{text}\n")
    if any(token.level >= DEEPEST - 1 for token in tokens):  # what stands deeper is left out by the parser
        raise TooDeep
    return tuple(_blocks(iter(tokens), ""))


def settled(blocks: Sequence[Block]) -> Sequence[Block]:
    """Return what nothing that follows can change where the last block is still being written; of that block, what is closed in it."""
    if not blocks:
        return blocks
    *above, last = blocks
    match last:
        case Paragraph() | Table() | Code(content=()):
            return above
        case Quote() | ListItem() | List():
            inner = tuple(settled(last.children))
            return [*above, replace(last, children=inner)] if inner else above
        case _:
            return blocks


def _blocks(tokens: Iterator[Token], closing: str) -> Iterator[Block]:
    for token in tokens:
        if token.type == closing:
            return
        if token.nesting >= 0:
            yield _block(token, tokens)


def _block(token: Token, tokens: Iterator[Token]) -> Block:  # noqa: PLR0911  one for each kind of block
    lines = _lines(token)
    match token.type:
        case "paragraph_open":
            return Paragraph(lines, _content(tokens))
        case "heading_open":
            return Heading(lines, _content(tokens), int(token.tag[1:]))
        case "fence" | "code_block":
            return Code(lines, tuple(token.content.split("\n")[:-1]), token.info.split(" ")[0])
        case "table_open":
            return _table(lines, tokens)
        case "blockquote_open":
            return Quote(lines, tuple(_blocks(tokens, "blockquote_close")))
        case "list_item_open":
            marker = f"{token.info}{token.markup}" if token.info else "-"
            return ListItem(lines, marker, tuple(_blocks(tokens, "list_item_close")))
        case "bullet_list_open" | "ordered_list_open":
            return List(lines, tuple(_blocks(tokens, token.type.replace("open", "close"))))
        case "hr":
            return RuleBlock(lines)
        case _:
            return Paragraph(lines, token.content)


def _table(lines: Lines, tokens: Iterator[Token]) -> Table:
    sides: list[str] = []
    rows: list[tuple[str, ...]] = []
    cells: list[str] = []
    for token in tokens:
        match token.type:
            case "table_close":
                break
            case "th_open":
                sides.append(str(token.attrs.get("style", "")).removeprefix("text-align:") or "left")
            case "inline":
                cells.append(token.content)
            case "tr_close":
                rows.append(tuple(cells))
                cells = []
            case _:
                pass  # the head, the body, the ends of cells
    return Table(lines, tuple(sides), tuple(rows))


def _content(tokens: Iterator[Token]) -> str:
    """Return the source of an inline token, and pass over its end."""
    content = next(tokens).content
    next(tokens)
    return content


def _lines(token: Token) -> Lines:
    first, after = token.map or (0, 0)
    return first, after


# Rows -------------------------------------------------------------------------------------------------------------------

_INDENT = "    "
_GAP = "  "
_LEAST = 3  # cells of a column; where there is no room for that, each row becomes a list
_NARROWEST = 12  # cells that are left for text, however deep it stands
_MAJOR = 2  # headings down to this level are underlined
_EMPTY = re.compile(r"[ \t>]*")


class Glyphs(Struct, frozen=True):
    """Characters drawn besides letters."""

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

    def rows(self, blocks: Sequence[Block], width: int) -> list[Text]:
        """Lay out blocks that stand below each other. Each has a row, even if there is nothing in it: so all of them can be told apart."""
        found: list[Text] = []
        for number, block in enumerate(blocks):
            if number and self.parted(blocks, number):
                found.append(Text())
            found += self._block(block, width) or [Text()]
        return found

    def parted(self, blocks: Sequence[Block], number: int) -> bool:
        """Tell whether an empty row stands above a block: always, but in a list only where the source has one."""
        block, above = blocks[number], blocks[number - 1]
        if isinstance(block, ListItem) or (isinstance(block, List) and isinstance(above, Paragraph)):
            return _EMPTY.fullmatch(self._lines[block.lines[0] - 1]) is not None
        return True

    def _sign(self, item: ListItem) -> str:
        return f"{self._glyphs.bullet if item.marker == '-' else item.marker} "

    def _block(self, block: Block, width: int) -> list[Text]:  # noqa: PLR0911  one for each kind of block
        match block:
            case Paragraph():
                return wrapped(styled(block.content), width)
            case Heading():
                return wrapped(styled(block.content, HEADING if block.level <= _MAJOR else STRONG), width)
            case Code():
                return [
                    Text(_INDENT) + row for line in highlighted(block.content, block.language) for row in cut(line, _room(width, _INDENT))
                ]
            case RuleBlock():
                return [Text(self._glyphs.line * width, DIM)]
            case Table():
                return table_rows(block, width, self._glyphs.line)
            case Quote():
                edge = _dressed(self._glyphs.gutter, DIM)
                return self._behind(edge, edge, block, width)
            case ListItem():
                sign = self._sign(block)
                return self._behind(_dressed(sign, MARKER), Text(" " * cells(sign)), block, width)
            case List(children=children):
                return self.rows(children, width)
            case _ as other:
                assert_never(other)

    def _behind(self, first: Text, edge: Text, block: Quote | ListItem, width: int) -> list[Text]:
        """Lay out the blocks in a block behind its edge; the first row has one of its own."""
        rows = self.rows(block.children, _room(width, edge.plain)) or [Text()]
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
    columns = [_cell(text, width) for text, width in zip(record, widths, strict=True)]
    rows: list[Text] = []
    for number in range(max(map(len, columns))):
        row = Text()
        for column, (lines, width, side) in enumerate(zip(columns, widths, sides, strict=True)):
            text = lines[number] if number < len(lines) else Text()
            row = row + (_GAP if column else "") + _aligned(text, width, side)
        rows.append(row)
    return rows


def _cell(text: Text, width: int) -> list[Text]:
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
