"""`conversation show`: what was said and done. Each call stands with what was asked about it, who answered what, and its result."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable
from typing import TypeAlias

from msgspec import UNSET

from midturn.cli.output import Shown, block, indented, joined, line, presented, say, spoken, wrapped
from midturn.prompts.body import argument_lines
from midturn.question.persisted_question import PersistedQuestion
from midturn.question.walker import Cancelled
from midturn.record.events import (
    Approval,
    ChatRequest,
    ChatResponse,
    Event,
    InquiryAnswered,
    InquiryCancelled,
    InquiryRequest,
    InquiryResponse,
    ToolCallRequest,
    ToolCallResponse,
    TurnEnd,
)
from midturn.record.exchange import ToolCall
from midturn.record.prompt import approval_text, asked_text
from midturn.record.window import Window, agreed_before
from midturn.terminal.told import answer_text, decision_text, label, reply_text, who_answered, who_decided
from midturn.turn.view import calls, pairs
from midturn.values.json_value import Json
from midturn.values.text import ASK_USER, exact

# ----------------------------------------------------------------------------------------------------------------------
# Words in place of an answer, recorded with the question or in the result of the call


Responses: TypeAlias = Iterable[InquiryResponse | None]
"""The responses to what a call asked; None where a question has none."""


def is_reply(response: InquiryResponse | None) -> bool:
    """Tell whether a question was replied to."""
    return isinstance(response, InquiryCancelled) and response.reason == "reply"


def words(response: InquiryResponse, result: ToolCallResponse | None) -> str:
    """Return the words of a reply to a question; empty where there were none."""
    said = (response.metadata or {}).get("reply")
    if isinstance(said, str):
        return said
    cancelled = _marker(result)
    return (cancelled.reply or "") if cancelled else ""


def replied_at_review(call: ToolCallRequest, responses: Responses, result: ToolCallResponse | None) -> Cancelled | None:
    """Return what was said at the review of a form, where its answers were not sent.

    The result of the call is all that tells of it. So this is said of `ask_user` only: another tool may write what it likes.
    """
    if call.name != ASK_USER or any(is_reply(response) for response in responses):
        return None
    return _marker(result)


def says_no_more(responses: Responses, result: ToolCallResponse | None) -> bool:
    """Tell whether a result holds nothing but the reply and the answers that stand with their questions."""
    return any(is_reply(response) for response in responses) and _marker(result) is not None


def asked_of(call: ToolCallRequest, pairs: Iterable[tuple[InquiryRequest, InquiryResponse | None]]) -> list[InquiryResponse | None]:
    """Return the responses to what a call asked, in order."""
    return [response for request, response in pairs if request.call == call.event_id]


def _marker(result: ToolCallResponse | None) -> Cancelled | None:
    """Read the result of a call that a reply has completed."""
    return None if result is None or result.is_error else Cancelled.read(result.content)


_TEXT, _RESULT, _ERROR, _DETAIL = line("  "), line("  | "), line("  ! "), line("      ")
_HANG = "      "
_UNANSWERED = {"user": "(end turn)"}
_GONE_BACK = ("back", "superseded")


def print_transcript(turns: Iterable[Window]) -> None:
    """Print what was said, done, asked and answered, turn by turn as they are read."""
    for turn in turns:
        transcript = _Transcript(turn)
        for event in turn.events:
            for row in transcript.rows(event):
                say(row)


class _Transcript:
    """The events of a turn, looked up by call."""

    def __init__(self, turn: Window) -> None:
        events = turn.events
        self._inquiries = pairs(events)
        self._revised = {request.revises for request, _ in self._inquiries if request.revises}
        self._approvals = [event for event in events if isinstance(event, Approval)]
        self._agreed = agreed_before(events)
        self._results = {call.event_id: response for call, response in calls(events)}
        self._shown = {response.event_id for response in self._results.values() if response}
        self._open = {event.event_id for event in events} if turn.open else set[str]()

    def rows(self, event: Event) -> Iterable[Shown]:  # noqa: PLR0911  one return a kind of event
        """Return the rows of an event; of a call all that belongs to it, its result included."""
        match event:
            case ChatRequest(content=content, author=author):
                return [line("{}:", author or "You"), *indented(spoken(content), _TEXT), line("")]
            case ChatResponse(message=str(message)):
                return [line("Assistant:"), *indented(spoken(message), _TEXT), line("")]
            case ChatResponse(structured=structured) if structured is not UNSET:
                return [line("Assistant:"), *indented(block(json.dumps(structured, ensure_ascii=False, indent=2)), _TEXT), line("")]
            case ToolCallRequest():
                return [*self._call(event), *self._asked(event), *self._result(event), line("")]
            case ToolCallResponse() if event.event_id not in self._shown:
                return [*_result_rows(event), line("")]
            case TurnEnd(status="failed", error=error):
                return [line("The turn failed: {}", error or ""), line("")]
            case TurnEnd(status="ended_by_user"):
                return [line("The turn was ended by the user."), line("")]
            case _:
                return []

    def _call(self, event: ToolCallRequest) -> list[Shown]:
        """Name a call, with its arguments below it; what a question shows of them is not shown twice."""
        call = ToolCall(event.event_id, event.id, event.name, event.arguments)
        asked = [request for request, _ in self._inquiries if request.call == event.event_id]
        foretold = [approval for approval in self._approvals if approval.call == event.event_id and approval.question]
        if event.name == ASK_USER and asked:
            return _hanging(line("· {}", event.name))
        if any(request.question and request.question.context for request in (*asked, *foretold)):
            return _hanging(line("· {}", presented(label(call))))
        return [*_hanging(line("· {}", event.name)), *_details(argument_lines(call))]

    def _asked(self, call: ToolCallRequest) -> list[Shown]:
        """Return a row a question, permissions and deliveries included: what was asked, the answer, who gave it and why."""
        decided = [self._decision(approval, call) for approval in self._about(call, "run")]
        asked = [self._inquiry(request, response) for request, response in self._inquiries if self._is_shown(request, response, call)]
        reviews = [approval for approval in self._about(call, "review") if self._says_something(approval)]
        after = [self._decision(approval, call) for approval in (*reviews, *self._about(call, "deliver"))]
        return [row for rows in (*decided, *asked, self._replied(call), *after) for row in rows]

    def _replied(self, call: ToolCallRequest) -> list[Shown]:
        """Return the row of a reply at the review of a form."""
        cancelled = replied_at_review(call, asked_of(call, self._inquiries), self._results.get(call.event_id))
        return _row(approval_text("review", call.name), reply_text(cancelled.reply or ""), "") if cancelled else []

    def _says_something(self, review: Approval) -> bool:
        """Tell whether a review is worth a row; that answers were sent in the same breath, or gone back from, their own rows show."""
        if review.state == "waiting":
            return self._results.get(review.call) is None
        by = review.answered_by
        return review.reason is not None or (by is not None and by.via not in {None, "terminal"})

    def _about(self, call: ToolCallRequest, kind: str) -> list[Approval]:
        """Return the decisions of a kind about a call, and of what was not decided the request."""
        of_call = [one for one in self._approvals if one.call == call.event_id and one.kind == kind and one.state != "superseded"]
        decided = {one.id for one in of_call if one.state != "waiting"}
        return [one for one in of_call if one.state != "waiting" or one.id not in decided]

    def _is_shown(self, request: InquiryRequest, response: InquiryResponse | None, call: ToolCallRequest) -> bool:
        if (
            request.call != call.event_id
            or request.event_id in self._agreed
            or request.id in self._revised
            or request.event_id in self._revised
        ):
            return False
        return not (isinstance(response, InquiryCancelled) and response.reason in _GONE_BACK)

    def _inquiry(self, request: InquiryRequest, response: InquiryResponse | None) -> list[Shown]:
        drawn = _drawn(request.question)
        match response:
            case None:
                answer, who = self._unanswered(request), ""
            case InquiryCancelled(reason="reply"):
                answer, who = reply_text(words(response, self._results.get(request.call))), ""
            case InquiryCancelled(reason=reason):
                answer, who = _UNANSWERED.get(reason, f"(cancelled: {exact(reason)})"), ""
            case _:
                reason = response.reason if isinstance(response, InquiryAnswered) else None
                answer, who = answer_text(request, response), who_answered(response.answered_by, reason)
        return [*drawn, *_row(request.question.text, answer, who)]

    def _decision(self, approval: Approval, call: ToolCallRequest) -> list[Shown]:
        text = asked_text(approval, call.name)
        if approval.state == "waiting":
            return [*_drawn(approval.question), *_row(text, self._unanswered(approval), "")]
        edited = _details(_edited(approval, call)) if approval.state == "edited" else []
        return [*_drawn(approval.question), *_row(text, decision_text(approval), who_decided(approval)), *edited]

    def _unanswered(self, request: InquiryRequest | Approval) -> str:
        return "(waits for an answer)" if request.event_id in self._open else "(the turn ended without an answer)"

    def _result(self, call: ToolCallRequest) -> Iterable[Shown]:
        """Return the result; answers and replies that stand above are not repeated."""
        response = self._results.get(call.event_id)
        if response is None or says_no_more(asked_of(call, self._inquiries), response):
            return []
        if call.name == ASK_USER and not response.is_error and self._all_answered(call):
            return []
        return _result_rows(response)

    def _all_answered(self, call: ToolCallRequest) -> bool:
        of_call = [response for request, response in self._inquiries if self._is_shown(request, response, call)]
        return bool(of_call) and not any(response is None or isinstance(response, InquiryCancelled) for response in of_call)


def _drawn(question: PersistedQuestion | None) -> list[Shown]:
    """Show what stands above a question."""
    return indented(block(question.context), line("    ")) if question is not None and question.context else []


def _row(question: str, answer: str, who: str) -> list[Shown]:
    return _hanging(line("  {}  {}", question, joined("  ", [presented(part) for part in (answer, who) if part])))


def _hanging(text: Shown) -> list[Shown]:
    return wrapped(text, sys.stdout, _HANG)


def _details(rows: Iterable[str]) -> list[Shown]:
    """Show lines that were made fit to be shown where they come from."""
    return [shown for row in rows for shown in indented(presented(row), _DETAIL)]


def _edited(approval: Approval, call: ToolCallRequest) -> list[str]:
    """Return what ran, or was delivered, instead."""
    arguments: Json = None if approval.arguments is UNSET else approval.arguments
    if approval.kind == "run":
        return argument_lines(ToolCall(call.event_id, call.id, call.name, arguments))
    return []


def _result_rows(response: ToolCallResponse) -> Iterable[Shown]:
    return indented(block(response.content), _ERROR if response.is_error else _RESULT)
