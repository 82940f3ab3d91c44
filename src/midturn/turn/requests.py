"""What the forms of a call put on record: each request gets its id, its deadline and its people here, and is opened as an inquiry."""

from __future__ import annotations

from typing import Any, cast

from msgspec import UNSET, to_builtins
from msgspec.structs import replace

from midturn.question.people import People, earliest
from midturn.question.persisted_question import PersistedQuestion
from midturn.question.question import Question
from midturn.question.walker import Ask
from midturn.record.events import FormAuthored, InquiryRequest, required_by
from midturn.turn.decision import Escalate, View
from midturn.turn.inquiry import Inquiry
from midturn.turn.record import WITH_A_MODEL, Chain
from midturn.turn.state import TurnState
from midturn.turn.step import FormWanted
from midturn.turn.walk import Replay, Walk
from midturn.values.json_value import Json

TELLS_REPLIES: dict[str, Json] = {"reply": "tool"}
"""Stands with a request whose tool wants to hear what a person says instead of answering, for the visit that takes a reply from outside."""


class Requests:
    """The requests of one call: recorded where a form asks anew, taken up where one is open on record."""

    def __init__(self, state: TurnState, view: View, replay: Replay) -> None:
        self._state = state
        self._view = view
        self._replay = replay

    def deadlines(self, asking: FormWanted) -> list[str | float]:
        """Return the deadlines of what is asked: moments, or in how many seconds; of its author, and of the configuration."""
        policy = self._view.policy
        found: list[str | float | None] = []
        for asked in asking.form.questions:
            found += asked.deadline, asked.deadline_seconds, policy.question(asked.id).deadline
        return [moment for moment in found if moment is not None]

    def escalated(self, walk: Walk, then: Escalate) -> Inquiry:
        """Record a person's review of what a model said, as the next link, and return it."""
        previous = then.previous
        template = InquiryRequest(
            id="",
            source=previous.source,
            question=then.question.persisted(),
            escalates=previous.id,
            problem=previous.problem,
            deadline=walk.deadline,
            people=previous.people,
            metadata=TELLS_REPLIES if walk.tells_replies else None,
        )
        return replace(self.inquiry(walk, then.ask, self._request(previous.question_id, template)), error=then.error)

    def inquiry(self, walk: Walk, ask: Ask, request: InquiryRequest, emissions: int = 1) -> Inquiry:
        """Open the inquiry of a request; a review of what a model said asks with that above it, and shows no default."""
        question = ask.question
        if (request.escalates or request.revises) and (review := self._review_of(request)):
            question = replace(question, context=review.question.context, default=UNSET)
        elif ask.prefill is UNSET and (draft := walk.walker.draft) is not UNSET:
            ask = replace(ask, prefill=draft)
        walk.waits_for = request.event_id
        policy = self._view.policy.question(request.question_id)
        if walk.asking.human_only:
            policy = replace(policy, exclusive=True)
        attached = self._view.settings.attached
        return Inquiry(
            self._view,
            ask,
            request,
            question,
            policy,
            attached,
            emissions,
            tells_replies=walk.tells_replies,
            is_a_persons=walk.is_a_persons and not attached,
        )

    def _review_of(self, request: InquiryRequest) -> InquiryRequest | None:
        """Return the review of a model's answer that a request is, or asks again since Back."""
        recorded = self._state.record.inquiries
        for _ in recorded:  # a damaged record may go round in a circle
            if request.escalates:
                return request
            before = recorded.get(request.revises or "")
            if before is None:
                return None
            request = before.request
        return None

    def ask_anew(self, walk: Walk, question: Question[Any], persisted: PersistedQuestion) -> Chain:
        """Record a request; what is still open under the same question id, and is not waited for in this run, asked something else."""
        record = self._view.call
        for chain in record.open_chains:
            if chain.asked.question_id == question.id and not self._replay.has_had(chain):
                self._state.supersede(chain.last.request)
        form = None
        if not walk.form_is_recorded:
            asked = walk.asking.form
            form = FormAuthored(
                len(asked.questions), tuple(_as_persisted(each, self._people(each)) for each in asked.questions), asked.review
            )
        revises = walk.inquiries.get(question.id) if walk.goes_back else None
        note = TELLS_REPLIES if walk.tells_replies else None
        people = walk.people.get(question.id) or self._people(question)
        may_be_a_models = people is None and (self._view.policy.questions or not self._view.settings.attached)
        if may_be_a_models and self.asks_a_model(walk, question.id, revises):
            note = {**(note or {}), **WITH_A_MODEL}
        template = InquiryRequest(
            id="",
            source=walk.asking.source,
            question=persisted,
            revises=revises,
            form=form,
            problem=walk.asking.problem,
            deadline=walk.deadline if walk.places or not self._state.now else earliest(self._state.now, self.deadlines(walk.asking)),
            people=people,
            metadata=note,
        )
        self._request(question.id, template)
        return record.chains[-1]

    def _people(self, question: Question[Any]) -> People | None:
        """Return whose question it is: the configuration's word, or what its author proposes, with the people behind the names."""
        policies = self._view.policy.questions
        people = (self._view.policy.question(question.id).people if policies else None) or question.people
        return None if people is None else self._state.settings.filled_in(people)

    def asks_a_model(self, walk: Walk, question_id: str, revises: str | None) -> bool:
        """Whether a model gets a question that has no answer yet and is no one's own, as the routing table has it."""
        if self._view.policy.question(question_id).target.kind != "user" and revises is None and not self._view.turn.breaker_is_open:
            return True
        return not (self._view.settings.attached or walk.is_a_persons) and self._view.policy.detached.tool == "auto"

    def _request(self, question_id: str, template: InquiryRequest) -> InquiryRequest:
        """Record a request: its id is allocated here, once."""
        call = self._view.call.request
        request = replace(
            template,
            id=self._state.record.next_inquiry_id(call.id, question_id),
            call=call.event_id,
            tool_call_id=call.id,
            question_id=question_id,
            requires=required_by(template.deadline, template.people),
        )
        return self._state.write(request)


def _as_persisted(question: Question[Any], people: People | None) -> dict[str, Json]:
    """Return a question of a form as the stream keeps it, with its id, its gate and its people; the form's deadline stands beside it."""
    kept = question.to_json() | {"answer_type": question.persisted().to_json()["answer_type"]}
    kept.pop("deadline_seconds", None)
    kept.pop("deadline", None)
    return kept if people is None else kept | {"people": cast("Json", to_builtins(people))}
