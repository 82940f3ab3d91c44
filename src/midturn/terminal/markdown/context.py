"""Draws the context of a question as Markdown: lists, tables, quotes, links with targets,
highlighted code.

Text under review is shown exactly: code with every character visible, diffs as diffs, and line
breaks as in the source.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from msgspec.structs import replace
from rich.color import Color
from rich.style import Style as InkStyle
from rich.text import Text

from midturn.question.text import exact
from midturn.terminal.markdown.ink import CONSOLE, coloured
from midturn.terminal.markdown.layout import (
    Block,
    Code,
    Glyphs,
    Layout,
    List,
    ListItem,
    Paragraph,
    Quote,
    TooDeep,
    parse,
)
from midturn.terminal.prompts.keys import TAB_STOP, split_lines
from midturn.terminal.prompts.rich.pager import begins_diff, plain_context
from midturn.terminal.prompts.rich.screen import Row, Span, Style, cut, row_cells

_DIFFS = frozenset({"diff", "patch"})
_LANGUAGE = re.compile(r"[A-Za-z][\w+#.-]{0,30}")
_COLOURS: dict[str, Style] = {
    "yellow": "number",
    "green": "string",
    "cyan": "name",
    "magenta": "keyword",
    "red": "removed",
}


def context_rows(glyphs: Glyphs, text: str, width: int) -> list[Row]:
    """Return the rows of a context. No row is wider than `width`."""
    lines = split_lines(text.rstrip("\n"))
    fenced = _fenced(lines)
    end = next(
        (
            number
            for number in range(len(lines))
            if number not in fenced and begins_diff(lines, number)
        ),
        len(lines),
    )
    try:
        blocks = parse("\n".join(lines[:end]))
    except TooDeep:
        return plain_context(text, width)
    drawn = [part for part in _drawn(glyphs, lines[:end], blocks, width) if part]
    diff = [plain_context("\n".join(lines[end:]), width)] if end < len(lines) else []
    return [
        found
        for number, part in enumerate([*drawn, *diff])
        for found in ([(), *part] if number else part)
    ]


def _drawn(
    glyphs: Glyphs, lines: Sequence[str], blocks: Sequence[Block], width: int
) -> Iterator[list[Row]]:
    layout = Layout(lines, glyphs)
    for block in blocks:
        if isinstance(block, Code):
            yield _code(block, lines, width)
        else:
            yield [
                found
                for text in layout.rows([_kept_lines(block)], width)
                for found in _fitted(_spans(text), width)
            ]


def _code(block: Code, lines: Sequence[str], width: int) -> list[Row]:
    """Draw code with every character visible, and a diff with its colours."""
    if block.language in _DIFFS or not _LANGUAGE.fullmatch(block.language):
        return plain_context("\n".join(lines[block.lines[0] : block.lines[1]]), width)
    shown = tuple(exact(line.expandtabs(TAB_STOP)) for line in block.content)
    return [found for text in coloured(shown, block.language) for found in cut(_spans(text), width)]


def _kept_lines(block: Block) -> Block:
    """Keep the line breaks of a paragraph, because tool output depends on them."""
    match block:
        case Paragraph():
            return replace(block, content=block.content.replace("\n", "  \n"))
        case Quote() | ListItem() | List():
            return replace(block, children=tuple(map(_kept_lines, block.children)))
        case _:
            return block


def _fenced(lines: Sequence[str]) -> set[int]:
    """Return the numbers of the lines inside code blocks."""
    try:
        blocks = parse("\n".join(lines))
    except TooDeep:
        return set()
    return {number for block in blocks if isinstance(block, Code) for number in range(*block.lines)}


def _fitted(spans: Row, width: int) -> list[Row]:
    return [spans] if row_cells(spans) <= width else cut(spans, width)


def _spans(text: Text) -> Row:
    """Convert text to spans in prompt styles."""
    row = text.copy()
    row.rstrip()
    return tuple(
        Span(segment.text, _style(segment.style)) for segment in row.render(CONSOLE) if segment.text
    )


def _style(ink: InkStyle | None) -> Style:
    if ink is None:
        return ""
    colour = ink.color.name if isinstance(ink.color, Color) else ""
    if colour == "bright_black":
        return "dim"
    if ink.underline:
        return "link" if colour else "heading"
    shapes: tuple[tuple[bool | None, Style], ...] = (
        (ink.bold, "strong"),
        (ink.strike, "struck"),
        (ink.italic, "emphasis"),
    )
    for has, style in shapes:
        if has:
            return style
    return _COLOURS.get(colour, "")
