"""Print a conversation for `conversation show`.

The transcript contains messages, calls and questions. With `--inquiries`, only the questions are
printed.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable, Sequence
from typing import TypeAlias, assert_never

from msgspec import UNSET

from midturn.cli import output
from midturn.cli.question_rows import drawing
from midturn.events import transcript
from midturn.events.open_question import approval_text, asked_text
from midturn.events.types import (
    AnsweredBy,
    Approval,
    Event,
    InquiryRequest,
    InquiryResponse,
    ToolCall,
    ToolCallRequest,
    ToolCallResponse,
)
from midturn.events.window import Window, turns
from midturn.question.json_value import Json
from midturn.question.persisted_question import PersistedQuestion
from midturn.question.text import ASK_USER, exact
from midturn.question.walker import Cancelled
from midturn.stores.conversation import Conversation
from midturn.terminal.answer_notice import (
    answer_text,
    decision_text,
    label,
    reply_text,
    who_answered,
    who_decided,
)
from midturn.terminal.prompts.body import argument_lines
from midturn.turn.votes import poll_of

# --------------------------------------------------------------------------------------------------
# Replies to questions, recorded with the question or in the call's result


def is_reply(response: InquiryResponse | None) -> bool:
    """Return whether the user replied to a question instead of answering it."""
    return response is not None and response.outcome == "cancelled" and response.reason == "reply"


def words(response: InquiryResponse, result: ToolCallResponse | None) -> str:
    """Return the text of a reply, or an empty string if there is no text."""
    reply = (response.metadata or {}).get("reply")
    if isinstance(reply, str):
        return reply
    cancelled = _marker(result)
    return (cancelled.reply or "") if cancelled else ""


def replied_at_review(call: transcript.CallEntry) -> Cancelled | None:
    """Return the user's reply at the review of a form, if the answers were not sent.

    Such a reply is only recorded in the call's result. Only the result of `ask_user` is checked,
    because results of other tools may contain any text.
    """
    return None if call.event.name != ASK_USER or _has_reply(call) else _marker(call.result)


def _has_reply(call: transcript.CallEntry) -> bool:
    return any(is_reply(asked.response) for asked in call.requests)


def _marker(result: ToolCallResponse | None) -> Cancelled | None:
    """Return the reply in the result of a call, if the call ended with a reply."""
    return None if result is None or result.is_error else Cancelled.read(result.content)


_TEXT, _RESULT, _ERROR, _DETAIL, _CONTEXT = (
    output.line("  "),
    output.line("  | "),
    output.line("  ! "),
    output.line("      "),
    output.line("    "),
)
_DEFAULT_WIDTH = 80
_HANGING_INDENT = "      "
_CANCELLED_TEXT = {"user": "(end turn)"}
_WITHDRAWN = ("back", "superseded")


def print_transcript(turns: Iterable[Window]) -> None:
    """Print the transcript. Each turn is printed as soon as it is read."""
    for turn in turns:
        transcript = _Transcript(turn)
        for entry in transcript.entries:
            for row in transcript.rows(entry):
                output.say(row)


class _Transcript:
    """Formats the entries of a turn."""

    def __init__(self, turn: Window) -> None:
        self.entries = transcript.transcript_entries(turn.events)
        self._revised = {
            entry.event.revises
            for entry in self.entries
            if isinstance(entry, transcript.RequestEntry) and entry.event.revises
        }
        self._agreed = transcript.agreed(turn.events)
        self._is_open = turn.open

    def rows(self, entry: transcript.Entry) -> Iterable[output.Shown]:  # noqa: PLR0911  one return per kind of entry
        """Return the rows of an entry. The rows of a call include its questions and its result."""
        match entry:
            case transcript.WordsEntry(kind="request"):
                return [
                    output.line("{}:", entry.author or "You"),
                    *output.indented(output.spoken(entry.text), _TEXT),
                    output.line(""),
                ]
            case transcript.WordsEntry(kind="message"):
                return [output.line("Assistant:"), *_message(entry.text), output.line("")]
            case transcript.WordsEntry(kind="structured"):
                return [
                    output.line("Assistant:"),
                    *output.indented(
                        output.block(json.dumps(entry.value, ensure_ascii=False, indent=2)), _TEXT
                    ),
                    output.line(""),
                ]
            case transcript.CallEntry():
                return [*_called(entry), *self._asked(entry), *self._result(entry), output.line("")]
            case transcript.ResultEntry(call=None):
                return [*_result_rows(entry.event), output.line("")]
            case transcript.EndEntry(event=end) if end.status == "failed":
                return [output.line("The turn failed: {}", end.error or ""), output.line("")]
            case transcript.EndEntry(event=end) if end.status == "ended_by_user":
                return [output.line("The turn was ended by the user."), output.line("")]
            case _:
                return []

    def _asked(self, call: transcript.CallEntry) -> list[output.Shown]:
        """Return the rows for a call's questions and approvals: the question, the answer, the
        responder and the reason.
        """
        decided = [self._decision(approval, call) for approval in _about(call, "run")]
        asked = [self._inquiry(entry, call) for entry in self._shown(call)]
        reviews = [
            approval for approval in _about(call, "review") if _is_reportable(approval, call)
        ]
        after = [
            self._decision(approval, call) for approval in (*reviews, *_about(call, "deliver"))
        ]
        return [row for rows in (*decided, *asked, _replied(call), *after) for row in rows]

    def _shown(self, call: transcript.CallEntry) -> list[transcript.RequestEntry]:
        """Return the questions of a call that are displayed.

        Revised questions, and questions that the approval answered, are left out.
        """
        hidden = self._revised | self._agreed
        asked = [
            entry
            for entry in call.requests
            if entry.event.id not in self._revised and entry.event.event_id not in hidden
        ]
        return [entry for entry in asked if not _is_withdrawn(entry.response)]

    def _inquiry(
        self, entry: transcript.RequestEntry, call: transcript.CallEntry
    ) -> list[output.Shown]:
        request, response = entry.event, entry.response
        who = ""
        if response is None:
            answer = self._unanswered()
        elif is_reply(response):
            answer = reply_text(words(response, call.result))
        elif response.outcome == "cancelled":
            answer = _CANCELLED_TEXT.get(response.reason, f"(cancelled: {exact(response.reason)})")
        else:
            reason = response.reason if response.outcome == "answered" else None
            answer, who = answer_text(request, response), who_answered(response.answered_by, reason)
        return [*_drawn(request.question), *_row(request.question.text, answer, who)]

    def _decision(self, approval: Approval, call: transcript.CallEntry) -> list[output.Shown]:
        text = asked_text(approval, call.event.name)
        if approval.state == "waiting":
            return [*_drawn(approval.question), *_row(text, self._unanswered(), "")]
        edited = _details(_edited(approval, call.event)) if approval.state == "edited" else []
        return [
            *_drawn(approval.question),
            *_row(text, decision_text(approval), who_decided(approval)),
            *edited,
        ]

    def _unanswered(self) -> str:
        return "(not answered yet)" if self._is_open else "(the turn ended without an answer)"

    def _result(self, call: transcript.CallEntry) -> Iterable[output.Shown]:
        """Return the rows of the result, unless it only repeats the answers or the reply above."""
        if call.result is None or (_has_reply(call) and _marker(call.result) is not None):
            return []
        if call.event.name == ASK_USER and not call.result.is_error and self._all_answered(call):
            return []
        return _result_rows(call.result)

    def _all_answered(self, call: transcript.CallEntry) -> bool:
        of_call = [entry.response for entry in self._shown(call)]
        return bool(of_call) and not any(
            response is None or response.outcome == "cancelled" for response in of_call
        )


def _called(entry: transcript.CallEntry) -> list[output.Shown]:
    """Return the name and the arguments of a call, unless a question displays them already."""
    event = entry.event
    call = ToolCall(event.event_id, event.id, event.name, event.arguments)
    if event.name == ASK_USER and entry.requests:
        return _hanging(output.line("· {}", event.name))
    asked = (
        *(request.event.question for request in entry.requests),
        *(approval.event.question for approval in entry.approvals),
    )
    if any(question and question.context for question in asked):
        return _hanging(output.line("· {}", output.presented(label(call))))
    return [*_hanging(output.line("· {}", event.name)), *_details(argument_lines(call))]


def _replied(call: transcript.CallEntry) -> list[output.Shown]:
    """Return the row of a reply at the review of a form."""
    cancelled = replied_at_review(call)
    return (
        _row(approval_text("review", call.event.name), reply_text(cancelled.reply or ""), "")
        if cancelled
        else []
    )


def _about(call: transcript.CallEntry, kind: str) -> list[Approval]:
    """Return the decisions of one kind about a call, and the requests that are not decided yet."""
    of_call = [
        entry.event
        for entry in call.approvals
        if entry.event.kind == kind and entry.event.state != "superseded"
    ]
    decided = {approval.id for approval in of_call if approval.state != "waiting"}
    return [
        approval
        for approval in of_call
        if approval.state != "waiting" or approval.id not in decided
    ]


def _is_reportable(review: Approval, call: transcript.CallEntry) -> bool:
    """Return whether a review gets a row.

    An ordinary review at the terminal has no row, because the rows of the answers show its outcome.
    """
    if review.state == "waiting":
        return call.result is None
    by = review.answered_by
    return review.reason is not None or (by is not None and by.via not in {None, "terminal"})


def _is_withdrawn(response: InquiryResponse | None) -> bool:
    return (
        response is not None and response.outcome == "cancelled" and response.reason in _WITHDRAWN
    )


def _drawn(question: PersistedQuestion | None) -> list[output.Shown]:
    """Return the context of a question, drawn as in its prompt."""
    if question is None or not question.context:
        return []
    draws = drawing(sys.stdout)
    if draws is None:
        return output.indented(output.block(question.context), _CONTEXT)
    return [
        output.drawn(f"{_CONTEXT}{row}".rstrip())
        for row in draws.context(question.context, _room(_CONTEXT))
    ]


def _message(text: str) -> list[output.Shown]:
    """Return a model's text, drawn as during its turn."""
    draws = drawing(sys.stdout)
    if draws is None:
        return output.indented(output.spoken(text), _TEXT)
    return [output.drawn(f"{_TEXT}{row}".rstrip()) for row in draws.words(text, _room(_TEXT))]


