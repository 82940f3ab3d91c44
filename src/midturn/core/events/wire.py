"""How inquiries stand on the wire, where that is not what they are in memory (spec 1.4, 1.5)."""

from __future__ import annotations

from typing import Any

from msgspec import UNSET, UnsetType

from midturn.core.events.base import Event
from midturn.core.events.inquiry import (
    AnsweredBy,
    AskedForm,
    InquiryAnswered,
    InquiryCancelled,
    InquiryRedacted,
    InquiryRequest,
    InquiryResponse,
)
from midturn.core.json_value import Json
from midturn.core.question import PersistedQuestion
from midturn.core.source import Source


class BrokenRuleError(ValueError):
    """An event is of a known kind and breaks a rule that no type can say."""


class UnknownOutcomeError(ValueError):
    """A response has an outcome of a newer version: not wrong, merely unknown."""


class RequestWire(Event, frozen=True, kw_only=True, omit_defaults=True, tag_field="type", tag="inquiry_request"):
    """An `inquiry_request`, its question still as it is on disk."""

    id: str
    source: Source
    question: Any
    call: str = ""
    tool_call_id: str = ""
    question_id: str = ""
    escalates: str | None = None
    revises: str | None = None
    form: AskedForm | None = None

    def event(self) -> InquiryRequest:
        """Return the event, its question read as tolerantly as a stream is."""
        return InquiryRequest(
            timestamp=self.timestamp,
            event_id=self.event_id,
            more=self.more,
            metadata=self.metadata,
            id=self.id,
            source=self.source,
            question=PersistedQuestion.from_json(self.question),
            call=self.call,
            tool_call_id=self.tool_call_id,
            question_id=self.question_id,
            escalates=self.escalates,
            revises=self.revises,
            form=self.form,
        )


class ResponseWire(Event, frozen=True, kw_only=True, omit_defaults=True, tag_field="type", tag="inquiry_response"):
    """An `inquiry_response` of any outcome, the flat legacy form without one included."""

    id: str
    outcome: str | None = None
    answer: Json | UnsetType = UNSET
    answered_by: AnsweredBy | None = None
    reason: str | None = None
    remembered: bool = False

    def event(self) -> InquiryResponse:
        """Return the class of its outcome. What a `redacted` one has as `answer` stays behind.

        Raises:
            BrokenRuleError: It has neither `outcome` nor `answer`, or is `answered` without an answer.
            UnknownOutcomeError: The outcome is of a newer version.
        """
        match self.outcome:
            case "answered" | None:
                return self._answered()
            case "cancelled":
                reason = "user" if self.reason is None else self.reason
                return InquiryCancelled(
                    timestamp=self.timestamp, event_id=self.event_id, more=self.more, metadata=self.metadata, id=self.id, reason=reason
                )
            case "redacted":
                return InquiryRedacted(
                    timestamp=self.timestamp,
                    event_id=self.event_id,
                    more=self.more,
                    metadata=self.metadata,
                    id=self.id,
                    answered_by=self.answered_by,
                )
            case newer:
                raise UnknownOutcomeError(newer)

    def _answered(self) -> InquiryAnswered:
        if self.answer is UNSET:
            missing = "`answer`" if self.outcome else "`outcome` and `answer`"
            raise BrokenRuleError(f"{missing} is missing; a response is `answered` (with `answer`), `cancelled` or `redacted`")
        return InquiryAnswered(
            timestamp=self.timestamp,
            event_id=self.event_id,
            more=self.more,
            metadata=self.metadata,
            id=self.id,
            answer=self.answer,
            answered_by=self.answered_by,
            reason=self.reason,
            remembered=self.remembered,
        )
