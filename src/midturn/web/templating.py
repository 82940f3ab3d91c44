"""HTML from templates. Every string that a template prints passes the one sink for text, and is escaped."""

from __future__ import annotations

import hashlib
import time
from collections.abc import Mapping
from datetime import UTC, datetime
from importlib.resources import files
from typing import Any, Final
from urllib.parse import quote

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup, escape
from starlette.requests import Request
from starlette.responses import HTMLResponse

from midturn.core.json_text import compact
from midturn.core.stream import OpenQuestion
from midturn.core.turn.closed import cancelled, describe
from midturn.core.visible import exact, exact_block, worded
from midturn.prompts.answer_text import value_text
from midturn.web.markup import block, rich_text

STATIC: Final = files("midturn.web") / "static"
KEY_IN_FORMS: Final = "midturn.key_in_forms"
_MINUTE, _HOUR, _DAY = 60, 3_600, 86_400
_JUST_NOW = 45


def page(request: Request, template: str, values: Mapping[str, object], status: int = 200) -> HTMLResponse:
    """Return a page, or the part of one. A key in the scope goes on in its forms."""
    base = str(request.scope.get("root_path", "")).rstrip("/")
    key = str(request.scope.get(KEY_IN_FORMS, ""))
    common = {"base": base, "asset": f"{base}/static/{_VERSION}", "path": request.url.path, "key_field": _key_field(key)}
    html = _ENVIRONMENT.get_template(template).render({**common, **values})
    return HTMLResponse(html, status)


def _key_field(key: str) -> Markup:
    """Return what a form holds on a page that was opened without scripts, and with a key."""
    return Markup('<input type="hidden" name="midturn_key" value="{}">').format(key) if key else Markup()


def version() -> str:
    """Return what the names of our style and script begin with: another one with every change of them."""
    return _VERSION


def moment(time: str) -> datetime | None:
    """Read a recorded time."""
    try:
        return datetime.fromisoformat(time).astimezone(UTC)
    except (ValueError, OverflowError):
        return None


def ago(time: str) -> str:
    """Say how long something has been waiting."""
    since = moment(time)
    if since is None:
        return exact(time)
    return lasted((datetime.now(UTC) - since).total_seconds())


def lasted(seconds: float) -> str:
    """Say how long something took, as people do."""
    if seconds < _JUST_NOW:
        return "a moment"
    for unit, name in ((_DAY, "day"), (_HOUR, "hour"), (_MINUTE, "minute")):
        if seconds >= unit * 0.75:
            count = max(1, round(seconds / unit))
            return f"{count} {name}" + ("s" if count > 1 else "")
    return "a moment"


def _since(begun: float) -> str:
    """Say how long ago something was, by the clock of this process."""
    return lasted(time.time() - begun)


def alone(question: OpenQuestion) -> bool:
    """Say whether only a person may answer."""
    return question.question.exclusive


def _finalize(value: object) -> object:
    """Make every character of a text visible on its way into a page."""
    if isinstance(value, Markup) or not isinstance(value, str):
        return value
    return exact_block(value)


def _as_typed(text: str) -> Markup:
    """Escape what a person typed or is offered to send, and change nothing about it: a field must hold exactly that."""
    return escape(text)


def _as_words(text: str) -> Markup:
    """Show the text of a question: words for people, with the joiners that they need."""
    return escape(worded(text))


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
        words=_as_words,
        lasted=lasted,
        since=_since,
        block=block,
        rich=rich_text,
        typed=_as_typed,
        by_whom=describe,
        cancelled=cancelled,
        json=compact,
        part=_as_part,
    )
    functions: dict[str, Any] = {"value_text": value_text, "visible": exact_block, "alone": alone}
    environment.globals.update(functions)
    return environment


def _hash_of_files() -> str:
    contents = b"".join(file.read_bytes() for file in sorted(STATIC.iterdir(), key=lambda file: file.name))
    return hashlib.sha256(contents).hexdigest()[:12]


_ENVIRONMENT: Final = _environment()
_VERSION: Final = _hash_of_files()
