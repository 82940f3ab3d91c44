"""Notices about questions that were answered elsewhere, and the outcome of each call.

Both are computed from the recorded events.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

from msgspec import Struct

from midturn.errors import QuestionError
from midturn.events.open_question import asked_text
from midturn.events.transcript import (
    ApprovalEntry,
    CallEntry,
    RequestEntry,
    ResponseEntry,
    ResultEntry,
    TranscriptBuilder,
)
from midturn.events.types import (
    AnsweredBy,
    Approval,
    Event,
    InquiryAnswered,
    InquiryCancelled,
    InquiryRedacted,
    InquiryRequest,
    ToolCall,
)
from midturn.events.window import was_previewed
from midturn.question.answer_type import BooleanType
from midturn.question.json_text import compact
from midturn.question.text import exact, exact_block
from midturn.question.walker import Cancelled
from midturn.terminal.prompts.answer_text import HIDDEN, quoted, value_text
from midturn.terminal.prompts.body import argument_lines
from midturn.terminal.prompts.keys import one_line

_AT_THIS_TERMINAL = frozenset({None, "terminal"})
_PLACES = {"inbox": "in the inbox", "web": "in the browser"}
_FLAG = "--answer"
_CHANGES = frozenset({"fs_modify_file", "fs_create_file", "fs_delete_file", "fs_move_file"})


class AnswerNotice(Struct, frozen=True):
    """A question that was answered elsewhere, its answer, and the responder with the reason
    (`who`).

    If the answer is an approval, `let_through` contains the lines of the approved call or context.
    """

    question: str
    answer: str
    who: str
    let_through: Sequence[str] = ()


class AnswerNotices:
    """Computes notices and call outcomes from the events of a turn.

    `answered_here` are the event IDs of requests answered at this terminal. `asked_here` are the
    event IDs of requests that were shown as a complete prompt at this terminal.
    """

    def __init__(
        self, answered_here: Collection[str] = (), asked_here: Collection[str] = ()
    ) -> None:
        self._answered_here = answered_here
        self._asked_here = asked_here
        self._transcript = TranscriptBuilder()
        self._replied: dict[str, InquiryRequest] = {}
        self._outcomes: dict[str, str] = {}
        self._permissions: dict[str, Approval] = {}

    def note(self, event: Event) -> AnswerNotice | None:
        """Process an event. Return the notice to show at the terminal, if any."""
        match self._transcript.take(event):
            case ResponseEntry(event=response, request=RequestEntry() as asked):
                if response.outcome != "cancelled":
                    return self._answered(asked, response)
                return (
                    self._replied_to(asked.event, response) if response.reason == "reply" else None
                )
            case ResultEntry(event=result) if request := self._replied.pop(result.call, None):
                cancelled = Cancelled.read(result.content)
                return _reply(request, (cancelled.reply if cancelled else None) or "")
            case ApprovalEntry() as decided:
                return self._decided(decided)
            case _:
                return None

    def fate(self, call: ToolCall, *, is_error: bool) -> str | None:
        """Remove and return the outcome of a call that was refused, was answered with a reply, or
        had its result withheld. Return None for other calls.
        """
        fate = self._outcomes.pop(call.event, None)
        return fate if is_error or fate is None or not fate.startswith(_REFUSED) else None

    def has_fate(self, call: ToolCall) -> bool:
        """Return whether `fate` would return an outcome for the call if it failed."""
        return call.event in self._outcomes

    def _replied_to(self, request: InquiryRequest, event: InquiryCancelled) -> AnswerNotice | None:
        """Record that a question was closed with a reply.

        Return a notice if the reply was not given at this terminal and its text is known.
        """
        here = request.event_id in self._answered_here
        self._outcomes[request.call] = (
            f"not run; {'your' if here else 'the'} reply went to the assistant"
        )
        said = (event.metadata or {}).get("reply")
        if here or isinstance(said, str):
            return None if here else _reply(request, str(said))
        self._replied[request.call] = request
        return None

    def _answered(
        self, asked: RequestEntry, event: InquiryAnswered | InquiryRedacted
    ) -> AnswerNotice | None:
        self._note_rejection(asked, event)
        request, who = asked.event, event.answered_by
        if who is None or _is_here(who) or self._is_told(request):
            return None
        answered = event if event.outcome == "answered" else None
        let_through = (
            answered is not None
            and answered.answer is True
            and request.event_id not in self._asked_here
        )
        context = request.question.context if let_through else ""
        shown = _subject_lines(context) if context else ()
        return AnswerNotice(
            one_line(request.question.text),
            answer_text(request, event),
            who_answered(who, answered.reason if answered else None),
            shown,
        )

    def _is_told(self, request: InquiryRequest) -> bool:
        """Return whether the approval of the call also answered this question.

        If so, a notice about the approval was already displayed.
        """
        given = self._permissions.pop(request.call, None)
        return given is not None and was_previewed(given, request)

    def _note_rejection(
        self, asked: RequestEntry, event: InquiryAnswered | InquiryRedacted
    ) -> None:
        request = asked.event
        if event.outcome == "redacted" or not isinstance(request.question.answer_type, BooleanType):
            return
        self._outcomes.pop(request.call, None)
        if event.answer is False and event.answered_by is not None:
            what = "not changed" if asked.call and asked.call.event.name in _CHANGES else "not done"
            self._outcomes[request.call] = f"{what}: {_said_no(event.answered_by)}"

    def _decided(self, decided: ApprovalEntry) -> AnswerNotice | None:
        event = decided.event
        if event.state == "skipped" and event.kind != "review":
            refused = (
                _said_no(event.answered_by) if event.answered_by else "no one was there to allow it"
            )
            self._outcomes[event.call] = (
                f"not run: {refused}" if event.kind == "run" else "ran; result withheld"
            )
        who = event.answered_by
        if event.state in ("waiting", "superseded") or who is None or _is_here(who):
            return None
        answer = decision_text(event)
        lines = self._let_through(event, decided.call) if answer != "no" else ()
        name = (
            decided.call.event.name if decided.call else "the call"
        )  # in a resumed turn, the call was recorded earlier
        return AnswerNotice(one_line(asked_text(event, name)), answer, who_decided(event), lines)

    def _let_through(self, event: Approval, call: CallEntry | None) -> Sequence[str]:
        """Return the lines of the approved call or context."""
        if event.question is not None:
            self._permissions[event.call] = event
            return _subject_lines(event.question.context)
        if call is None or event.kind != "run":
            return ()
        return argument_lines(ToolCall(event.call, "", call.event.name, call.event.arguments))


_REFUSED = ("not changed", "not done")


def _reply(request: InquiryRequest, words: str) -> AnswerNotice:
    return AnswerNotice(one_line(request.question.text), reply_text(words), "(said elsewhere)")


def _subject_lines(context: str | None) -> list[str]:
    """Return the lines of an approved context without code fences."""
    return [line for line in exact_block(context or "").split("\n") if not line.startswith("```")]


def label(call: ToolCall) -> str:
    """Return the tool's name and its first argument."""
    arguments = call.arguments if isinstance(call.arguments, dict) else {}
    first = next(iter(arguments.values()), None)
    if isinstance(first, str | int | float) and str(first):
        return f"{exact(call.name)} {one_line(first if isinstance(first, str) else compact(first))}"
    return exact(call.name)


