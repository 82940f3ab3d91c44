"""Styled text for Markdown in the 16 colours of the terminal's theme: inline text with links, and
highlighted code.

All untrusted text is escaped. A link is followed by its target, because a link's text can be
misleading.
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

CONSOLE = Console(
    force_terminal=True,
    color_system="standard",
    legacy_windows=False,
    markup=False,
    emoji=False,
    highlight=False,
)
"""Used only to convert text to segments. It does not print."""


def wrapped(text: Text, width: int) -> list[Text]:
    """Wrap text at line breaks and spaces."""
    return [
        line[start:end]
        for line in text.split("\n", allow_blank=True)
        for start, end in wrap_ranges(line.plain, width)
    ]


def cut(text: Text, width: int) -> list[Text]:
    """Split a line at the given width, even inside words."""
    return [text[start:end] for start, end in cut_ranges(text.plain, width)]


def ansi(text: Text) -> str:
    """Return a row with escape sequences, without trailing spaces."""
    text = text.copy()
    text.rstrip()
    return "".join(_written(segment.text, segment.style) for segment in text.render(CONSOLE))


def _written(text: str, style: Style | None) -> str:
    """Return a part of a row with escape sequences.

    A link is written as OSC 8, which makes it clickable.
    """
    if not style:
        return text
    shown = style.update_link(None).render(text, color_system=ColorSystem.STANDARD)
    return f"\x1b]8;;{style.link}\x1b\\{shown}\x1b]8;;\x1b\\" if style.link else shown


# Inline text ------------------------------------------------------------------------------------

_PARSER = MarkdownIt("commonmark", {"html": False}).disable(["html_inline"]).enable("strikethrough")
_STYLES = {"strong_open": STRONG, "em_open": EMPHASIS, "link_open": LINK, "s_open": STRUCK}
_SAFE_LINK = re.compile(r"https://[!-~]+")


def styled(content: str, base: Style = PLAIN) -> Text:
    """Return inline Markdown as styled text. The whole text is escaped."""
    words = _Words(base)
    words.write(_tokens(content))
    return words.text


def _tokens(content: str) -> Sequence[Token]:
    return _PARSER.parseInline(content)[0].children or ()


class _Words:
    """Converts the tokens of inline Markdown to styled text."""

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
            if _SAFE_LINK.fullmatch(
                href
            ):  # a safe address may be clickable; every address is displayed after the link
                self.text.stylize(Style(link=href), start)
            self._target(href, self.text.plain[start:])

    def _target(self, href: str, said: str) -> None:
        """Append the target of a link, unless the link's text is the target."""
        target = exact(href)
        if target not in {said, f"mailto:{said}"}:
            self._add(f" ({target})", DIM)

    def _add(self, text: str, style: Style = PLAIN) -> None:
        self.text.append(text, self._styles[-1] + style)


# Code -------------------------------------------------------------------------------------------

_TAB_STOP = 4
_LANGUAGE = re.compile(r"[A-Za-z][\w+#.-]{0,30}")
# minimum number of lines that are highlighted together; a passage ends before the next unindented
# line
_PASSAGE_LINES = 40
# maximum length of a highlighted line in characters, because highlighting long lines takes too
# long
_MAX_HIGHLIGHTED_LINE = 1_000


def highlighted(code: Sequence[str], language: str) -> list[Text]:
    """Return highlighted lines of code. The whole text is escaped."""
    lines = [prose(line.expandtabs(_TAB_STOP)) for line in code]
    if _LANGUAGE.fullmatch(language) is None:
        return [Text(line) for line in lines]
    return [line for passage in _passages(lines) for line in coloured(passage, language)]


def _passages(lines: Sequence[str]) -> Iterator[tuple[str, ...]]:
    """Split the lines into passages, so that only the last passage of growing code is highlighted
    again.
    """
    begin = 0
    for number, line in enumerate(lines):
        if number - begin >= _PASSAGE_LINES and line[:1].strip():
            yield tuple(lines[begin:number])
            begin = number
    yield tuple(lines[begin:])


@lru_cache(maxsize=256)
def coloured(lines: tuple[str, ...], language: str) -> Sequence[Text]:
    """Return escaped lines of code with colours."""
    if max(map(len, lines), default=0) <= _MAX_HIGHLIGHTED_LINE:
        text = Syntax("", language, theme=HIGHLIGHTS, background_color=None).highlight(
            "\n".join(lines)
        )
        found = list(text.split("\n", allow_blank=True)[: len(lines)])
        if (
            tuple(line.plain for line in found) == lines
        ):  # if the lexer changed the text, do not use its colours
            return found
    return [Text(line) for line in lines]
