"""The open questions and approvals of a turn, as interfaces show them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, cast

from msgspec import UNSET, UnsetType

from midturn.events.open_question import (
    AssignedTo,
    CallSubject,
    OpenQuestion,
    PromptKind,
    ProposedEdit,
    Refusal,
    address,
    approval_text,
    arguments_sha256,
    asked_text,
    fenced,
    recorded_at,
    result_sha256,
)
from midturn.events.types import Approval, Event, FormAuthored, InquiryRequest, Source
from midturn.question.answer_type import BooleanType
from midturn.question.json_value import DEFAULT_LIMITS, Json
from midturn.question.persisted_question import PersistedQuestion
from midturn.turn.call_record import CallRecord, QuestionThread
from midturn.turn.context import call_context, call_subject
from midturn.turn.edits import Edits, proposed_arguments, read_edits
from midturn.turn.view import TurnView
from midturn.turn.votes import needs_digest, open_poll

_CUT: Final = "\n[…]"


def pending(events: Sequence[Event], conversation: str) -> list[OpenQuestion]:
    """Return the open questions of the last turn. `events` may start anywhere before that turn."""
    return pending_in(TurnView.last(events), conversation)


def pending_in(turn: TurnView, conversation: str) -> list[OpenQuestion]:
    """Return the open questions and approvals of a turn, in the order in which they were asked.
    Only calls without a response have open questions.
    """
    shown_as = _PendingTurn(turn, conversation)
    found: list[tuple[int, OpenQuestion]] = []
    for call in turn.record.open_calls() if turn.is_open else ():
        found += [(thread.asked_at, shown_as.asked(call, thread)) for thread in call.open_threads]
        waiting = (
            each
            for each in call.open_approvals
            if each.kind != "review" or not call.asks_again(each)
        )
        found += [(call.undecided_at[each.id], shown_as.to_approve(call, each)) for each in waiting]
    return [question for _, question in sorted(found, key=lambda each: each[0])]


class _PendingTurn:
    """Converts the open requests of one turn."""

    def __init__(self, turn: TurnView, conversation: str) -> None:
        self._turn = turn
        self._conversation = conversation

    def asked(self, call: CallRecord, thread: QuestionThread) -> OpenQuestion:
        """Return an open question. `arguments` is None if another program wrote the request without
        a reference to its call.
        """
        request = self._turn.on_record(thread.last.request)
        return OpenQuestion(
            id=address(self._conversation, request.event_id),
            conversation=self._conversation,
            kind="tool",
            source=request.source,
            question=request.question,
            form=_form(call, thread),
            tool=call.request.name if request.call else request.source.name or "",
            arguments=call.arguments if request.call else None,
            asked_at=recorded_at(request),
            request=request,
            asker=self._turn.asker,
            whose=self._whose(request),
        )

    def to_approve(self, call: CallRecord, approval: Approval) -> OpenQuestion:
        """Return an open approval as a question, with the arguments to approve."""
        approval = self._turn.on_record(approval)
        notes = self._turn.record.notes.get(approval.id, ())
        poll, edits = open_poll(approval, self._turn.record.notes), read_edits(notes)
        arguments = proposed_arguments(
            edits, UNSET if poll is None else poll.arguments, call.arguments
        )
        refusals = (
            self._turn.record.refusals_before(call, arguments) if approval.kind == "run" else ()
        )
        subject = call_subject(call, arguments, edits, poll)
        was_changed = edits.any or (
            approval.kind == "review" and call.was_answered_since(approval.id)
        )
        return OpenQuestion(
            id=address(self._conversation, approval.event_id),
            conversation=self._conversation,
            kind=cast("PromptKind", approval.kind),
            source=self._source(call, approval),
            question=self._question(call, approval, subject, edits, refusals),
            form=None,
            tool=call.request.name,
            arguments=arguments,
            asked_at=recorded_at(approval),
            request=approval,
            asker=self._turn.asker,
            whose=poll.whose if poll else None,
            digest=self._digest(approval, arguments),
            needs_digest=needs_digest(poll, was_changed=was_changed),
            edit=_edit(subject, edits),
            refusals=refusals,
        )

    def _digest(self, approval: Approval, arguments: Json) -> str:
        match approval.kind:
            case "run":
                return arguments_sha256(arguments)
            case "deliver":
                return result_sha256(
                    approval.content or "", is_error=bool(approval.is_error), images=approval.images
                )
            case _:
                from midturn.turn.visit import (
                    review_digest,
                )  # imported here, because it loads the state machine, which other questions do not need

                return review_digest(self._turn.events, approval)

    def _whose(self, request: InquiryRequest) -> AssignedTo | None:
        poll = open_poll(request, self._turn.record.notes)
        return poll.whose if poll else None

    def _source(self, call: CallRecord, approval: Approval) -> Source:
        """Return who asks for an approval. For a review, that is the source of the reviewed
        questions.
        """
        if self._turn.asker:
            return self._turn.asker.source
        latest = (
            max(call.threads, key=lambda thread: thread.asked_at)
            if call.threads and approval.kind == "review"
            else None
        )
        return latest.last.request.source if latest else Source.tool(call.request.name)

    def _question(
        self,
        call: CallRecord,
        approval: Approval,
        subject: CallSubject,
        edits: Edits,
        refusals: Sequence[Refusal],
    ) -> PersistedQuestion:
        """Return an approval as a yes/no question.

        The context of a delivery contains the result, that of a review the answers, and that of a
        permission the edits and earlier refusals. The context is truncated to its size limit; the
        approval event and the answers contain the full text.
        """
        match approval.kind:
            case "deliver":
                context = fenced(approval.content or "")
            case "review":
                context = self._reviewed(call, approval)
            case _:
                previewed = approval.question if subject.original is UNSET else None
                why = edits.proposal.reason if edits.proposal else approval.reason
                context = call_context(
                    subject, edits, refusals, previewed.context if previewed else why
                )
        is_edited = subject.original is not UNSET
        text = (
            approval_text(approval.kind, call.request.name)
            if is_edited
            else asked_text(approval, call.request.name)
        )
        return PersistedQuestion(
            text=text, answer_type=BooleanType(), context=_cut(context) or None
        )

    def _reviewed(self, call: CallRecord, approval: Approval) -> str:
        from midturn.turn.visit import (
            reviewed_answers,
        )  # imported here, because it loads the state machine, which other questions do not need

        return reviewed_answers(self._turn.events, call, approval)


def _edit(subject: CallSubject, edits: Edits) -> ProposedEdit | None:
    """Return the edit that people must decide, or the unchecked edit. None if there is no edit."""
    if edits.unchecked is not None:
        return ProposedEdit(
            edits.unchecked.answered_by,
            edits.unchecked.arguments,
            subject.call.arguments,
            is_checked=False,
        )
    if isinstance(subject.original, UnsetType):
        return None
    return ProposedEdit(subject.proposed_by, subject.call.arguments, subject.original)


def _form(call: CallRecord, thread: QuestionThread) -> FormAuthored | None:
    """Return the form of several questions that a question belongs to. A form is recorded with its
    first request.

    The result is the last form in which the question has the same id and text, or else the last
    form in which it has the same id. Concurrent forms may use the same ids.
    """
    request = thread.last.request
    before = [
        attempt.request.form
        for each in reversed(call.threads[: thread.place + 1])
        for attempt in reversed(each.attempts)
    ]
    forms = [
        form for form in before if form and form.total > 1 and request.question_id in _texts(form)
    ]
    whole = (form for form in forms if _texts(form)[request.question_id] == request.question.text)
    return next(whole, next(iter(forms), None))


def _texts(form: FormAuthored) -> dict[str, Json]:
    """Return the texts of a form, by question id."""
    return {str(question.get("id")): question.get("text") for question in form.questions}


def _cut(context: str) -> str:
    encoded = context.encode("utf-8", "replace")
    if len(encoded) <= DEFAULT_LIMITS.context:
        return context
    return encoded[: DEFAULT_LIMITS.context - len(_CUT.encode())].decode("utf-8", "ignore") + _CUT
