"""Reasons why a question is closed, read from the record: the answer to a late answer, in the same words at every door."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from midturn.errors import AlreadyAnswered, Answerer, DeadlinePassed, NotOpen
from midturn.record.asker import Address, asker_of
from midturn.record.events import (
    AnsweredBy,
    Approval,
    Event,
    InquiryAnswered,
    InquiryCancelled,
    InquiryRedacted,
    InquiryRequest,
    InquiryResponse,
    ToolCallResponse,
    TurnEnd,
)
from midturn.record.window import pairs

_CANCELLED: Final[Mapping[str, str]] = {
    "user": "its turn was ended",
    "reply": "a reply was given instead",
    "back": "an earlier question is asked again",
    "superseded": "it is not asked any more",
    "deadline": "its deadline has passed",
}


def why_closed(events: Sequence[Event], at: Address) -> AlreadyAnswered | NotOpen:
    """Return the error for an answer that comes too late, or to no question: `events` are of its conversation, or of its turn alone."""
    if not was_asked(events, at.event_id):
        return no_question(str(at))
    answer = answer_to(events, at.event_id)
    if answer is None and (deadline := passed(events, at.event_id)):
        return past_deadline(at, deadline)
    if answer is None:
        return NotOpen(f"The question {at} is closed: {why_unanswered(events, at.event_id)}.")
    return answered_before(at, answer.answered_by, answer.timestamp)


def past_deadline(at: Address, deadline: str) -> DeadlinePassed:
    """Return the error for an answer that comes after its question's deadline, whether or not that is on record."""
    return DeadlinePassed(f"The question {at} is closed: its deadline has passed, at {deadline}.", id=str(at), deadline=deadline)


def passed(events: Sequence[Event], event_id: str) -> str:
    """Return the deadline at which a question is on record as over; empty where it is not."""
    decision = decision_about(events, event_id)
    expired = isinstance(decision, InquiryCancelled) and decision.reason == "deadline"
    if not expired and not (isinstance(decision, Approval) and decision.state == "expired"):
        return ""
    asked = next((e for e in events if isinstance(e, InquiryRequest | Approval) and e.event_id == event_id), None)
    return asked.deadline if asked and asked.deadline else decision.timestamp if decision else ""


def went_on(events: Sequence[Event], at: Address) -> NotOpen:
    """Return the error for a question that is not what its turn waits for, whatever was answered."""
    return NotOpen(f"The question {at} is closed: {_how_its_turn_ended(events, at.event_id)}.")


def no_question(id: str) -> NotOpen:
    """Return the error for the id of no question."""
    return NotOpen(f"There is no question {id!r}.")


def answered_before(at: Address, by: AnsweredBy | None, when: str) -> AlreadyAnswered:
    """Return the error for an answer that comes after that of `by`."""
    who = describe(by)
    answerer = Answerer(by.user or by.model or by.name or by.by if by else "", by.via if by else None, when)
    first = f", by {who}" if who else ""
    return AlreadyAnswered(f"The question {at} was answered before{first}. That answer stands.", who, answered_by=answerer)


def describe(by: AnsweredBy | None) -> str:
    """Say who answered, for a person; empty where that is not on record."""
    match by:
        case None:
            return ""
        case AnsweredBy(by="user"):
            name = by.user or "a person"
        case AnsweredBy(by="policy"):
            name = f"the policy {by.name}" if by.name else "a policy"
        case AnsweredBy(by="static" | "configuration"):
            name = f"the configuration ({by.origin})" if by.origin else "the configuration"
        case _:
            name = {"assistant": by.model or "an assistant", "cached": "an earlier answer", "default": "the default"}.get(by.by, by.by)
    return f"{name} ({by.via})" if by.via else name


def cancelled(reason: str) -> str:
    """Say why a question was cancelled, in words that stand after a colon."""
    return _CANCELLED.get(reason, f"it was cancelled ({reason})")


def why_unanswered(events: Sequence[Event], event_id: str) -> str:
    """Say why a question is closed that has no answer, in words that stand after a colon."""
    decision, elsewhere = decision_about(events, event_id), why_superseded(events, event_id)
    if elsewhere:
        return elsewhere
    match decision:
        case InquiryCancelled(reason=reason) if reason != "user":
            return cancelled(reason)
        case Approval(state="superseded" | "expired" as state):
            return cancelled("deadline" if state == "expired" else state)
        case Approval():
            return cancelled("reply")
        case _:
            return _how_its_turn_ended(events, event_id)


def decision_about(events: Sequence[Event], event_id: str) -> InquiryResponse | Approval | None:
    """Return how a question was closed; None while it is open, or where there is none."""
    for request, response in pairs(events):
        if request.event_id == event_id:
            return response
    approvals = [event for event in events if isinstance(event, Approval)]
    waiting = next((approval.id for approval in approvals if approval.event_id == event_id), None)
    return next((approval for approval in approvals if approval.id == waiting and approval.state != "waiting"), None)


def answer_to(events: Sequence[Event], event_id: str) -> InquiryAnswered | InquiryRedacted | Approval | None:
    """Return the answer to a question; None of one that is open, was withdrawn or replied to, or was decided where that is not seen."""
    match decision_about(events, event_id):
        case Approval() as decision if decision.state in ("superseded", "expired") or decision.is_reply:
            return None
        case InquiryCancelled():
            return None
        case decision:
            return decision


def why_superseded(events: Sequence[Event], event_id: str) -> str:
    """Say why a question of another agent is over that was not answered here; empty where it is not, or was not one.

    It may be over with nothing on record: once its hook must have ended, the agent's own dialog has it.
    """
    asker, decision = asker_of(events), decision_about(events, event_id)
    if asker is None or not was_asked(events, event_id):
        return ""
    match decision:
        case None if not any(isinstance(event, ToolCallResponse) for event in events):
            return asker.in_own_dialog if asker.ends else ""
        case InquiryCancelled(reason="superseded") | Approval(state="superseded"):
            return next((event.content.removesuffix(".") for event in events if isinstance(event, ToolCallResponse)), "")
        case _:
            return ""


def was_asked(events: Iterable[Event], event_id: str) -> bool:
    """Say whether there is such a question, open or not."""
    return any(isinstance(event, InquiryRequest | Approval) and event.event_id == event_id for event in events)


def _how_its_turn_ended(events: Sequence[Event], event_id: str) -> str:
    asked = next((place for place, event in enumerate(events) if event.event_id == event_id), len(events))
    end = next((event for event in events[asked:] if isinstance(event, TurnEnd)), None)
    if end is None:
        return "its turn goes on with something else"
    by = describe(end.ended_by)
    return f"its turn was ended by {by}" if by else "its turn was ended" if end.status == "ended_by_user" else "its turn is over"
