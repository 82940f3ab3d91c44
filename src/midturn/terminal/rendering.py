"""Draws questions, contexts and answers in listings, with the same rows and colours as in prompts."""

from __future__ import annotations

import os
from collections.abc import Iterable
from functools import cache, partial
from typing import TextIO

from rich.color import ColorSystem
from rich.style import Style as Ink

from midturn.events.prompt import Prompt
from midturn.terminal.ascii import as_ascii, ascii_row
from midturn.terminal.capabilities import STYLES, choose_look
from midturn.terminal.markdown.context import context_rows
from midturn.terminal.markdown.flow import MarkdownFlow
from midturn.terminal.markdown.layout import ASCII, UNICODE, Glyphs
from midturn.terminal.prompts.rich.pager import ContextRows
from midturn.terminal.prompts.rich.prompt import body
from midturn.terminal.prompts.rich.screen import Row, Span, Style


class Drawing:
    """Draws rows for one stream that is connected to a terminal.

    Rows contain only displayable characters and are at most as wide as requested.
    """

    def __init__(self, stream: TextIO) -> None:
        self._unicode = (stream.encoding or "utf-8").replace("-", "").lower() == "utf8"
        self._colours = choose_look("rich", os.environ).colours

    def prompt(self, prompt: Prompt, width: int) -> list[str]:
        """Return the rows above the question of a prompt."""
        return self._painted(body(prompt, width, self._context))

    def context(self, text: str, width: int) -> list[str]:
        """Return the rows of a context."""
        return self._painted(self._context(text, width))

    def words(self, text: str, width: int) -> list[str]:
        """Return the rows of a model's answer, drawn as they were during its turn."""
        flow = MarkdownFlow(lambda: width + 1, self._glyphs)
        shown = f"{flow.feed(text)}{flow.finish()}".rstrip("\n")
        return (shown if self._unicode else as_ascii(shown)).split("\n")

    @property
    def _glyphs(self) -> Glyphs:
        return UNICODE if self._unicode else ASCII

    @property
    def _context(self) -> ContextRows:
        return partial(context_rows, self._glyphs)

    def _painted(self, rows: Iterable[Row]) -> list[str]:
        return [
            "".join(map(self._written, spans if self._unicode else ascii_row(spans))).rstrip()
            for spans in rows
        ]

    def _written(self, span: Span) -> str:
        ink = _ink(span.style)
        return (ink if self._colours else ink.without_color).render(
            span.text, color_system=ColorSystem.STANDARD
        )


@cache
def _ink(style: Style) -> Ink:
    """Return a style in rich syntax."""
    words = STYLES.get(style, "").replace("ansibright", "bright_").replace("ansi", "")
    return Ink.parse(words.replace("brightblack", "bright_black"))
