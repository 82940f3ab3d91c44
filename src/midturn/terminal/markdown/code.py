"""Code with its words coloured, for any language that Pygments knows."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from functools import lru_cache

from rich.syntax import Syntax
from rich.text import Text

from midturn.core.visible import prose
from midturn.terminal.markdown.blocks import Code
from midturn.terminal.markdown.ink import HIGHLIGHTS

_TAB_STOP = 4
_LANGUAGE = re.compile(r"[A-Za-z][\w+#.-]{0,30}")
_PASSAGE = 40  # lines that are coloured together, up to the next line that is not indented
_WIDEST = 1_000  # characters of a line: colours are not worth waiting for


def highlighted(block: Code) -> list[Text]:
    """Return the lines of a block; everything in them passed the one sink."""
    lines = [prose(line.expandtabs(_TAB_STOP)) for line in block.content]
    if _LANGUAGE.fullmatch(block.language) is None:
        return [Text(line) for line in lines]
    return [line for passage in _passages(lines) for line in coloured(passage, block.language)]


def _passages(lines: Sequence[str]) -> Iterator[tuple[str, ...]]:
    """Yield the lines in passages: of code that grows, only the last is coloured again."""
    begin = 0
    for number, line in enumerate(lines):
        if number - begin >= _PASSAGE and line[:1].strip():
            yield tuple(lines[begin:number])
            begin = number
    yield tuple(lines[begin:])


@lru_cache(maxsize=256)
def coloured(lines: tuple[str, ...], language: str) -> Sequence[Text]:
    """Colour lines that are fit to be shown."""
    if max(map(len, lines), default=0) <= _WIDEST:
        text = Syntax("", language, theme=HIGHLIGHTS, background_color=None).highlight("\n".join(lines))
        found = list(text.split("\n", allow_blank=True)[: len(lines)])
        if tuple(line.plain for line in found) == lines:  # a lexer may change the text; then it goes without colours
            return found
    return [Text(line) for line in lines]
