"""`conversation show --inquiries`: what was asked, by whom, who answered what, and why."""

from __future__ import annotations

import json
import sys

from msgspec import UNSET

from midturn.cli.conversation.transcript import asked_of, replied_at_review, words
from midturn.cli.output import Shown, joined, line, say, say_json, table, wrapped
from midturn.record.events import (
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
    ToolCallResponse,
)
from midturn.record.window import open_turn
from midturn.store.conversation import Conversation
from midturn.turn.view import calls
from midturn.values.json_value import Json

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
    trail = _Trail(conversation)
    for event in conversation.events:
        if isinstance(event, ChatRequest):
            trail.begin_turn()
            for row in wrapped(line("Turn: {}", next(iter(event.content.splitlines()), "")), sys.stdout, "  "):
                say(row)
        elif rows := trail.rows(event):
            for text in table([(line("  {}", left), right) for left, right in rows]):
                say(text)


class _Trail:
    """The events of a conversation, one after the other."""

    def __init__(self, conversation: Conversation) -> None:
        self._pairs = conversation.pairs()
        self._responses = {id(request): response for request, response in self._pairs}
        self._requests = {response.event_id: request for request, response in self._pairs if response}
        self._calls = {event.event_id: event for event in conversation.events if isinstance(event, ToolCallRequest)}
        self._results = {call.event_id: response for call, response in calls(conversation.events)}
        window = open_turn(conversation.events)
        self._waiting = {id(event) for event in window.events} if window else set[int]()
        self._remembered: dict[tuple[str, str], Event] = {}

    def begin_turn(self) -> None:
        """Forget what was remembered: it was so for its turn."""
        self._remembered.clear()

    def rows(self, event: Event) -> list[tuple[Shown, Shown]]:
        """Return the rows of one event, the first of them with its time."""
        return [(_time(event) if place == 0 else _NOTHING, detail) for place, detail in enumerate(self._details(event))]

    def _details(self, event: Event) -> list[Shown]:
        match event:
            case InquiryRequest():
                response = self._responses.get(id(event))
                return [_asked(event), *(self._outcome(event, response) if response else [self._unanswered(event)])]
            case InquiryAnswered(remembered=True) if request := self._requests.get(event.event_id):
                self._remembered[self._tool(request.call), request.question_id] = request
                return []
            case Approval(state="waiting"):
                return []
            case Approval():
                return self._decided(event)
            case ToolCallResponse() if call := self._calls.get(event.call):
                cancelled = replied_at_review(call, asked_of(call, self._pairs), event)
                return [line("review {}: replied to", call.name), *_reply(cancelled.reply or "")] if cancelled else []
            case _:
                return []

    def _tool(self, call: str) -> str:
        return self._calls[call].name if call in self._calls else ""

    def _unanswered(self, request: InquiryRequest) -> Shown:
        return line(_WAITS if id(request) in self._waiting else _LEFT)

    def _outcome(self, request: InquiryRequest, response: InquiryResponse) -> list[Shown]:
        match response:
            case InquiryAnswered(answer=answer, answered_by=who, reason=reason):
                by = self._by(who, (self._tool(request.call), request.question_id))
                return [line("answered {}{}", json.dumps(answer, ensure_ascii=False), by), *_reason(reason)]
            case InquiryRedacted(answered_by=who):
                return [line("answered <redacted>{}", self._by(who))]
            case InquiryCancelled(reason="reply"):
                return [line("cancelled (reply)"), *_reply(words(response, self._results.get(request.call)))]
            case InquiryCancelled(reason=reason):
                return [line("cancelled ({})", reason)]

    def _decided(self, approval: Approval) -> list[Shown]:
        tool = self._tool(approval.call)
        if approval.is_reply:
            return [line("review {}: replied to{}", tool or "?", self._by(approval.answered_by)), *_reply(approval.reason or "")]
        decided = line("{} {}: {}{}", approval.kind, tool or "?", approval.state, self._by(approval.answered_by, (tool, "")))
        if approval.remembered:
            self._remembered[tool, ""] = approval
        return [decided, *_edited(approval), *_reason(approval.reason)]

    def _by(self, who: AnsweredBy | None, remembered: tuple[str, str] = ("", "")) -> Shown:
        """Say who answered; of what was remembered, since when: the time of the row that tells of it."""
        if who is None:
            return _NOTHING
        if who.by == "cached":
            since = self._remembered.get(remembered)
            return line(" (remembered from {})", _time(since)) if since else line(" (remembered)")
        detail = who.model or who.origin or who.name or who.user
        return line(" by {}{}{}", who.by, line(" {}", detail) if detail else _NOTHING, line(" via {}", who.via) if who.via else _NOTHING)


def _asked(request: InquiryRequest) -> Shown:
    marks = [
        mark
        for mark, is_set in (("human only", request.question.exclusive), ("review", request.escalates), ("again", request.revises))
        if is_set
    ]
    shown_marks = line("  [{}]", joined(", ", marks)) if marks else _NOTHING
    return line("{} asks: {}{}", request.source.header, request.question.text, shown_marks)


def _edited(approval: Approval) -> list[Shown]:
    """Show what was run in place of the model's arguments."""
    if approval.state != "edited" or approval.kind != "run" or approval.arguments is UNSET:
        return []
    return [line("arguments: {}", json.dumps(approval.arguments, ensure_ascii=False))]


def _reason(reason: str | None) -> list[Shown]:
    return [line("reason: {}", reason)] if reason else []


def _reply(said: str) -> list[Shown]:
    return [line("reply: {}", said)] if said else []


def _time(event: Event) -> Shown:
    try:
        return line("{}", event.at.astimezone().strftime("%H:%M:%S"))
    except (ValueError, OverflowError):
        return line("--:--:--")
