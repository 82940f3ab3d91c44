"""Reasons why a question is closed, read from the record: the answer to a late answer, in the same words at every door."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from midturn.errors import AlreadyAnswered, Answerer, DeadlinePassed, NotOpen
from midturn.record.asker import Address
from midturn.record.events import AnsweredBy, Approval, Event, InquiryCancelled
from midturn.turn.view import TurnView

_CANCELLED: Final[Mapping[str, str]] = {
    "user": "its turn was ended",
    "reply": "a reply was given instead",
    "back": "an earlier question is asked again",
    "superseded": "it is not asked any more",
    "deadline": "its deadline has passed",
}


def why_closed(events: Sequence[Event], at: Address, now: str = "") -> AlreadyAnswered | NotOpen:
    """Return the error for an answer that comes too late, or to no question: `events` are of its conversation, or of its turn alone.

    A deadline that has passed by `now` counts, whether or not that is on record.
    """
    turn = TurnView.of(events, at.event_id)
    deadline = turn.deadlines.get(at.event_id) if now else None
    if deadline and deadline <= now and turn.asker is None:
        return past_deadline(at, deadline)
    if not turn.was_asked(at.event_id):
        return no_question(str(at))
    answer = turn.answer(at.event_id)
    if answer is None and (deadline := _passed(turn, at.event_id)):
        return past_deadline(at, deadline)
    if answer is None:
        return NotOpen(f"The question {at} is closed: {why_unanswered(turn, at.event_id)}.")
    return answered_before(at, answer.answered_by, answer.timestamp)


def past_deadline(at: Address, deadline: str) -> DeadlinePassed:
    """Return the error for an answer that comes after its question's deadline, whether or not that is on record."""
    return DeadlinePassed(f"The question {at} is closed: its deadline has passed, at {deadline}.", id=str(at), deadline=deadline)


def _passed(turn: TurnView, event_id: str) -> str:
    """Return the deadline at which a question is on record as over; empty where it is not."""
    decision = turn.decision(event_id)
    expired = isinstance(decision, InquiryCancelled) and decision.reason == "deadline"
    if decision is None or (not expired and not (isinstance(decision, Approval) and decision.state == "expired")):
        return ""
    asked = turn.attempt(event_id)
    return asked[0].deadline if asked and asked[0].deadline else decision.timestamp


def went_on(events: Sequence[Event], at: Address) -> NotOpen:
    """Return the error for a question that is not what its turn waits for, whatever was answered."""
    return NotOpen(f"The question {at} is closed: {_how_it_ended(TurnView.of(events, at.event_id))}.")


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


def why_unanswered(turn: TurnView, event_id: str) -> str:
    """Say why a question is closed that has no answer, in words that stand after a colon."""
    if elsewhere := why_superseded(turn, event_id):
        return elsewhere
    match turn.decision(event_id):
        case InquiryCancelled(reason=reason) if reason != "user":
            return cancelled(reason)
        case Approval(state="superseded" | "expired" as state):
            return cancelled("deadline" if state == "expired" else state)
        case Approval():
            return cancelled("reply")
        case _:
            return _how_it_ended(turn)


def why_superseded(turn: TurnView, event_id: str) -> str:
    """Say why a question of another agent is over that was not answered here; empty where it is not, or was not one.

    It may be over with nothing on record: once its hook must have ended, the agent's own dialog has it.
    """
    if turn.asker is None or not turn.was_asked(event_id):
        return ""
    told = next((response for _, response in turn.calls if response), None)
    match turn.decision(event_id):
        case None if told is None:
            return turn.asker.in_own_dialog if turn.asker.ends else ""
        case InquiryCancelled(reason="superseded") | Approval(state="superseded"):
            return told.content.removesuffix(".") if told else ""
        case _:
            return ""


def _how_it_ended(turn: TurnView) -> str:
    end = turn.record.ended
    if end is None:
        return "its turn goes on with something else"
    by = describe(end.ended_by)
    return f"its turn was ended by {by}" if by else "its turn was ended" if end.status == "ended_by_user" else "its turn is over"
