"""Renders templates to HTML. Every printed string is sanitized and escaped."""

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
from midturn.events.types import Approval
from midturn.question.answer_type import BooleanType
from midturn.question.json_text import compact
from midturn.question.json_value import Json
from midturn.question.people import time_left
from midturn.question.persisted_question import PersistedQuestion
from midturn.question.text import exact, exact_block, prose
from midturn.terminal.prompts.answer_text import value_text
from midturn.terminal.prompts.changes import change_of, is_cut
from midturn.turn.view import describe
from midturn.web.cards import card_of
from midturn.web.request_checks import has_shared_name
from midturn.web.schema_fields import SchemaField, walk_fields

# --------------------------------------------------------------------------------------------------
# Text from tools and models is sanitized as on the terminal, rendered as Markdown without HTML, and
# cleaned again. The result is inert: it does not load anything, links show their URLs, and images
# are links.


_TAGS: Final = frozenset(
    "p br hr em strong s del code pre span blockquote ul ol li h3 h4 h5 h6 table thead tbody tr th"  # noqa: SIM905
    " td a".split()
)
_CLASSES: Final = {
    "pre": {"diff", "code"},
    "span": {"add", "del", "hunk", "file", "blank", "target"},
}
_SCHEMES: Final = frozenset({"http", "https", "mailto"})
_DIFF: Final = re.compile(r"^(?:diff --git |--- |\+\+\+ |@@ )", re.MULTILINE)
_TRAILING: Final = re.compile(r"[ ]+$")
_LOWEST_HEADING: Final = 6


def rich_text(text: str) -> Markup:
    """Return Markdown as safe HTML."""
    html = _MARKDOWN.render("\n".join(_visible(text)))
    return Markup(_clean(html))  # noqa: S704  cleaned HTML


def block(text: str) -> Markup:
    """Return text as HTML that displays every character. Diffs are coloured."""
    return Markup(_clean(_block(text, is_diff=looks_like_diff(text))))  # noqa: S704  cleaned HTML


def looks_like_diff(text: str) -> bool:
    """Return whether the text contains a unified diff."""
    return len(_DIFF.findall(text)) > 1


def _visible(text: str) -> list[str]:
    """Sanitize the lines of Markdown text.

    In code blocks, control and invisible characters become visible codes (`exact`). All other lines
    are sanitized with `prose`.
    """
    lines: list[str] = []
    in_code = False
    for line in text.rstrip("\n").split("\n"):
        begins_or_ends = line.lstrip().startswith("```")
        in_code ^= begins_or_ends
        lines.append(
            exact(line) if in_code and not begins_or_ends else prose(line.removesuffix("\r"))
        )
    return lines


def _clean(html: str) -> str:
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
    lines = "\n".join(
        _line(line, is_diff=is_diff) for line in exact_block(text.removesuffix("\n")).split("\n")
    )
    return f'<pre class="{"diff" if is_diff else "code"}"><code>{lines}</code></pre>'


def _line(line: str, *, is_diff: bool) -> str:
    # the first column of a diff is a marker
    first, rest = (line[:1], line[1:]) if is_diff else ("", line)
    shown = f"{escape(first)}{_TRAILING.sub(_mark_blanks, str(escape(rest)))}"
    kind = _line_kind(line) if is_diff else ""
    return f'<span class="{kind}">{shown}</span>' if kind else shown


def _mark_blanks(blanks: re.Match[str]) -> str:
    return f'<span class="blank">{blanks[0]}</span>'


def _line_kind(line: str) -> str:
    if line.startswith(("+++ ", "--- ", "diff --git ")):
        return "file"
    return {"+": "add", "-": "del", "@": "hunk"}.get(line[:1], "")


class _Renderer(RendererHTML):
    """Renders code blocks, links, images and headings."""

    def fence(self, tokens: Sequence[Token], idx: int, options: Any, env: Any) -> str:  # noqa: ARG002  signature of the library
        """Render a fenced code block. Its text is already sanitized."""
        token = tokens[idx]
        return _code_block(
            token.content,
            is_diff=token.info.strip().lower() == "diff" or looks_like_diff(token.content),
        )

    def code_block(self, tokens: Sequence[Token], idx: int, options: Any, env: Any) -> str:  # noqa: ARG002  signature of the library
        """Render an indented code block."""
        return _code_block(tokens[idx].content, is_diff=False)

    def link_close(self, tokens: Sequence[Token], idx: int, options: Any, env: Any) -> str:  # noqa: ARG002  signature of the library
        """Render the end of a link, followed by its URL."""
        opened = next(token for token in reversed(tokens[:idx]) if token.type == "link_open")
        return f"</a>{_target(str(opened.attrGet('href') or ''))}"

    def image(self, tokens: Sequence[Token], idx: int, options: Any, env: Any) -> str:  # noqa: ARG002  signature of the library
        """Render an image as a link to the image."""
        token = tokens[idx]
        source = str(token.attrGet("src") or "")
        return f'<a href="{escape(source)}">{escape(exact(token.content or "picture"))}</a>{_target(source)}'

    def heading_open(self, tokens: Sequence[Token], idx: int, options: Any, env: Any) -> str:  # noqa: ARG002  signature of the library
        """Render the opening tag of a heading, two levels below the level in the Markdown."""
        return f"<{_heading_tag(tokens[idx])}>"

    def heading_close(self, tokens: Sequence[Token], idx: int, options: Any, env: Any) -> str:  # noqa: ARG002  signature of the library
        """Render the closing tag of a heading."""
        return f"</{_heading_tag(tokens[idx])}>"