def _room(indent: output.Shown) -> int:
    return max(1, (output.columns(sys.stdout) or _DEFAULT_WIDTH) - len(indent))


def _row(question: str, answer: str, who: str) -> list[output.Shown]:
    return _hanging(
        output.line(
            "  {}  {}",
            question,
            output.joined("  ", [output.presented(part) for part in (answer, who) if part]),
        )
    )


def _hanging(text: output.Shown) -> list[output.Shown]:
    return output.wrapped(text, sys.stdout, _HANGING_INDENT)


def _details(rows: Iterable[str]) -> list[output.Shown]:
    """Indent lines that are already safe to print."""
    return [shown for row in rows for shown in output.indented(output.presented(row), _DETAIL)]


def _edited(approval: Approval, call: ToolCallRequest) -> list[str]:
    """Return the arguments with which a call ran instead of its original arguments."""
    arguments: Json = None if approval.arguments is UNSET else approval.arguments
    if approval.kind == "run":
        return argument_lines(ToolCall(call.event_id, call.id, call.name, arguments))
    return []


def _result_rows(response: ToolCallResponse) -> Iterable[output.Shown]:
    return output.indented(output.block(response.content), _ERROR if response.is_error else _RESULT)


_Row: TypeAlias = tuple[output.Shown, output.Shown]
_NOTHING = output.line("")
_OPEN = "not answered yet"
_UNANSWERED = "the turn ended without an answer"


