"""`conversation show --inquiries`: what was asked, by whom, who answered what, and why (spec 8.2)."""

from __future__ import annotations

import json

from midturn.cli.output import cell, say, say_json
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
from midturn.store.conversation import Conversation


def print_inquiries_json(conversation: Conversation) -> None:
    """Print every pair of request and response as JSON."""
    pairs: list[Json] = [
        {"request": request.to_json(), "response": response.to_json() if response else None} for request, response in conversation.pairs()
    ]
    say_json(pairs)


def print_inquiries(conversation: Conversation) -> None:
    """Draw the audit trail."""
    responses = {id(request): response for request, response in conversation.pairs()}
    tools: dict[str, str] = {}
    for event in conversation.events:
        if isinstance(event, ToolCallRequest):
            tools[event.event_id] = event.name
        for line in _lines(event, responses.get(id(event)), tools):
            say(line)


def _lines(event: Event, response: InquiryResponse | None, tools: dict[str, str]) -> list[str]:
    match event:
        case ChatRequest(content=content):
            return [f"Turn: {cell(content.splitlines()[0] if content else '')}"]
        case InquiryRequest():
            return _inquiry(event, response)
        case Approval(state="waiting"):
            return []
        case Approval():
            return _approval(event, tools.get(event.call, "?"))
        case _:
            return []


def _inquiry(request: InquiryRequest, response: InquiryResponse | None) -> list[str]:
    asked = f"  {_time(request)}  {cell(request.source.header)} asks: {cell(request.question.text)}"
    marks = [mark for mark, is_set in (("human only", request.question.exclusive), ("review", bool(request.escalates))) if is_set]
    return [asked + (f"  [{', '.join(marks)}]" if marks else ""), *(f"            {line}" for line in _outcome(response))]


def _outcome(response: InquiryResponse | None) -> list[str]:
    match response:
        case None:
            return ["waits for an answer"]
        case InquiryAnswered(answer=answer, answered_by=who, reason=reason):
            return [f"answered {cell(json.dumps(answer, ensure_ascii=False))}{_by(who)}", *_reason(reason)]
        case InquiryRedacted(answered_by=who):
            return [f"answered <redacted>{_by(who)}"]
        case InquiryCancelled(reason=reason):
            return [f"cancelled ({cell(reason)})"]


def _approval(approval: Approval, tool: str) -> list[str]:
    head = f"  {_time(approval)}  {cell(approval.kind)} {cell(tool)}: {cell(approval.state)}{_by(approval.answered_by)}"
    return [head, *(f"            {line}" for line in _reason(approval.reason))]


def _by(who: AnsweredBy | None) -> str:
    if who is None:
        return ""
    detail = who.model or who.origin or who.user
    via = f" via {cell(who.via)}" if who.via else ""
    return f" by {cell(who.by)}{f' {cell(detail)}' if detail else ''}{via}"


def _reason(reason: str | None) -> list[str]:
    return [f"reason: {cell(reason)}"] if reason else []


def _time(event: Event) -> str:
    try:
        return event.at.strftime("%H:%M:%S")
    except ValueError:
        return "--:--:--"
