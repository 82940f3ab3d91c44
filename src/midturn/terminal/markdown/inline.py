"""The words of one paragraph: emphasis, code, links with their targets in sight."""

from __future__ import annotations

import re
from collections.abc import Sequence

from markdown_it import MarkdownIt
from markdown_it.token import Token
from rich.style import Style
from rich.text import Text

from midturn.core.visible import exact, prose
from midturn.terminal.markdown.ink import CODE, DIM, EMPHASIS, LINK, PLAIN, STRONG

_PARSER = MarkdownIt("commonmark", {"html": False}).disable(["html_inline"])
_OPENS = re.compile(r"\*(?!\s)|(?<!\w)_(?!\s)|[`\[]|<(?=[A-Za-z/])|\\$|&#?\w*$")
_STYLES = {"strong_open": STRONG, "em_open": EMPHASIS, "link_open": LINK}


def styled(content: str, base: Style = PLAIN) -> Text:
    """Return the text that a source means; everything in it passed the one sink."""
    words = _Words(base)
    words.write(_tokens(content))
    return words.text


def is_whole(content: str) -> bool:
    """Tell whether nothing is open in a source that the words after it might close."""
    return not any(token.type == "text" and _OPENS.search(token.content) for token in _tokens(content))


def _tokens(content: str) -> Sequence[Token]:
    return _PARSER.parseInline(content)[0].children or ()


class _Words:
    """Writes tokens into a text."""

    def __init__(self, base: Style) -> None:
        self.text = Text()
        self._styles = [base]
        self._links: list[tuple[str, int]] = []

    def write(self, tokens: Sequence[Token]) -> None:
        for token in tokens:
            match token.type:
                case "softbreak":
                    self._add(" ")
                case "hardbreak":
                    self._add("\n")
                case "code_inline":
                    self._add(prose(token.content), CODE)
                case "image":
                    self._add(f"[image: {prose(token.content)}]")
                    self._target(str(token.attrs.get("src", "")), "")
                case _ if token.nesting > 0:
                    self._open(token)
                case _ if token.nesting < 0:
                    self._close(token)
                case _:
                    self._add(prose(token.content))

    def _open(self, token: Token) -> None:
        self._styles.append(self._styles[-1] + _STYLES.get(token.type, PLAIN))
        if token.type == "link_open":
            self._links.append((str(token.attrs.get("href", "")), len(self.text)))

    def _close(self, token: Token) -> None:
        self._styles.pop()
        if token.type == "link_close":
            href, start = self._links.pop()
            self._target(href, self.text.plain[start:])

    def _target(self, href: str, said: str) -> None:
        """Say where a link leads, unless its text does."""
        target = exact(href)
        if target not in {said, f"mailto:{said}"}:
            self._add(f" ({target})", DIM)

    def _add(self, text: str, style: Style = PLAIN) -> None:
        self.text.append(text, self._styles[-1] + style)
