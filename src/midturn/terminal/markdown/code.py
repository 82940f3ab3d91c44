"""Code with its words coloured, for any language that Pygments knows."""

from __future__ import annotations

import re

from rich.syntax import Syntax
from rich.text import Text

from midturn.core.visible import prose
from midturn.terminal.markdown.blocks import Code
from midturn.terminal.markdown.ink import HIGHLIGHTS

_TAB_STOP = 4
_LANGUAGE = re.compile(r"[A-Za-z][\w+#.-]{0,30}")
_MOST = 40_000  # characters: colours are not worth waiting for
_WIDEST = 2_000


def highlighted(block: Code) -> list[Text]:
    """Return the lines of a block; everything in them passed the one sink."""
    lines = [prose(line.expandtabs(_TAB_STOP)) for line in block.content]
    if not _is_worth_it(block.language, lines):
        return [Text(line) for line in lines]
    coloured = Syntax("", block.language, theme=HIGHLIGHTS, background_color=None).highlight("\n".join(lines))
    coloured.rstrip()
    found = coloured.split("\n", allow_blank=True)[: len(lines)]
    if [line.plain for line in found] == lines[: len(found)]:
        return [*found, *map(Text, lines[len(found) :])]
    return [Text(line) for line in lines]  # a lexer that changes the text


def _is_worth_it(language: str, lines: list[str]) -> bool:
    return _LANGUAGE.fullmatch(language) is not None and sum(map(len, lines)) < _MOST and max(map(len, lines), default=0) < _WIDEST
