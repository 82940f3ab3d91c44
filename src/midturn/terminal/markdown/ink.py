"""Styled text of Markdown, in the 16 colours of the terminal's own theme: words with their emphasis and links, code with its colours.

Everything that becomes text here passes the one sink first; a link says where it leads, because its words need not.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from functools import lru_cache

from markdown_it import MarkdownIt
from markdown_it.token import Token
from pygments import token as kinds
from rich.color import ColorSystem
from rich.console import Console
from rich.style import Style
from rich.syntax import ANSISyntaxTheme, Syntax
from rich.text import Text

from midturn.question.text import exact, prose
from midturn.terminal.prompts.cells import cut_ranges, wrap_ranges

PLAIN = Style()
STRONG = Style(bold=True)
EMPHASIS = Style(italic=True)
HEADING = Style(bold=True, underline=True)
CODE = Style(color="yellow")
LINK = Style(color="cyan", underline=True)
MARKER = Style(color="cyan")
STRUCK = Style(strike=True)
DIM = Style(color="bright_black")

HIGHLIGHTS = ANSISyntaxTheme(
    {
        kinds.Comment: DIM,
        kinds.Keyword: Style(color="magenta"),
        kinds.Name.Function: Style(color="cyan"),
        kinds.Name.Class: Style(color="cyan"),
        kinds.Name.Tag: Style(color="cyan"),
        kinds.Name.Decorator: Style(color="cyan"),
        kinds.String: Style(color="green"),
        kinds.Number: Style(color="yellow"),
        kinds.Generic.Heading: STRONG,
        kinds.Generic.Subheading: Style(color="cyan"),
        kinds.Generic.Inserted: Style(color="green"),
        kinds.Generic.Deleted: Style(color="red"),
        kinds.Generic.Emph: EMPHASIS,
        kinds.Generic.Strong: STRONG,
    }
)

CONSOLE = Console(force_terminal=True, color_system="standard", legacy_windows=False, markup=False, emoji=False, highlight=False)
"""Only for turning renderables into segments: it prints nothing."""


def wrapped(text: Text, width: int) -> list[Text]:
    """Break a text at its line breaks and at spaces."""
    return [line[start:end] for line in text.split("\n", allow_blank=True) for start, end in wrap_ranges(line.plain, width)]


def cut(text: Text, width: int) -> list[Text]:
    """Break a line with every character kept."""
    return [text[start:end] for start, end in cut_ranges(text.plain, width)]


def ansi(text: Text) -> str:
    """Write a row out for the terminal, without spaces at its end."""
    text = text.copy()
    text.rstrip()
    return "".join(_written(segment.text, segment.style) for segment in text.render(CONSOLE))


def _written(text: str, style: Style | None) -> str:
    """Write a part of a row; the terminal opens a link whose address it is told (OSC 8)."""
    if not style:
        return text
    shown = style.update_link(None).render(text, color_system=ColorSystem.STANDARD)
    return f"\x1b]8;;{style.link}\x1b\\{shown}\x1b]8;;\x1b\\" if style.link else shown


# Words ------------------------------------------------------------------------------------------------------------------

_PARSER = MarkdownIt("commonmark", {"html": False}).disable(["html_inline"]).enable("strikethrough")
_STYLES = {"strong_open": STRONG, "em_open": EMPHASIS, "link_open": LINK, "s_open": STRUCK}
_SAFE_LINK = re.compile(r"https://[!-~]+")


def styled(content: str, base: Style = PLAIN) -> Text:
    """Return the text that a source means; everything in it passed the one sink."""
    words = _Words(base)
    words.write(_tokens(content))
    return words.text


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
            if _SAFE_LINK.fullmatch(href):  # nothing in it can act; the address is shown in any case
                self.text.stylize(Style(link=href), start)
            self._target(href, self.text.plain[start:])

    def _target(self, href: str, said: str) -> None:
        """Say where a link leads, unless its text does."""
        target = exact(href)
        if target not in {said, f"mailto:{said}"}:
            self._add(f" ({target})", DIM)

    def _add(self, text: str, style: Style = PLAIN) -> None:
        self.text.append(text, self._styles[-1] + style)


# Code -------------------------------------------------------------------------------------------------------------------

_TAB_STOP = 4
_LANGUAGE = re.compile(r"[A-Za-z][\w+#.-]{0,30}")
_PASSAGE = 40  # lines that are coloured together, up to the next line that is not indented
_WIDEST = 1_000  # characters of a line: colours are not worth waiting for


def highlighted(code: Sequence[str], language: str) -> list[Text]:
    """Return the lines of code; everything in them passed the one sink."""
    lines = [prose(line.expandtabs(_TAB_STOP)) for line in code]
    if _LANGUAGE.fullmatch(language) is None:
        return [Text(line) for line in lines]
    return [line for passage in _passages(lines) for line in coloured(passage, language)]


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