def print_inquiries_json(conversation: Conversation) -> None:
    """Print each request with its response as JSON."""
    found = [
        entry
        for entry in transcript.transcript_entries(conversation.events)
        if isinstance(entry, transcript.RequestEntry)
    ]
    output.say_json([_pair(entry) for entry in dict.fromkeys(found)])


def _pair(entry: transcript.RequestEntry) -> Json:
    notes: dict[str, Json] = (
        {"notes": [note.event.to_json() for note in entry.notes]} if entry.notes else {}
    )
    return {
        "request": entry.event.to_json(),
        "response": entry.response.to_json() if entry.response else None,
        **notes,
    }


def print_inquiries(conversation: Conversation) -> None:
    """Print the audit trail."""
    for turn in turns(conversation.events):
        trail = _Trail(is_open=turn.open)
        for entry in transcript.transcript_entries(turn.events):
            if isinstance(entry, transcript.WordsEntry) and entry.kind == "request":
                trail.begin()
                for row in output.wrapped(
                    output.line("Turn: {}", next(iter(entry.text.splitlines()), "")),
                    sys.stdout,
                    "  ",
                ):
                    output.say(row)
            elif rows := trail.rows(entry):
                for text in output.table(
                    [(output.line("  {}", left), right) for left, right in rows]
                ):
                    output.say(text)


