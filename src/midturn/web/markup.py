"""Text from tools and models on its way into a page: made visible as on the terminal, read as Markdown without HTML, then cleaned again.

Nothing in it acts: no element of it loads anything, links leave only by name and show where they lead, pictures are links.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any, Final

import nh3
from markdown_it import MarkdownIt
from markdown_it.renderer import RendererHTML
from markdown_it.token import Token
from markupsafe import Markup, escape

from midturn.core.visible import exact, exact_block, prose

_TAGS: Final = frozenset(
    "p br hr em strong s del code pre span blockquote ul ol li h3 h4 h5 h6 table thead tbody tr th td a".split()  # noqa: SIM905
)
_CLASSES: Final = {"pre": {"diff", "code"}, "span": {"add", "del", "hunk", "file", "blank", "target"}}
_SCHEMES: Final = frozenset({"http", "https", "mailto"})
_DIFF: Final = re.compile(r"^(?:diff --git |--- |\+\+\+ |@@ )", re.MULTILINE)
_TRAILING: Final = re.compile(r"[ ]+$")
_LOWEST_HEADING: Final = 6


def rich_text(text: str) -> Markup:
    """Return Markdown as HTML that is safe to show."""
    html = _MARKDOWN.render("\n".join(_visible(text)))
    return Markup(_cleaned(html))  # noqa: S704  it is clean now


def block(text: str) -> Markup:
    """Return text that is shown character by character; what looks like a diff is coloured."""
    return Markup(_cleaned(_block(text, is_diff=looks_like_diff(text))))  # noqa: S704  as above


def looks_like_diff(text: str) -> bool:
    """Say whether lines of the text are those of a unified diff."""
    return len(_DIFF.findall(text)) > 1


def _visible(text: str) -> list[str]:
    """Make every character visible: prose as prose, code character by character."""
    lines: list[str] = []
    in_code = False
    for line in text.rstrip("\n").split("\n"):
        begins_or_ends = line.lstrip().startswith("```")
        in_code ^= begins_or_ends
        lines.append(exact(line) if in_code and not begins_or_ends else prose(line.removesuffix("\r")))
    return lines


def _cleaned(html: str) -> str:
    return nh3.clean(
        html,
        tags=set(_TAGS),
        attributes={"a": {"href"}, "ol": {"start"}},
        allowed_classes=_CLASSES,
        url_schemes=set(_SCHEMES),
        link_rel="noopener noreferrer nofollow",
        set_tag_attribute_values={"a": {"target": "_blank"}},
    )


def _block(text: str, *, is_diff: bool) -> str:
    lines = "\n".join(_line(line, is_diff=is_diff) for line in exact_block(text.removesuffix("\n")).split("\n"))
    return f'<pre class="{"diff" if is_diff else "code"}"><code>{lines}</code></pre>'


def _line(line: str, *, is_diff: bool) -> str:
    first, rest = (line[:1], line[1:]) if is_diff else ("", line)  # the first column of a diff is not text
    shown = f"{escape(first)}{_TRAILING.sub(_marked, str(escape(rest)))}"
    kind = _kind(line) if is_diff else ""
    return f'<span class="{kind}">{shown}</span>' if kind else shown


def _marked(blanks: re.Match[str]) -> str:
    """Make blanks at the end of a line visible."""
    return f'<span class="blank">{blanks[0]}</span>'


def _kind(line: str) -> str:
    if line.startswith(("+++ ", "--- ", "diff --git ")):
        return "file"
    return {"+": "add", "-": "del", "@": "hunk"}.get(line[:1], "")


class _Renderer(RendererHTML):
    """Writes fences, links, pictures and headings our way."""

    def fence(self, tokens: Sequence[Token], idx: int, options: Any, env: Any) -> str:  # noqa: ARG002  the library's signature
        """Write a block of code; the text in it is visible already."""
        token = tokens[idx]
        return _coded(token.content, is_diff=token.info.strip().lower() == "diff" or looks_like_diff(token.content))

    def code_block(self, tokens: Sequence[Token], idx: int, options: Any, env: Any) -> str:  # noqa: ARG002  as above
        """Write an indented block of code."""
        return _coded(tokens[idx].content, is_diff=False)

    def link_close(self, tokens: Sequence[Token], idx: int, options: Any, env: Any) -> str:  # noqa: ARG002  as above
        """End a link, and say where it leads."""
        opened = next(token for token in reversed(tokens[:idx]) if token.type == "link_open")
        return f"</a>{_target(str(opened.attrGet('href') or ''))}"

    def image(self, tokens: Sequence[Token], idx: int, options: Any, env: Any) -> str:  # noqa: ARG002  as above
        """Write a picture as a link to it."""
        token = tokens[idx]
        source = str(token.attrGet("src") or "")
        return f'<a href="{escape(source)}">{escape(exact(token.content or "picture"))}</a>{_target(source)}'

    def heading_open(self, tokens: Sequence[Token], idx: int, options: Any, env: Any) -> str:  # noqa: ARG002  as above
        """Begin a heading below those of the page."""
        return f"<{_lowered(tokens[idx])}>"

    def heading_close(self, tokens: Sequence[Token], idx: int, options: Any, env: Any) -> str:  # noqa: ARG002  as above
        """End it."""
        return f"</{_lowered(tokens[idx])}>"


def _coded(content: str, *, is_diff: bool) -> str:
    """Write a block whose text is visible already: a second time, its codes would be coded."""
    lines = "\n".join(_line(line, is_diff=is_diff) for line in content.removesuffix("\n").split("\n"))
    return f'<pre class="{"diff" if is_diff else "code"}"><code>{lines}</code></pre>'


def _target(url: str) -> str:
    return f' <span class="target">({escape(exact(url))})</span>'


def _lowered(token: Token) -> str:
    return f"h{min(_LOWEST_HEADING, int(token.tag[1:]) + 2)}"


def _markdown() -> MarkdownIt:
    """Return a reader of Markdown whose links are whole addresses: a relative one would lead to a page of ours."""
    reader = MarkdownIt("commonmark", {"html": False}, renderer_cls=_Renderer).enable(["table", "strikethrough"])
    reader.validateLink = lambda url: url.partition(":")[0].lower() in _SCHEMES and ":" in url
    return reader


_MARKDOWN: Final = _markdown()
