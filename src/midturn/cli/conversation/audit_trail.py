"""`conversation show --inquiries`: what was asked, by whom, who answered what, and why."""

from __future__ import annotations

import json

from msgspec import UNSET

from midturn.cli.layout import table
from midturn.cli.output import say, say_json
from midturn.cli.shown import Shown, joined, line
from midturn.core.events import (
    AnsweredBy,
    Approval,
    ChatRequest,
    Event,
    InquiryAnswered,
    InquiryCancelled,
    InquiryRedacted,
    InquiryRequest,
    InquiryResponse,
    ToolCallRequest,
)
from midturn.core.json_value import Json
from midturn.core.stream import open_turn
from midturn.store.conversation import Conversation

_NOTHING = line("")
_WAITS = "waits for an answer"
_LEFT = "the turn ended without an answer"


def print_inquiries_json(conversation: Conversation) -> None:
    """Print every pair of request and response as JSON."""
    pairs: list[Json] = [
        {"request": request.to_json(), "response": response.to_json() if response else None} for request, response in conversation.pairs()
    ]
    say_json(pairs)


def print_inquiries(conversation: Conversation) -> None:
    """Draw the audit trail."""
    responses = {id(request): response for request, response in conversation.pairs()}
    tools = {event.event_id: event.name for event in conversation.events if isinstance(event, ToolCallRequest)}
    window = open_turn(conversation.events)
    waiting = {id(event) for event in window.events} if window else set[int]()
    for event in conversation.events:
        if isinstance(event, ChatRequest):
            say("Turn: {}", next(iter(event.content.splitlines()), ""))
        elif rows := _rows(event, responses.get(id(event)), tools, waiting):
            for text in table([(line("  {}", left), right) for left, right in rows]):
                say(text)


def _rows(event: Event, response: InquiryResponse | None, tools: dict[str, str], waiting: set[int]) -> list[tuple[Shown, Shown]]:
    match event:
        case InquiryRequest():
            details = [_asked(event), *(_outcome(response) if response else [line(_WAITS if id(event) in waiting else _LEFT)])]
        case Approval(state="waiting"):
            return []
        case Approval(kind=kind, state=state, answered_by=who, reason=reason):
            decided = line("{} {}: {}{}", kind, tools.get(event.call, "?"), state, _by(who))
            details = [decided, *_edited(event), *_reason(reason)]
        case _:
            return []
    return [(_time(event) if place == 0 else _NOTHING, detail) for place, detail in enumerate(details)]


def _asked(request: InquiryRequest) -> Shown:
    marks = [
        mark
        for mark, is_set in (("human only", request.question.exclusive), ("review", request.escalates), ("again", request.revises))
        if is_set
    ]
    shown_marks = line("  [{}]", joined(", ", marks)) if marks else _NOTHING
    return line("{} asks: {}{}", request.source.header, request.question.text, shown_marks)


def _outcome(response: InquiryResponse) -> list[Shown]:
    match response:
        case InquiryAnswered(answer=answer, answered_by=who, reason=reason):
            return [line("answered {}{}", json.dumps(answer, ensure_ascii=False), _by(who)), *_reason(reason)]
        case InquiryRedacted(answered_by=who):
            return [line("answered <redacted>{}", _by(who))]
        case InquiryCancelled(reason=reason):
            return [line("cancelled ({})", reason)]


def _by(who: AnsweredBy | None) -> Shown:
    if who is None:
        return _NOTHING
    if who.by == "cached":
        return line(" (remembered)")
    detail = who.model or who.origin or who.user
    return line(" by {}{}{}", who.by, line(" {}", detail) if detail else _NOTHING, line(" via {}", who.via) if who.via else _NOTHING)


def _edited(approval: Approval) -> list[Shown]:
    """Show what was run in place of the model's arguments."""
    if approval.state != "edited" or approval.kind != "run" or approval.arguments is UNSET:
        return []
    return [line("arguments: {}", json.dumps(approval.arguments, ensure_ascii=False))]


def _reason(reason: str | None) -> list[Shown]:
    return [line("reason: {}", reason)] if reason else []


def _time(event: Event) -> Shown:
    try:
        return line("{}", event.at.astimezone().strftime("%H:%M:%S"))
    except (ValueError, OverflowError):
        return line("--:--:--")