def _code_block(content: str, *, is_diff: bool) -> str:
    """Return a code block. Its text is already sanitized, so it is not escaped a second time."""
    lines = "\n".join(
        _line(line, is_diff=is_diff) for line in content.removesuffix("\n").split("\n")
    )
    return f'<pre class="{"diff" if is_diff else "code"}"><code>{lines}</code></pre>'


def _target(url: str) -> str:
    return f' <span class="target">({escape(exact(url))})</span>'


def _heading_tag(token: Token) -> str:
    return f"h{min(_LOWEST_HEADING, int(token.tag[1:]) + 2)}"


def _markdown() -> MarkdownIt:
    """Return a Markdown parser that accepts only absolute links. A relative link would lead to a
    page of midturn.
    """
    reader = MarkdownIt("commonmark", {"html": False}, renderer_cls=_Renderer).enable(
        ["table", "strikethrough"]
    )
    reader.validateLink = lambda url: url.partition(":")[0].lower() in _SCHEMES and ":" in url
    return reader


_MARKDOWN: Final = _markdown()


STATIC: Final = files("midturn.web") / "static"
KEY_IN_FORMS: Final = "midturn.key_in_forms"
_MINUTE, _HOUR, _DAY = 60, 3_600, 86_400
_JUST_NOW = 45
_A_MOMENT: Final = "a moment"
_CANCELLED_LABELS: Final = {
    "user": "The turn was stopped",
    "reply": "Replied without answering",
    "back": "An earlier question is asked again",
    "superseded": "No longer asked",
    "deadline": "Deadline passed. Nobody answered in time.",
}


def page(
    request: Request, template: str, values: Mapping[str, object], status: int = 200
) -> HTMLResponse:
    """Return a page, or a part of a page. If the ASGI scope contains a sign-in key (for browsers
    with JavaScript disabled), all forms contain it.
    """
    base = str(request.scope.get("root_path", "")).rstrip("/")
    key = str(request.scope.get(KEY_IN_FORMS, ""))
    common: dict[str, object] = {
        "base": base,
        "asset": f"{base}/static/{_VERSION}",
        "path": request.url.path,
        "key_field": _key_field(key),
    }
    common["is_shared"] = has_shared_name(request.scope)
    html = _ENVIRONMENT.get_template(template).render({**common, **values})
    return HTMLResponse(html, status)


def _key_field(key: str) -> Markup:
    """Return a hidden form field with the sign-in key, for browsers with JavaScript disabled."""
    return (
        Markup('<input type="hidden" name="midturn_key" value="{}">').format(key)
        if key
        else Markup()
    )


def version() -> str:
    """Return the hash that the URLs of static files contain. It changes when a file changes."""
    return _VERSION


def ago(time: str) -> str:
    """Return the time since `time` in words."""
    since = parse_time(time)
    if since is None:
        return exact(time)
    return lasted((datetime.now(UTC) - since).total_seconds())


def when(time: str) -> Markup:
    """Return the time since `time` as HTML, with the exact time as its title."""
    at = parse_time(time)
    if at is None:
        return Markup("<time>{}</time>").format(exact(time))
    said = ago(time)
    words = "just now" if said == _A_MOMENT else f"{said} ago"
    return Markup('<time datetime="{}" title="{} UTC" data-since>{}</time>').format(
        time, at.strftime("%Y-%m-%d %H:%M:%S"), words
    )


def left(question: OpenQuestion) -> str:
    """Return the time left to answer a question, or an empty string if it has no deadline."""
    return time_left(now(), question.asked_at, question.deadline) if question.deadline else ""


def answer_by(question: OpenQuestion) -> Markup:
    """Return the deadline of a question as HTML, with the time left:
    `Answer by 21:38 UTC · 48 min left`.
    """
    at = parse_time(question.deadline or "")
    if at is None:
        return Markup()
    has_today = at.date() == datetime.now(UTC).date()
    clock_time = at.astimezone(UTC).strftime("%H:%M UTC" if has_today else "%Y-%m-%d %H:%M UTC")
    return Markup('Answer by <time datetime="{}" data-deadline>{}</time> · {}').format(
        question.deadline, clock_time, left(question)
    )


