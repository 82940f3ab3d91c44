"""A question that was asked, and its one response."""

from __future__ import annotations

from typing import Literal, TypeAlias

from msgspec import Struct

from midturn.core.events.base import Event, always
from midturn.core.json_value import Json
from midturn.core.question import PersistedQuestion
from midturn.core.source import Source


class AnsweredBy(Struct, frozen=True, omit_defaults=True):
    """Who answered: `user`, `assistant` (with `model`), `static` (with `origin`), `cached`, `default`; other tags are kept.

    `via` says how a person answered (`terminal`, `inbox`, `web`, `api`, `mcp`), `user` who it was, as the embedding program knows.
    """

    by: str
    model: str | None = None
    origin: str | None = None
    via: str | None = None
    user: str | None = None


class AskedForm(Struct, frozen=True):
    """The whole form as authored: on the first request of a form of several questions. `questions` are wire objects."""

    total: int
    questions: tuple[dict[str, Json], ...]


class InquiryRequest(Event, frozen=True, kw_only=True, omit_defaults=True, tag_field="type", tag="inquiry_request"):
    """A question, recorded before any decision about it. `call`, `tool_call_id` and `question_id` are absent in legacy streams."""

    id: str
    source: Source
    question: PersistedQuestion
    call: str = ""
    tool_call_id: str = ""
    question_id: str = ""
    escalates: str | None = None
    revises: str | None = None
    form: AskedForm | None = None


class InquiryAnswered(Event, frozen=True, kw_only=True, omit_defaults=True, tag_field="type", tag="inquiry_response"):
    """The answer, as the tool receives it. A redacted response has a class of its own: it cannot hold one."""

    outcome: Literal["answered"] = always("answered")
    id: str
    answer: Json
    answered_by: AnsweredBy | None = None
    reason: str | None = None
    remembered: bool = False


class InquiryCancelled(Event, frozen=True, kw_only=True, omit_defaults=True, tag_field="type", tag="inquiry_response"):
    """No answer. `reason` is a tag of docs/recording.md; a tag of a newer version is kept, and never produced."""

    outcome: Literal["cancelled"] = always("cancelled")
    id: str
    reason: str


class InquiryRedacted(Event, frozen=True, kw_only=True, omit_defaults=True, tag_field="type", tag="inquiry_response"):
    """A secret was answered; the answer was never written."""

    outcome: Literal["redacted"] = always("redacted")
    id: str
    answered_by: AnsweredBy | None = None


InquiryResponse: TypeAlias = InquiryAnswered | InquiryCancelled | InquiryRedacted
CancelReason: TypeAlias = Literal[
    "user",
    "backend_error",
    "no_prompt_backend",
    "assistant_routing_denied",
    "invalid_static_answer",
    "reply",
    "back",
    "detached_denied",
    "no_default",
    "limit_exceeded",
    "superseded",
]
