"""Markdown (CommonMark with tables) as blocks with source positions, and the layout of blocks as
rows.

Syntax that could hide text is disabled: HTML and link definitions. While text is still arriving,
its last paragraph or table is displayed only when it is complete. Code is displayed line by line.
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

from midturn.terminal.markdown.ink import (
    DIM,
    HEADING,
    MARKER,
    PLAIN,
    STRONG,
    cut,
    highlighted,
    styled,
    wrapped,
)
from midturn.terminal.prompts.cells import cells

Lines: TypeAlias = tuple[int, int]
"""Number of the first line, and number of the line after the last."""

MAX_DEPTH = 60


class TooDeep(Exception):  # noqa: N818 (it says what the text is)
    """Blocks are nested too deeply to be displayed."""


class Paragraph(Struct, frozen=True):
    """A paragraph; `content` is its source without indentation and markers."""

    lines: Lines
    content: str


class Heading(Struct, frozen=True):
    """A heading of level 1 to 6."""

    lines: Lines
    content: str
    level: int


class Code(Struct, frozen=True):
    """A code block."""

    lines: Lines
    content: tuple[str, ...]
    language: str


class RuleBlock(Struct, frozen=True):
    """A horizontal rule."""

    lines: Lines


class Table(Struct, frozen=True):
    """A table; `sides` contains the alignment of each column (`left`, `right`, `center`)."""

    lines: Lines
    sides: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]


class Quote(Struct, frozen=True):
    """A block quote."""

    lines: Lines
    children: tuple[Block, ...]


class ListItem(Struct, frozen=True):
    """A list item. All bullets are displayed as `-`."""

    lines: Lines
    marker: str
    children: tuple[Block, ...]


class List(Struct, frozen=True):
    """A list."""

    lines: Lines
    children: tuple[Block, ...]


LeafBlock: TypeAlias = Paragraph | Heading | Code | RuleBlock | Table
Block: TypeAlias = LeafBlock | Quote | ListItem | List

_PARSER = MarkdownIt("commonmark", {"html": False, "maxNesting": MAX_DEPTH})
_PARSER.enable("table").disable(["reference", "html_block", "inline", "text_join"])


def parse(text: str) -> tuple[Block, ...]:
    """Return the blocks in `text`.

    Raises:
        TooDeep: Blocks are nested so deeply that the parser dropped some.
    """
    tokens = _PARSER.parse(f"{text}\n")
    if any(token.level >= MAX_DEPTH - 1 for token in tokens):  # the parser drops deeper blocks
        raise TooDeep
    return tuple(_blocks(iter(tokens), ""))


def settled(blocks: Sequence[Block]) -> Sequence[Block]:
    """Return the blocks that further text cannot change, including the complete parts of the
    last block.
    """
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
                sides.append(
                    str(token.attrs.get("style", "")).removeprefix("text-align:") or "left"
                )
            case "inline":
                cells.append(token.content)
            case "tr_close":
                rows.append(tuple(cells))
                cells = []
            case _:
                pass  # head, body and cell ends carry no text
    return Table(lines, tuple(sides), tuple(rows))


def _content(tokens: Iterator[Token]) -> str:
    """Return the source of an inline token and skip its end token."""
    content = next(tokens).content
    next(tokens)
    return content


def _lines(token: Token) -> Lines:
    first, after = token.map or (0, 0)
    return first, after


# Rows -------------------------------------------------------------------------------------------

_INDENT = "    "
_GAP = "  "
# minimum width of a table column in cells; if a column has less room, each row of the table is
# drawn as a list
_MIN_COLUMN = 3
_MIN_TEXT_WIDTH = 12  # minimum width of text in cells, at any nesting depth
_MAX_UNDERLINED_LEVEL = 2  # headings up to this level are underlined
_EMPTY = re.compile(r"[ \t>]*")


class Glyphs(Struct, frozen=True):
    """Characters drawn around blocks, such as the edge of a quote."""

    bullet: str
    gutter: str
    line: str


UNICODE = Glyphs("•", "▌ ", "─")
ASCII = Glyphs("-", "> ", "-")


class Layout:
    """Lays out the blocks of one source text. `lines` are its lines."""

    def __init__(self, lines: Sequence[str], glyphs: Glyphs) -> None:
        self._lines = lines
        self._glyphs = glyphs

    def rows(self, blocks: Sequence[Block], width: int) -> list[Text]:
        """Lay out consecutive blocks.

        Each block takes at least one row, so that blocks stay distinguishable.
        """
        found: list[Text] = []
        for number, block in enumerate(blocks):
            if number and self.is_separated(blocks, number):
                found.append(Text())
            found += self._block(block, width) or [Text()]
        return found

    def is_separated(self, blocks: Sequence[Block], number: int) -> bool:
        """Return whether an empty row precedes a block.

        In a list, this depends on the source. Otherwise an empty row always precedes a block.
        """
        block, above = blocks[number], blocks[number - 1]
        if isinstance(block, ListItem) or (
            isinstance(block, List) and isinstance(above, Paragraph)
        ):
            return _EMPTY.fullmatch(self._lines[block.lines[0] - 1]) is not None
        return True

    def _sign(self, item: ListItem) -> str:
        return f"{self._glyphs.bullet if item.marker == '-' else item.marker} "

    def _block(self, block: Block, width: int) -> list[Text]:  # noqa: PLR0911  one for each kind of block
        match block:
            case Paragraph():
                return wrapped(styled(block.content), width)
            case Heading():
                return wrapped(
                    styled(
                        block.content, HEADING if block.level <= _MAX_UNDERLINED_LEVEL else STRONG
                    ),
                    width,
                )
            case Code():
                return [
                    Text(_INDENT) + row
                    for line in highlighted(block.content, block.language)
                    for row in cut(line, _room(width, _INDENT))
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
        """Lay out nested blocks, with `edge` before each row.

        The first row begins with `first` instead.
        """
        rows = self.rows(block.children, _room(width, edge.plain)) or [Text()]
        return [(edge if number else first) + row for number, row in enumerate(rows)]


def _dressed(text: str, style: Style) -> Text:
    """Return styled text. Text that is appended to it later does not get the style."""
    return Text().append(text, style)


def _room(width: int, edge: str) -> int:
    return max(_MIN_TEXT_WIDTH, width - cells(edge))


# Tables: each column is as wide as it needs to be, and the table at most as wide as the terminal


def table_rows(table: Table, width: int, line: str) -> list[Text]:
    """Lay out a table. Its first row is the head."""
    styled_rows = [
        [styled(cell, PLAIN if number else STRONG) for cell in row]
        for number, row in enumerate(table.rows)
    ]
    widths = _fit(
        [
            max(cells(row[column].plain) for row in styled_rows)
            for column in range(len(table.sides))
        ],
        width,
    )
    if widths is None:
        return _as_lists(styled_rows, width)
    head, *body = styled_rows
    rule = Text(_GAP.join(line * column for column in widths), DIM)
    return [
        *_row(head, widths, table.sides),
        rule,
        *(row for record in body for row in _row(record, widths, table.sides)),
    ]


def _fit(wanted: Sequence[int], width: int) -> list[int] | None:
    """Return the widths of the columns, or None if there is too little room.

    Narrow columns keep their width, and the widest columns shrink.
    """
    room = width - cells(_GAP) * (len(wanted) - 1)
    widths = [max(1, column) for column in wanted]
    if room < min(_MIN_COLUMN, max(widths)) * len(widths):
        return None
    while (excess := sum(widths) - room) > 0:
        widest = max(widths)
        next_widest = max((column for column in widths if column < widest), default=0)
        many = widths.count(widest)
        lowered = max(next_widest, widest - -(-excess // many), 1)
        widths = [lowered if column == widest else column for column in widths]
    return widths


def _row(record: Sequence[Text], widths: Sequence[int], sides: Sequence[str]) -> list[Text]:
    """Lay out one record. Long text takes several rows."""
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
    """Lay out a table that is too wide for columns.

    The records are displayed one after another, with the heading before each value.
    """
    head, *body = records
    rows: list[Text] = []
    for record in body or [head]:
        rows += [Text()] if rows else []
        for name, value in zip(head, record, strict=True):
            rows += wrapped(name + ": " + value if record is not head else name, width)
    return rows
