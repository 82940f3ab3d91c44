"""HTML from templates. Every string that a template prints passes the one sink for text, and is escaped."""

from __future__ import annotations

import hashlib
import re
import time
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from importlib.resources import files
from typing import Any, Final
from urllib.parse import quote

import nh3
from jinja2 import Environment, PackageLoader, StrictUndefined
from markdown_it import MarkdownIt
from markdown_it.renderer import RendererHTML
from markdown_it.token import Token
from markupsafe import Markup, escape
from starlette.requests import Request
from starlette.responses import HTMLResponse

from midturn.clock import now, parse_time
from midturn.events.open_question import OpenQuestion
from midturn.question.json_text import compact
from midturn.question.people import time_left
from midturn.question.text import exact, exact_block, prose
from midturn.terminal.prompts.answer_text import value_text
from midturn.terminal.prompts.changes import change_of, is_cut
from midturn.turn.view import cancelled, describe
from midturn.web.cards import card_of
from midturn.web.gate import has_shared_name
from midturn.web.schema_fields import SchemaField, each

# ----------------------------------------------------------------------------------------------------------------------
# Text from tools and models on its way into a page: made visible as on the terminal, read as Markdown without HTML, then cleaned again.
# Nothing in it acts: no element of it loads anything, links leave only by name and show where they lead, pictures are links.


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


STATIC: Final = files("midturn.web") / "static"
KEY_IN_FORMS: Final = "midturn.key_in_forms"
_MINUTE, _HOUR, _DAY = 60, 3_600, 86_400
_JUST_NOW = 45
_A_MOMENT: Final = "a moment"


def page(request: Request, template: str, values: Mapping[str, object], status: int = 200) -> HTMLResponse:
    """Return a page, or the part of one. A key in the scope goes on in its forms."""
    base = str(request.scope.get("root_path", "")).rstrip("/")
    key = str(request.scope.get(KEY_IN_FORMS, ""))
    common: dict[str, object] = {"base": base, "asset": f"{base}/static/{_VERSION}", "path": request.url.path, "key_field": _key_field(key)}
    common["is_shared"] = has_shared_name(request.scope)
    html = _ENVIRONMENT.get_template(template).render({**common, **values})
    return HTMLResponse(html, status)


def _key_field(key: str) -> Markup:
    """Return what a form holds on a page that was opened without scripts, and with a key."""
    return Markup('<input type="hidden" name="midturn_key" value="{}">').format(key) if key else Markup()


def version() -> str:
    """Return what the names of our style and script begin with: another one with every change of them."""
    return _VERSION


def ago(time: str) -> str:
    """Say how long something has been waiting."""
    since = parse_time(time)
    if since is None:
        return exact(time)
    return lasted((datetime.now(UTC) - since).total_seconds())


def when(time: str) -> Markup:
    """Say how long ago something was; the exact time is at hand."""
    at = parse_time(time)
    if at is None:
        return Markup("<time>{}</time>").format(exact(time))
    said = ago(time)
    words = "just now" if said == _A_MOMENT else f"{said} ago"
    return Markup('<time datetime="{}" title="{} UTC" data-since>{}</time>').format(time, at.strftime("%Y-%m-%d %H:%M:%S"), words)


def left(question: OpenQuestion) -> str:
    """Say how long there is left for an answer; empty where that has no end."""
    return time_left(now(), question.asked_at, question.deadline) if question.deadline else ""


def lasted(seconds: float) -> str:
    """Say how long something took, as people do."""
    if seconds < _JUST_NOW:
        return _A_MOMENT
    for unit, name in ((_DAY, "day"), (_HOUR, "hour"), (_MINUTE, "minute")):
        if seconds >= unit * 0.75:
            count = max(1, round(seconds / unit))
            return f"{count} {name}" + ("s" if count > 1 else "")
    return _A_MOMENT


def _since(begun: float) -> str:
    """Say how long ago something was, by the clock of this process."""
    return lasted(time.time() - begun)


def alone(question: OpenQuestion) -> bool:
    """Say whether only a person may answer."""
    return question.question.exclusive


def _code_line(text: str) -> Markup:
    """Show a line of a file character by character, blanks at its end included."""
    return Markup(_TRAILING.sub(_marked, str(escape(exact(text.removesuffix("\r")))))) + ("␍" if text.endswith("\r") else "")  # noqa: S704  escaped


def field_at(shown: object, pointer: str) -> SchemaField | None:
    """Return the field of a page's form that a problem is about; None where it is about all of it, or there is no form."""
    form = getattr(getattr(shown, "control", None), "form", None)
    return next((field for field in each(form) if field.pointer == pointer and pointer), None) if form else None


def _finalize(value: object) -> object:
    """Make every character of a text visible on its way into a page."""
    if isinstance(value, Markup) or not isinstance(value, str):
        return value
    return exact_block(value)


def _as_typed(text: str) -> Markup:
    """Escape what a person typed or is offered to send, and change nothing about it: a field must hold exactly that."""
    return escape(text)


def _as_part(id: str) -> str:
    """Write an id as a part of an address."""
    return quote(id, safe="")


def _environment() -> Environment:
    environment = Environment(
        loader=PackageLoader("midturn.web"),
        autoescape=True,
        undefined=StrictUndefined,
        finalize=_finalize,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters.update(
        ago=ago,
        lasted=lasted,
        since=_since,
        block=block,
        rich=rich_text,
        typed=_as_typed,
        by_whom=describe,
        cancelled=cancelled,
        json=compact,
        when=when,
        code_line=_code_line,
        part=_as_part,
    )
    functions: dict[str, Any] = {"value_text": value_text, "visible": exact_block, "alone": alone, "left": left}
    functions |= {"change_of": change_of, "is_cut": is_cut, "field_at": field_at, "card_of": card_of}
    environment.globals.update(functions)
    return environment


def _hash_of_files() -> str:
    contents = b"".join(file.read_bytes() for file in sorted(STATIC.iterdir(), key=lambda file: file.name))
    return hashlib.sha256(contents).hexdigest()[:12]


_ENVIRONMENT: Final = _environment()
_VERSION: Final = _hash_of_files()
