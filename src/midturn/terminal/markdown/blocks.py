"""Markdown as blocks that know where they stand (CommonMark with tables). What could hide text is switched off: HTML, definitions."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TypeAlias

from markdown_it import MarkdownIt
from markdown_it.token import Token
from msgspec import Struct

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
