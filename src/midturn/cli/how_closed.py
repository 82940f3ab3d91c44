"""How a question was closed, as a row of a listing says it: the answer, who gave it, and why."""

from __future__ import annotations

from collections.abc import Sequence

from midturn.core.events import (
    AnsweredBy,
    Approval,
    Event,
    InquiryAnswered,
    InquiryCancelled,
    InquiryRedacted,
    InquiryRequest,
    ToolCallResponse,
)
from midturn.core.form.steps import Cancelled
from midturn.core.turn.closed import decision_about, why_superseded
from midturn.terminal.told import answer_text, decision_text, reply_text, who_answered, who_decided

_HERE = "(answered at its terminal)"


def how_closed(events: Sequence[Event], question: str) -> str:
    """Say how the question whose request is the event `question` was closed; empty where its events do not tell."""
    decision = decision_about(events, question)
    elsewhere = why_superseded(events, question)
    if elsewhere:
        return f"({elsewhere})"
    match decision:
        case Approval():
            return f"{decision_text(decision)}  {who_decided(decision) or _HERE}"
        case InquiryAnswered() | InquiryRedacted():
            return f"{_answer(events, question, decision)}  {_who(decision)}"
        case InquiryCancelled(reason="reply"):
            return reply_text(_said(events, question, decision))
        case _:
            return ""


def _answer(events: Sequence[Event], question: str, decision: InquiryAnswered | InquiryRedacted) -> str:
    request = _request(events, question)
    return answer_text(request, decision) if request else ""


def _said(events: Sequence[Event], question: str, decision: InquiryCancelled) -> str:
    """Return what was said in place of an answer: it stands there, or in the result of the call."""
    said = (decision.metadata or {}).get("reply")
    request = _request(events, question)
    if said is not None or request is None:
        return str(said or "")
    result = next((event for event in events if isinstance(event, ToolCallResponse) and event.call == request.call), None)
    cancelled = Cancelled.read(result.content) if result else None
    return (cancelled.reply if cancelled else None) or ""


def _request(events: Sequence[Event], question: str) -> InquiryRequest | None:
    return next((event for event in events if isinstance(event, InquiryRequest) and event.event_id == question), None)


def _who(decision: InquiryAnswered | InquiryRedacted) -> str:
    who: AnsweredBy | None = decision.answered_by
    reason = decision.reason if isinstance(decision, InquiryAnswered) else None
    here = who is None or (who.by == "user" and who.via in (None, "terminal"))
    because = who_answered(who, reason)
    return f"{_HERE} {because}".rstrip() if here else because