class _Trail:
    """Formats the entries of a turn, in order."""

    def __init__(self, *, is_open: bool) -> None:
        self._unanswered = output.line(_OPEN if is_open else _UNANSWERED)
        self._remembered: dict[tuple[str, str], Event] = {}

    def begin(self) -> None:
        """Clear the answers that were remembered in the previous turn."""
        self._remembered.clear()

    def rows(self, entry: transcript.Entry) -> list[_Row]:  # noqa: PLR0911  one return per kind of entry
        """Return the rows of an entry. The first row starts with the time.

        The rows of a question include its notes and its response.
        """
        match entry:
            case transcript.RequestEntry(event=request, response=response):
                noted = [*_timed(request, [_asked(request), *_whose(request)]), *self._noted(entry)]
                if response is None:
                    return [*noted, *_untimed([self._unanswered])]
                outcome = self._outcome(entry, response)
                return [*noted, *(_timed(response, outcome) if entry.notes else _untimed(outcome))]
            case transcript.ApprovalEntry(event=approval) if entry.waits:
                put_to = _whose(approval)
                asked = output.line("{} {}: asked", approval.kind, _tool(entry.call) or "?")
                was_edited = any(note.kind == "proposed" for note in entry.notes)
                return (
                    [*_timed(approval, [asked, *put_to]), *self._noted(entry)]
                    if put_to or was_edited
                    else []
                )
            case transcript.ApprovalEntry(event=approval):
                return _timed(approval, self._decided(approval, _tool(entry.call)))
            case transcript.ResultEntry(event=result, call=transcript.CallEntry() as call) if (
                result.call and (cancelled := replied_at_review(call))
            ):
                return _timed(
                    result,
                    [
                        output.line("review {}: replied to", call.event.name),
                        *_reply(cancelled.reply or ""),
                    ],
                )
            case transcript.ResponseEntry(event=response):
                self._remember(entry)
                return []
            case _:
                return []

    def _remember(self, entry: transcript.ResponseEntry) -> None:
        """Store the request that a remembered answer belongs to."""
        if entry.event.outcome == "answered" and entry.event.remembered and entry.request:
            self._remembered[_tool(entry.request.call), entry.request.event.question_id] = (
                entry.request.event
            )

    def _noted(self, entry: transcript.RequestEntry | transcript.ApprovalEntry) -> list[_Row]:
        """Return the rows for the notes on a request, in order."""
        rows = list[_Row]()
        for place, note in enumerate(entry.notes, 1):
            poll = poll_of(
                entry.event, [earlier.event for earlier in entry.notes[:place]], is_yes_or_no=True
            )
            rows += _timed(note.event, self._note(note, poll.tally if poll else ""))
        return rows

    def _note(self, note: transcript.NoteEntry, tally: str) -> list[output.Shown]:
        to = ", ".join(note.to)
        rows: list[output.Shown] = []
        match note.kind:
            case "taken back":
                rows = [output.line("vote withdrawn{}", self._by(note.by))]
            case "yes":
                edited = (
                    []
                    if note.arguments is UNSET
                    else [
                        output.line("arguments: {}", json.dumps(note.arguments, ensure_ascii=False))
                    ]
                )
                rows = [
                    output.line("yes{} ({})", self._by(note.by), tally),
                    *edited,
                    *_reason(note.reason),
                ]
            case "no":
                pass  # displayed as the answer of the question
            case "proposed" | "edit refused":
                changed = output.line(
                    "arguments: {}", json.dumps(note.arguments, ensure_ascii=False)
                )
                put = [output.line("assigned to {}", to)] if to else []
                rows = [
                    output.line("{}{}", note.kind, self._by(note.by)),
                    changed,
                    *put,
                    *_reason(note.reason),
                ]
            case "passed on":
                rows = [
                    output.line("reassigned to {}{}", to, self._by(note.by)),
                    *_reason(note.reason),
                ]
            case "reminded":
                rows = [output.line("reminder {} to {}", str(note.number), to)]
            case "escalated":
                rows = [output.line("escalated to {}", to)]
            case "not told":
                rows = [output.line("{} could not be notified: {}", to, note.reason or "")]
            case "told":
                rows = (
                    [output.line("notified {}", to)]
                    if note.about in ("asked", "reassigned")
                    else []
                )
            case _ as other:
                assert_never(other)
        return rows

    def _outcome(
        self, entry: transcript.RequestEntry, response: InquiryResponse
    ) -> list[output.Shown]:
        if response.outcome == "redacted":
            return [output.line("answered <redacted>{}", self._by(response.answered_by))]
        if response.outcome == "answered":
            by = self._by(response.answered_by, (_tool(entry.call), entry.event.question_id))
            return [
                output.line("answered {}{}", json.dumps(response.answer, ensure_ascii=False), by),
                *_reason(response.reason),
            ]
        reply = (
            words(response, entry.call.result if entry.call else None)
            if response.reason == "reply"
            else ""
        )
        return [output.line("cancelled ({})", response.reason), *_reply(reply)]

    def _decided(self, approval: Approval, tool: str) -> list[output.Shown]:
        if approval.is_reply:
            return [
                output.line("review {}: replied to{}", tool or "?", self._by(approval.answered_by)),
                *_reply(approval.reason or ""),
            ]
        decided = output.line(
            "{} {}: {}{}",
            approval.kind,
            tool or "?",
            approval.state,
            self._by(approval.answered_by, (tool, "")),
        )
        if approval.remembered:
            self._remembered[tool, ""] = approval
        return [decided, *_ran_instead(approval), *_reason(approval.reason)]

    def _by(self, who: AnsweredBy | None, remembered: tuple[str, str] = ("", "")) -> output.Shown:
        """Return the responder, or for a remembered answer the time at which it was given."""
        if who is None:
            return _NOTHING
        if who.by == "cached":
            since = self._remembered.get(remembered)
            return (
                output.line(" (remembered from {})", _time(since))
                if since
                else output.line(" (remembered)")
            )
        detail = who.model or who.origin or who.name or who.user
        return output.line(
            " by {}{}{}",
            who.by,
            output.line(" {}", detail) if detail else _NOTHING,
            output.line(" via {}", who.via) if who.via else _NOTHING,
        )


