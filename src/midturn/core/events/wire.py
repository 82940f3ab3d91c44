"""How a response stands on the wire: one shape for all outcomes, the flat legacy form included."""

from __future__ import annotations

from msgspec import UNSET, UnsetType

from midturn.core.events.base import Event
from midturn.core.events.inquiry import (
    AnsweredBy,
    InquiryAnswered,
    InquiryCancelled,
    InquiryRedacted,
    InquiryResponse,
)
from midturn.core.json_value import Json


class BrokenRuleError(ValueError):
    """An event is of a known kind and breaks a rule that no type can say."""


class UnknownOutcomeError(ValueError):
    """A response has an outcome of a newer version: not wrong, merely unknown."""


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