def assignment(question: OpenQuestion, voters: Sequence[str] | None = None) -> str:
    """Return a phrase about who can answer a question, without a final period:
    `Needs 2 approvals from ops (0 so far)`.

    Args:
        question: An open question with an assignment.
        voters: Names of the people who approved, as displayed. Default: the recorded names.
    """
    assigned = question.whose
    if assigned is None:
        return ""
    approved = assigned.voters if voters is None else voters
    names = " or ".join(assigned.ask)
    is_restricted = assigned.eligible is not None and bool(names)
    source = f" from {names}" if is_restricted else ""
    missing = assigned.needed - len(approved)
    if assigned.needed == 1:
        return (
            f"Only {names} can answer this"
            if is_restricted
            else f"Assigned to {names}"
            if names
            else ""
        )
    if approved:
        more = "One more approval" if missing == 1 else f"{missing} more approvals"
        return f"Approved by {', '.join(approved)}. {more}{source} needed"
    return f"Needs {assigned.needed} approvals{source} (0 so far)"


def answer_label(question: PersistedQuestion, answer: Json) -> str:
    """Return the text that the page displays for an answer: `Yes` or `No` for a boolean."""
    asked = question.asked("answer")
    if isinstance(asked.answer_type, BooleanType) and isinstance(answer, bool):
        return "Yes" if answer else "No"
    return value_text(asked, answer)


def approval_label(decision: Approval) -> str:
    """Return the text that the page displays for the outcome of an approval."""
    match decision.state:
        case "approved":
            return "Approved"
        case "edited":
            return "Approved with changes"
        case "skipped":
            return cancelled_label("reply") if decision.is_reply else "Denied"
        case "expired":
            return cancelled_label("deadline")
        case state:
            return cancelled_label(state)


def cancelled_label(reason: str) -> str:
    """Return the text that the page displays for a question without an answer."""
    return _CANCELLED_LABELS.get(reason, f"Cancelled ({reason})")


def is_moment(seconds: float) -> bool:
    """Return whether a duration is too short to show."""
    return seconds < _JUST_NOW


def lasted(seconds: float) -> str:
    """Return a duration in words."""
    if seconds < _JUST_NOW:
        return _A_MOMENT
    for unit, name in ((_DAY, "day"), (_HOUR, "hour"), (_MINUTE, "minute")):
        if seconds >= unit * 0.75:
            count = max(1, round(seconds / unit))
            return f"{count} {name}" + ("s" if count > 1 else "")
    return _A_MOMENT


def _since(begun: float) -> str:
    """Return the time since `begun` (seconds since the epoch) in words."""
    return lasted(time.time() - begun)


def needs_human(question: OpenQuestion) -> bool:
    """Return whether only a person may answer a question."""
    return question.question.exclusive


def _code_line(text: str) -> Markup:
    """Return a line of a file as HTML, with every character and trailing spaces visible."""
    return Markup(_TRAILING.sub(_mark_blanks, str(escape(exact(text.removesuffix("\r")))))) + (  # noqa: S704  escaped
        "␍" if text.endswith("\r") else ""
    )


def field_at(shown: object, pointer: str) -> SchemaField | None:
    """Return the form field that has an error, by the JSON Pointer of the error. Return None if the
    error concerns the whole form, or if there is no form.
    """
    form = getattr(getattr(shown, "control", None), "form", None)
    return (
        next((field for field in walk_fields(form) if field.pointer == pointer and pointer), None)
        if form
        else None
    )


def _finalize(value: object) -> object:
    """Sanitize a string before it is inserted into a page."""
    if isinstance(value, Markup) or not isinstance(value, str):
        return value
    return exact_block(value)


def _escape_only(text: str) -> Markup:
    """Escape text without sanitizing it, because a field must contain exactly the typed text."""
    return escape(text)


def _as_url_part(id: str) -> str:
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
        typed=_escape_only,
        by_whom=describe,
        cancelled=cancelled_label,
        json=compact,
        when=when,
        code_line=_code_line,
        part=_as_url_part,
    )
    functions: dict[str, Any] = {
        "value_text": value_text,
        "visible": exact_block,
        "needs_human": needs_human,
        "left": left,
    }
    functions |= {
        "answer_by": answer_by,
        "assignment": assignment,
        "answer_label": answer_label,
        "approval_label": approval_label,
    }
    functions["is_moment"] = is_moment
    functions |= {
        "change_of": change_of,
        "is_cut": is_cut,
        "field_at": field_at,
        "card_of": card_of,
    }
    environment.globals.update(functions)
    return environment


def _hash_of_files() -> str:
    contents = b"".join(
        file.read_bytes() for file in sorted(STATIC.iterdir(), key=lambda file: file.name)
    )
    return hashlib.sha256(contents).hexdigest()[:12]


_ENVIRONMENT: Final = _environment()
_VERSION: Final = _hash_of_files()
