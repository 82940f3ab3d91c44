"""Reads the events of each call in a played turn, for the world that reacts to them and for
comparison with the oracle.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import Any, NamedTuple, cast

from midturn.events.types import (
    Approval,
    Escalated,
    Event,
    InquiryAnswered,
    InquiryCancelled,
    InquiryRedacted,
    InquiryRequest,
    InquiryResponse,
    Reassigned,
    Reminded,
    ToolCallRequest,
    ToolCallResponse,
    Vote,
)
from midturn.question.answer_type import SecretType
from support.turn_bridge import plain, question
from support.turn_expected import Outcome, Pair
from support.turn_script import Ask, Called, asks_of

NOTES = (Vote, Reassigned, Reminded, Escalated)


class CallEvents(NamedTuple):
    """The events of one call: pairs of request and response, approvals, result."""

    asked: list[tuple[InquiryRequest, InquiryResponse | None]]
    approvals: list[Approval]
    response: ToolCallResponse | None


def calls_in(events: Sequence[Event]) -> list[str]:
    """Return the event IDs of the calls, in the order of the model."""
    return [event.event_id for event in events if isinstance(event, ToolCallRequest)]


def call_events(events: Sequence[Event], call: str) -> CallEvents:
    """Return the events of a call."""
    requests: list[InquiryRequest] = []
    responses: dict[str, InquiryResponse] = {}
    approvals: list[Approval] = []
    response: ToolCallResponse | None = None
    for event in events:  # a property test calls this hundreds of thousands of times
        match event:
            case InquiryRequest() if event.call == call:
                requests.append(event)
            case InquiryAnswered() | InquiryCancelled() | InquiryRedacted():
                responses[event.id] = event
            case Approval() if event.call == call:
                approvals.append(event)
            case ToolCallResponse() if event.call == call:
                response = response or event
            case _:
                pass
    asked = [(request, responses.get(request.id)) for request in requests]
    return CallEvents(asked, approvals, response)


def is_superseded(response: InquiryResponse | None) -> bool:
    """Return whether the tool continued without the answer."""
    return isinstance(response, InquiryCancelled) and response.reason == "superseded"


def _is_secret(request: InquiryRequest) -> bool:
    return isinstance(request.question.answer_type, SecretType)


@cache
def _key(ask: Ask) -> bytes:
    return question(ask).persisted().key


def ask_behind(called: Called, request: InquiryRequest, asked: CallEvents) -> tuple[Ask, int]:
    """Return the scripted question of a request, and how often it came up before. Of secrets,
    only Back counts.
    """
    first = next((r for r, _ in asked.asked if r.id == request.escalates), request)
    ask = next(
        a.bare
        for a in asks_of(called.program)
        if a.id == first.question_id and _key(a.bare) == first.question.key
    )
    time = 0
    for earlier, response in asked.asked:
        if earlier.id == first.id:
            break
        same = (
            earlier.question_id == first.question_id
            and earlier.question.key == first.question.key
            and not earlier.escalates
        )
        counts = not _is_secret(first) or (
            isinstance(response, InquiryCancelled) and response.reason == "back"
        )
        time += same and counts and not is_superseded(response)
    return ask, time


def pairs_of(called: Called, asked: CallEvents) -> list[Pair]:
    """Return the questions of a call with their outcomes, without secrets and abandoned
    questions.
    """
    return [
        Pair(
            request.question_id,
            bool(request.revises),
            bool(request.escalates),
            _outcome(called, request, response),
        )
        for request, response in asked.asked
        if not _is_secret(request) and not is_superseded(response)
    ]


def _outcome(called: Called, request: InquiryRequest, response: InquiryResponse | None) -> Outcome:
    match response:
        case InquiryAnswered(answer=answer, answered_by=who):
            by = who.by if who else ""
            remembers = any(
                ask.id == request.question_id and ask.remembers for ask in asks_of(called.program)
            )
            first = remembers and answer is True and by in ("user", "cached")
            return "answered", plain(answer), "person" if first else by
        case InquiryCancelled(reason=reason):
            return "cancelled", None, reason
        case _:
            return "open", None, ""


def secrets_in(asked: CallEvents) -> int:
    """Return the number of secrets given."""
    return sum(isinstance(response, InquiryRedacted) for _, response in asked.asked)


def decisions_of(called: Called, asked: CallEvents) -> list[tuple[str, str, str]]:
    """Return the decisions about running a call and delivering its result, with the responders."""
    permits = bool(called.tool and called.tool.permits)
    decided = [a for a in asked.approvals if a.state != "waiting" and a.kind != "review"]
    return [(a.kind, a.state, _decider(a, permits=permits)) for a in decided]


def _decider(approval: Approval, *, permits: bool) -> str:
    by = approval.answered_by.by if approval.answered_by else ""
    return "person" if permits and approval.kind == "run" and by in ("user", "cached") else by


def comparable(events: Sequence[Event]) -> list[dict[str, Any]]:
    """Return a stream without times, IDs, secrets and abandoned questions. The latter two may be
    asked again.
    """
    numbers: dict[str, Any] = {call: number for number, call in enumerate(calls_in(events))}
    gone: set[str] = set()
    for call in numbers:
        asked = call_events(events, call).asked
        gone |= {
            request.id
            for request, response in asked
            if _is_secret(request) or is_superseded(response)
        }
    lines: list[dict[str, Any]] = []
    for event in events:
        line = cast("dict[str, Any]", event.to_json())
        if event.type.startswith("inquiry_"):
            if line["id"] in gone:
                continue
            line |= {"id": "", "revises": "revises" in line, "escalates": "escalates" in line}
        elif event.type == "approval":
            line.pop("form", None)  # present only if a secret is asked again behind a form
        elif isinstance(event, NOTES):
            line["id"] = ""
        if "votes" in line:
            line["votes"] = len(line["votes"])
        line["call"] = numbers.get(line.get("call", ""))
        lines.append(
            {
                key: value
                for key, value in line.items()
                if key not in ("event_id", "more", "timestamp")
            }
        )
    return lines