def answer_text(request: InquiryRequest, event: InquiryAnswered | InquiryRedacted) -> str:
    """Return an answer on one line, formatted by the type of its question.

    A secret is `(hidden)`.
    """
    if event.outcome == "redacted":
        return HIDDEN
    try:
        return value_text(request.question.asked(request.question_id or "answer"), event.answer)
    except QuestionError:
        return one_line(compact(event.answer))


def reply_text(words: str) -> str:
    """Return a reply on one line."""
    return f"(reply) {one_line(words)}" if words else "(reply)"


def decision_text(approval: Approval) -> str:
    """Return the decision of an approval: yes, no or the reply."""
    if approval.is_reply:
        return reply_text(approval.reason or "")
    return {"approved": "yes", "edited": "yes, edited"}.get(approval.state, "no")


def who_decided(approval: Approval) -> str:
    """Return the person or rule that decided an approval, and the reason.

    If the call was skipped because no one was attached, say so instead.
    """
    who = approval.answered_by
    if approval.state == "skipped" and who is not None and who.by == "default":
        return "(no one was there to ask)"
    return who_answered(who, None if approval.is_reply else approval.reason)


def who_answered(who: AnsweredBy | None, reason: str | None) -> str:
    """Return the responder and the reason.

    If the answer was given at this terminal, return only the reason.
    """
    because = quoted(reason) if reason else ""
    if who is None or _is_here(who):
        return f"({because})" if because else ""
    return f"({_named(who)}{': ' if because else ''}{because})"


def _is_here(who: AnsweredBy) -> bool:
    return who.by == "user" and who.via in _AT_THIS_TERMINAL


def _named(who: AnsweredBy) -> str:
    match who.by:
        case "assistant":
            return f"by {exact(who.model or 'a model')}"
        case "cached" | "default" as unnamed:
            return "remembered" if unnamed == "cached" else "by default"
        case "static" | "configuration":
            return _FLAG if who.origin == _FLAG else "by configuration"
        case "policy":
            return f"by the policy {exact(who.name or 'policy')}"
        case "user":
            place = _PLACES.get(who.via or "", f"through {exact(who.via or '')}")
            return f"answered by {exact(who.user or 'the user')} {place}"
        case other:
            return f"by {exact(other)}"


def _said_no(who: AnsweredBy) -> str:
    match who.by:
        case "assistant":
            return f"{exact(who.model or 'a model')} said no"
        case "user" if _is_here(who):
            return "you said no"
        case "user":
            return f"{exact(who.user or 'the user')} said no"
        case "cached":
            return "you said no before"
        case "static" | "configuration" | "policy" as rule:
            return (
                "configuration says no"
                if rule != "policy"
                else f"the policy {exact(who.name or 'policy')} said no"
            )
        case _:
            return "no one was there to allow it"
