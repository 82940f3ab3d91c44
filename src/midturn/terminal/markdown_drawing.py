"""A block of Markdown, drawn for a terminal: text that passed the sink, the 16 colours of the theme, nothing that acts (spec 9.1)."""

from __future__ import annotations

import io
import re
from typing import Any, ClassVar, cast

from markdown_it import MarkdownIt
from markdown_it.token import Token
from rich.console import Console, ConsoleOptions, RenderResult
from rich.markdown import Heading, Markdown
from rich.theme import Theme

from midturn.core.visible import prose

_LOOKS = Theme(
    {
        "markdown.code": "cyan",
        "markdown.code_block": "cyan",
        "markdown.block_quote": "dim",
        "markdown.h1": "bold underline",
        "markdown.h2": "bold",
        "markdown.h3": "bold",
        "markdown.link": "underline",
        "markdown.link_url": "cyan",
        "markdown.table.border": "dim",
        "markdown.table.header": "bold",
    }
)
_COLOURS = re.compile(r"\x1b\[[0-9;]*m")
_TRAILING = re.compile(r" +((?:\x1b\[[0-9;]*m)*)$", re.MULTILINE)
_EDGES = re.compile(r"\A(?:(?:\x1b\[[0-9;]*m| )*\n)+|(?:\n(?:\x1b\[[0-9;]*m| )*)+\Z")
_ACTS = re.compile("[\x00-\x09\x0b-\x1f\x7f-\x9f]")
_PARSER = MarkdownIt("commonmark", {"html": False}).enable(["strikethrough", "table"])


class _Heading(Heading):
    """A heading at the left, where the text is."""

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        del console, options
        self.text.justify = "left"
        yield self.text


class _Page(Markdown):
    elements: ClassVar = {**Markdown.elements, "heading_open": _Heading}


def drawn_markdown(block: str, columns: int, *, colour: bool) -> str:
    """Return the rows of a block, each ended by a newline.

    Entities are decoded while Markdown is read, so it is the pieces that pass the sink, not the source.
    """
    markdown = _Page("", code_theme="ansi_dark", hyperlinks=False)
    markdown.parsed = _PARSER.parse(block)
    for token in markdown.parsed:
        _make_safe(token)
    page = io.StringIO()
    console = Console(
        file=page,
        width=max(2, columns),
        force_terminal=True,
        color_system="standard",
        no_color=not colour,
        theme=_LOOKS,
        highlight=False,
        markup=False,
        emoji=False,
        legacy_windows=False,
    )
    console.print(markdown)
    rows = _TRAILING.sub(r"\1", _EDGES.sub("", page.getvalue()))
    return f"{rows}\n" if _ACTS.search(_COLOURS.sub("", rows)) is None else f"{prose(block)}\n"


def _make_safe(token: Token) -> None:
    token.content = prose(token.content)
    token.info = prose(token.info)
    token.attrs = {name: prose(value) if isinstance(value, str) else value for name, value in cast("dict[str, Any]", token.attrs).items()}
    for child in token.children or ():
        _make_safe(child)
