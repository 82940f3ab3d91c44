"""Renders streamed Markdown and returns the visible text."""

from __future__ import annotations

import re
from collections.abc import Iterable

from midturn.terminal.markdown.flow import MarkdownFlow
from midturn.terminal.markdown.layout import UNICODE, Glyphs

SGR = re.compile(r"\x1b\[[0-9;]*m")


class Streamed:
    """A Markdown stream with a fake clock: a piece arrives every `pace` seconds."""

    def __init__(self, columns: int = 80, *, pace: float = 0.05, glyphs: Glyphs = UNICODE) -> None:
        self.columns = columns
        self.now = 0.0
        self.raw = ""
        self._pace = pace
        self._flow = MarkdownFlow(lambda: self.columns, glyphs, lambda: self.now)

    @property
    def seen(self) -> str:
        """The output so far, without colours."""
        return SGR.sub("", self.raw)

    @property
    def rows(self) -> list[str]:
        """The complete rows of the output so far."""
        return self.seen.split("\n")[:-1]

    def feed(self, *pieces: str) -> Streamed:
        """Feed pieces of text."""
        for piece in pieces:
            self.now += self._pace
            self.raw += self._flow.feed(piece)
        return self

    def wait(self, seconds: float) -> Streamed:
        """Let time pass without a piece."""
        self.now += seconds
        self.raw += self._flow.tick()
        return self

    def finish(self) -> Streamed:
        """End the message."""
        self.raw += self._flow.finish()
        return self


def seen(source: str, columns: int = 80) -> str:
    """Return the output for a whole message, without colours."""
    return Streamed(columns).feed(source).finish().seen


def in_pieces(source: str, lengths: Iterable[int]) -> list[str]:
    """Cut a text into pieces of these lengths, and the rest."""
    pieces: list[str] = []
    at = 0
    for length in lengths:
        pieces.append(source[at : at + length])
        at += length
    return [*pieces, source[at:]]
