"""The open questions and approvals of a turn, as people are shown them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, cast

from msgspec import UNSET, UnsetType

from midturn.events.open_question import (
    CallSubject,
    OpenQuestion,
    PromptKind,
    ProposedEdit,
    Refusal,
    Whose,
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
from midturn.turn.context import call_context, call_subject
from midturn.turn.edits import Edits, proposed_arguments, read_edits
from midturn.turn.people import needs_digest, open_poll
from midturn.turn.record import CallRecord, Chain
from midturn.turn.view import TurnView

_CUT: Final = "\n[…]"


def pending(events: Sequence[Event], conversation: str) -> list[OpenQuestion]:
    """Return what the last turn waits for, where it is open. The events may begin anywhere before its start."""
    return pending_in(TurnView.last(events), conversation)


def pending_in(turn: TurnView, conversation: str) -> list[OpenQuestion]:
    """Return what a turn waits for, in the order in which it was asked. A call that has its response waits for nothing any more."""
    shown_as = _PendingTurn(turn, conversation)
    found: list[tuple[int, OpenQuestion]] = []
    for call in turn.record.open_calls() if turn.is_open else ():
        found += [(chain.asked_at, shown_as.asked(call, chain)) for chain in call.open_chains]
        waiting = (each for each in call.open_approvals if each.kind != "review" or not call.asks_again(each))
        found += [(call.undecided_at[each.id], shown_as.to_approve(call, each)) for each in waiting]
    return [question for _, question in sorted(found, key=lambda each: each[0])]


class _PendingTurn:
    """What one turn waits for, in the one shape that everybody shows."""

    def __init__(self, turn: TurnView, conversation: str) -> None:
        self._turn = turn
        self._conversation = conversation

    def asked(self, call: CallRecord, chain: Chain) -> OpenQuestion:
        """Show a question. Another program may not have said which call asks."""
        request = self._turn.on_record(chain.last.request)
        return OpenQuestion(
            id=address(self._conversation, request.event_id),
            conversation=self._conversation,
            kind="tool",
            source=request.source,
            question=request.question,
            form=_form(call, chain),
            tool=call.request.name if request.call else request.source.name or "",
            arguments=call.arguments if request.call else None,
            asked_at=recorded_at(request),
            request=request,
            asker=self._turn.asker,
            whose=self._whose(request),
        )

    def to_approve(self, call: CallRecord, approval: Approval) -> OpenQuestion:
        """Show an approval; of a call, with the arguments that are voted on."""
        approval = self._turn.on_record(approval)
        notes = self._turn.record.notes.get(approval.id, ())
        poll, edits = open_poll(approval, self._turn.record.notes), read_edits(notes)
        arguments = proposed_arguments(edits, UNSET if poll is None else poll.arguments, call.arguments)
        refusals = self._turn.record.refusals_before(call, arguments) if approval.kind == "run" else ()
        subject = call_subject(call, arguments, edits, poll)
        was_changed = edits.any or (approval.kind == "review" and call.was_answered_since(approval.id))
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
                return result_sha256(approval.content or "", is_error=bool(approval.is_error), images=approval.images)
            case _:
                from midturn.turn.visit import review_digest  # the machine: lists of other questions do without it

                return review_digest(self._turn.events, approval)

    def _whose(self, request: InquiryRequest) -> Whose | None:
        poll = open_poll(request, self._turn.record.notes)
        return poll.whose if poll else None

    def _source(self, call: CallRecord, approval: Approval) -> Source:
        """Who asks: a review belongs to the asker of the form."""
        if self._turn.asker:
            return self._turn.asker.source
        latest = max(call.chains, key=lambda chain: chain.asked_at) if call.chains and approval.kind == "review" else None
        return latest.last.request.source if latest else Source.tool(call.request.name)

    def _question(
        self, call: CallRecord, approval: Approval, subject: CallSubject, edits: Edits, refusals: Sequence[Refusal]
    ) -> PersistedQuestion:
        """An approval as the yes/no question that it is.

        Its context shows what the call's arguments do not: the result that would be delivered, the answers that would be sent. It is cut
        at the limit of a context; the whole stands in the approval and in the answers.
        """
        match approval.kind:
            case "deliver":
                context = fenced(approval.content or "")
            case "review":
                context = self._reviewed(call, approval)
            case _:
                foretold = approval.question if subject.original is UNSET else None
                why = edits.proposal.reason if edits.proposal else approval.reason
                context = call_context(subject, edits, refusals, foretold.context if foretold else why)
        is_edited = subject.original is not UNSET
        text = approval_text(approval.kind, call.request.name) if is_edited else asked_text(approval, call.request.name)
        return PersistedQuestion(text=text, answer_type=BooleanType(), context=_cut(context) or None)

    def _reviewed(self, call: CallRecord, approval: Approval) -> str:
        from midturn.turn.visit import reviewed_answers  # the machine: lists of other questions do without it

        return reviewed_answers(self._turn.events, call, approval)


def _edit(subject: CallSubject, edits: Edits) -> ProposedEdit | None:
    """Return the edit that people decide on, or that waits to be checked."""
    if edits.unchecked is not None:
        return ProposedEdit(edits.unchecked.answered_by, edits.unchecked.arguments, subject.call.arguments, is_checked=False)
    if isinstance(subject.original, UnsetType):
        return None
    return ProposedEdit(subject.proposed_by, subject.call.arguments, subject.original)


def _form(call: CallRecord, chain: Chain) -> FormAuthored | None:
    """The form of several questions that the question belongs to: it stands on the first request of the form.

    It is the last one that has the question, or else its id: forms that were asked at once may have equal ids.
    """
    request = chain.last.request
    before = [link.request.form for each in reversed(call.chains[: chain.place + 1]) for link in reversed(each.links)]
    forms = [form for form in before if form and form.total > 1 and request.question_id in _texts(form)]
    whole = (form for form in forms if _texts(form)[request.question_id] == request.question.text)
    return next(whole, next(iter(forms), None))


def _texts(form: FormAuthored) -> dict[str, Json]:
    """Return what a form asks, by question id."""
    return {str(question.get("id")): question.get("text") for question in form.questions}


def _cut(context: str) -> str:
    encoded = context.encode("utf-8", "replace")
    if len(encoded) <= DEFAULT_LIMITS.context:
        return context
    return encoded[: DEFAULT_LIMITS.context - len(_CUT.encode())].decode("utf-8", "ignore") + _CUT