def _tool(call: transcript.CallEntry | None) -> str:
    return call.event.name if call else ""


def _whose(request: InquiryRequest | Approval) -> list[output.Shown]:
    """Return the people who may answer, if only certain people may."""
    poll = poll_of(request, (), is_yes_or_no=True)
    if poll is None:
        return []
    asked = poll.whose
    votes = f"{asked.needed} approvals required" if asked.needed > 1 else ""
    only = " only" if asked.eligible is not None else ""
    text = " · ".join(
        filter(None, (f"for {', '.join(asked.ask)}{only}" if asked.ask else "", votes))
    )
    return [output.line("{}", text)] if text else []


def _timed(event: Event, details: Sequence[output.Shown]) -> list[_Row]:
    """Return rows of which the first starts with the event's time."""
    return [
        (_time(event) if place == 0 else _NOTHING, detail) for place, detail in enumerate(details)
    ]


def _untimed(details: Sequence[output.Shown]) -> list[_Row]:
    return [(_NOTHING, detail) for detail in details]


def _asked(request: InquiryRequest) -> output.Shown:
    marks = [
        mark
        for mark, is_set in (
            ("human only", request.question.exclusive),
            ("review", request.escalates),
            ("again", request.revises),
        )
        if is_set
    ]
    shown_marks = output.line("  [{}]", output.joined(", ", marks)) if marks else _NOTHING
    return output.line("{} asks: {}{}", request.source.header, request.question.text, shown_marks)


def _ran_instead(approval: Approval) -> list[output.Shown]:
    """Return the arguments with which the call ran instead of the model's arguments."""
    if approval.state != "edited" or approval.kind != "run" or approval.arguments is UNSET:
        return []
    return [output.line("arguments: {}", json.dumps(approval.arguments, ensure_ascii=False))]


def _reason(reason: str | None) -> list[output.Shown]:
    return [output.line("reason: {}", reason)] if reason else []


def _reply(text: str) -> list[output.Shown]:
    return [output.line("reply: {}", text)] if text else []


def _time(event: Event) -> output.Shown:
    try:
        return output.line("{}", event.at.astimezone().strftime("%H:%M:%S"))
    except (ValueError, OverflowError):
        return output.line("--:--:--")
