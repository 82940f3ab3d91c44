"""What a conversation recorded about its questions, in a form that a test can compare."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Protocol, TypeAlias, assert_never, cast

from msgspec import UNSET, Struct, UnsetType

from midturn.record.events import Event, InquiryAnswered, InquiryCancelled, InquiryRedacted, InquiryRequest, ToolCallRequest
from midturn.tools.returned import REDACTED
from midturn.turn.view import InquiryPair, pairs
from midturn.values.json_value import Json, json_equal


class HasEvents(Protocol):
    """A conversation, a journal: anything that holds events."""

    @property
    def events(self) -> Iterable[Event]:
        """Everything recorded, oldest first."""
        ...


HasRecord: TypeAlias = HasEvents | Iterable[Event]


class RecordedPair(Struct, frozen=True):
    """One question and its response. `question` is `<tool>.<question id>`; `outcome` is `answered`, `cancelled`, `redacted` or `open`.

    `reason` is the answer's explanation, or the tag of a cancelled response.

    Args:
        answer: The answer; `UNSET` where there is none.
        by: Who gave it: `user`, `assistant`, …
    """

    question: str
    outcome: str
    answer: Json | UnsetType = UNSET
    by: str | None = None
    reason: str | None = None


def recorded_pairs(source: HasRecord) -> list[RecordedPair]:
    """Return every question that was recorded, in order, with its response.

    Args:
        source: A conversation, or its events.
    """
    events = list(cast("HasEvents", source).events if hasattr(source, "events") else cast("Iterable[Event]", source))
    tools = {event.event_id: event.name for event in events if isinstance(event, ToolCallRequest)}
    return [_recorded(pair, tools) for pair in pairs(events)]


def assert_answers(source: HasRecord, expected: Mapping[str, Json]) -> None:
    """Fail unless exactly these questions were answered, in this order, with these answers; of several attempts the last counts.

    That a secret was given is stated as `midturn.REDACTED`, where anything is said of secrets at all.

    Args:
        source: A conversation, or its events.
        expected: The answers by `<tool>.<question id>`, in order.

    Raises:
        AssertionError: It shows what was recorded.
    """
    found = recorded_pairs(source)
    secrets = {pair.question for pair in found if pair.outcome == "redacted"} if REDACTED in expected.values() else set[str]()
    answered = {
        pair.question: REDACTED if pair.question in secrets else cast("Json", pair.answer)
        for pair in found
        if pair.outcome == "answered" or pair.question in secrets
    }
    if list(answered) != list(expected) or not json_equal(answered, expected):
        listing = "\n".join(f"  {pair}" for pair in found) or "  nothing"
        raise AssertionError(f"Expected the answers {dict(expected)!r}. Recorded was:\n{listing}")


def _recorded(pair: InquiryPair, tools: Mapping[str, str]) -> RecordedPair:
    request, response = pair
    question = f"{_tool(request, tools)}.{request.question_id}"
    match response:
        case None:
            return RecordedPair(question, "open")
        case InquiryAnswered(answer=answer, answered_by=by, reason=reason):
            return RecordedPair(question, "answered", answer, by.by if by else None, reason)
        case InquiryCancelled(reason=reason):
            return RecordedPair(question, "cancelled", reason=reason)
        case InquiryRedacted(answered_by=by):
            return RecordedPair(question, "redacted", by=by.by if by else None)
        case _ as other:
            assert_never(other)


def _tool(request: InquiryRequest, tools: Mapping[str, str]) -> str:
    return tools.get(request.call) or request.source.header
