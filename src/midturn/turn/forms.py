"""The forms that a tool asks in one call: walks under way, what they put on record, and the answers so far."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeAlias, assert_never, cast

from msgspec import UNSET, Struct, to_builtins
from msgspec.structs import replace

from midturn.errors import AnswerError
from midturn.events.types import FormAuthored, InquiryRequest, required_by
from midturn.question.json_value import Json, SecretValue
from midturn.question.people import People, earliest
from midturn.question.persisted_question import PersistedQuestion
from midturn.question.question import Question
from midturn.question.reply import Answered, Replied, Reply
from midturn.question.walker import Ask, Cancelled, Completed, FormEnded, Review, copied
from midturn.routing import messages
from midturn.turn.approval import ReviewStep
from midturn.turn.decision import Escalate, Give, GoBack, Leave, Refuse, Respond, Send, View
from midturn.turn.inquiry import Inquiry
from midturn.turn.people import Poll
from midturn.turn.record import WITH_A_MODEL, Chain
from midturn.turn.state import TurnState
from midturn.turn.step import Answer, FormWanted, Given, NoAnswer
from midturn.turn.walk import PLACEHOLDER, Replay, Walk, answers_to_form, cancel_marker, recorded, with_reasons


class Answers(Struct, frozen=True):
    """A form is done: what its ask is given. `ask` is None for a form that the tool returned, to be run again with the answers.

    `at_once` where the call has asked one question after the other so far.
    """

    ask: int | None
    given: Given
    at_once: bool = False


Next: TypeAlias = Inquiry | ReviewStep | Answers | Respond


class CallForms:
    """Walks the forms of a call.

    `answers` is what the tool gets when it runs again, by question id, `unanswered` why it gets none, where it hears that.
    """

    def __init__(self, state: TurnState, view: View, replay: Replay) -> None:
        self._state = state
        self._view = view
        self._replay = replay
        self._requests = Requests(state, view, replay)
        self._walks: list[Walk] = []
        self._asked = 0
        self.answers: dict[str, Json | SecretValue] = {}
        self.unanswered: dict[str, str] = {}

    @property
    def waiting(self) -> list[str]:
        """The ids of the decisions that forms wait for, in the order in which the forms were asked."""
        return [walk.waits_for for walk in self._walks if walk.waits_for]

    def walk(self, id: str) -> Walk | None:
        """Return the walk that waits for a decision, where it is one of a form."""
        for walk in self._walks:
            if walk.waits_for == id:
                return walk
        return None

    def waiting_for(self, id: str) -> Walk:
        """Return the walk that waits for a decision of a form."""
        walk = self.walk(id)
        if walk is None:
            raise AssertionError(f"no form waits for {id!r}")
        return walk

    def answers_to(self, id: str, reply: Reply) -> dict[str, Answered] | None:
        """Return the answers to the whole form that waits for a decision, by question id; None where the reply is no such map.

        Raises:
            AnswerError: The map does not fit the form.
        """
        walk = self.walk(id)
        return answers_to_form(walk.walker, reply) if walk else None

    def add(self, ask: int | None, asking: FormWanted) -> None:
        """Take a form that the tool wants answered."""
        self._asked += 1
        screen = f"{self._view.call.request.event_id}.{self._asked}" if len(asking.form.questions) > 1 else None
        drafts = self._state.drafts.get(self._view.tool, {}) if self._state.drafts else {}
        self._walks.append(Walk(self._asked, ask, asking, drafts, screen))

    def drop(self, ask: int) -> list[str]:
        """Forget an ask that its coroutine gave up; return the decisions that it waited for."""
        return self._forget([walk for walk in self._walks if walk.ask == ask])

    def clear(self) -> list[str]:
        """Forget every ask; return the decisions that they waited for."""
        return self._forget(list(self._walks))

    def next(self) -> Next | None:
        """Say what comes next, past everything that is on record; None where a decision is awaited, or nothing is asked."""
        for walk in tuple(self._walks):
            while walk.waits_for is None:
                begins = walk.is_of_one and not walk.places
                found = self._reach(walk, walk.asking.form.questions[0]) if begins else self._step(walk)
                if found is not None:
                    return found
        return None

    def follow(self, id: str, then: Give | GoBack | Leave | Send) -> None:
        """Move the walk that waited for a decision."""
        self.waiting_for(id).follow(then)

    def report(self, id: str, refusal: Refuse) -> Answers | None:
        """Return what a coroutine hears that wants to know why there is no answer; None where its call fails."""
        walk = self.waiting_for(id)
        return self._report(walk, refusal) if self._hears(walk, refusal) else None

    def report_reply(self, id: str, reply: str | None) -> Answers | None:
        """Return what a coroutine hears that wants to know what the person said instead; None where that ends its call."""
        walk = self.waiting_for(id)
        return self._report(walk, Refuse("reply", reply=reply)) if walk.tells_replies else None

    def escalate(self, id: str, then: Escalate) -> Inquiry:
        """Record a person's review of what a model said, as the next link, and return it."""
        return self._requests.escalated(self.waiting_for(id), then)

    def has_deadline(self, asking: FormWanted) -> bool:
        """Whether something of what is asked has a deadline, of its own or by configuration."""
        return bool(self._requests.deadlines(asking))

    # One walk -------------------------------------------------------------------------------------------------------

    def _forget(self, gone: list[Walk]) -> list[str]:
        """Forget walks; return the decisions that they waited for."""
        for walk in gone:
            self._leave(walk)
        return [walk.waits_for for walk in gone if walk.waits_for]

    def _leave(self, walk: Walk) -> None:
        """Forget a walk, and the screen that it keeps."""
        self._walks.remove(walk)
        if walk.screen is not None:  # a form of several questions keeps its screen from its first question to here
            self._state.desk.leave(walk.screen)

    def _step(self, walk: Walk) -> Next | None:
        match walk.step():
            case Ask(question):
                return self._reach(walk, question)
            case Review(answers):
                return self._review(walk, answers)
            case Completed() if self._view.call.revisions and self._replay.goes_back(walk):
                walk.follow(GoBack())
                return None
            case Completed(answers) if walk.placeholders:
                return self._secret_again(walk, answers)
            case Completed(answers):
                return self._completed(walk, walk.given(answers))
            case Cancelled() as cancelled:
                return Respond(with_reasons(self._marker(walk, cancelled), self._replay), is_error=False)
            case FormEnded():
                raise AssertionError("End Turn ends the turn, not a walk")
            case _ as other:
                assert_never(other)

    def _completed(self, walk: Walk, given: Mapping[str, Answer[Json | SecretValue]]) -> Answers:
        self._leave(walk)
        for question_id, answer in given.items():
            self.answers[question_id] = answer.value
        if self.unanswered:
            self.unanswered = {key: why for key, why in self.unanswered.items() if key not in given}
        return Answers(walk.ask, given, self._view.call.is_one_by_one(walk.places))

    def _reach(self, walk: Walk, question: Question[Any]) -> Inquiry | Answers | Respond | None:
        """Count what the tool emits, then answer from the record, or ask."""
        persisted = question.persisted()
        emissions = self._replay.emits(walk, question.id, persisted.key)
        chain, outcome = self._on_record(walk, question, persisted)
        walk.deadline = walk.deadline if walk.places else chain.asked.deadline
        if chain.asked.people is not None:
            walk.people.setdefault(question.id, chain.asked.people)
        self._replay.comes_to(walk, chain)
        match outcome:
            case None:
                walk.is_a_persons = walk.is_a_persons or self._replay.was_put_to_a_person(chain)
                return self._requests.inquiry(walk, walk.asks(), chain.last.request, emissions)
            case Give() if walk.is_of_one and not self._view.call.revisions and outcome.answered.value is not PLACEHOLDER:
                noted = walk.note(outcome)
                return self._completed(walk, {question.id: Answer(copied(noted.value), noted.reason, noted.by)})
            case Give() | GoBack():
                walk.follow(outcome)
                return None
            case Refuse(reason="deadline"):
                return self._past_deadline(walk, question.text)
            case Refuse():
                return self._report(walk, outcome)

    def _past_deadline(self, walk: Walk, text: str) -> Answers | Respond:
        """Tell a coroutine that no one has answered in time; the call of a tool that returned its questions ends."""
        late = Refuse("deadline", messages.past_deadline(self._view.tool, text))
        return self._report(walk, late) if self._hears(walk, late) else Respond(with_reasons(late.message, self._replay))

    def _on_record(self, walk: Walk, question: Question[Any], persisted: PersistedQuestion) -> tuple[Chain, Give | GoBack | Refuse | None]:
        """Return the attempt that comes next and what it led to, None where it is open; it is recorded now where there is none.

        An answer on record that does not fit is told of, and counts as none: the log was edited.
        """
        while chain := self._replay.find(walk, question.id, persisted.key):
            response = chain.last.response
            if response is None and chain.is_with_a_model and not self._requests.asks_a_model(walk, question.id, chain.asked.revises):
                break  # now a person gets it: it closes, and is asked anew
            if response is None:
                return chain, None
            try:
                return chain, recorded(chain, question)
            except AnswerError as error:
                self._replay.use(chain)
                what = f"the answer on record to {question.text!r} does not fit, so it counts as none, and the question is asked again."
                self._state.warn(f"{self._view.tool}.{question.id}", f"{what} {error}", response.event_id)
        return self._requests.ask_anew(walk, question, persisted), None

    def _report(self, walk: Walk, refusal: Refuse) -> Answers:
        """Tell a coroutine that there is no answer, and why."""
        message = self._replied(walk, refusal) if refusal.reason == "reply" else refusal.message
        self._leave(walk)
        none = NoAnswer(refusal.reason, refusal.reply, message)
        given = walk.given_so_far if refusal.reason == "deadline" else {}
        missing = [question.id for question in walk.asking.form.questions if question.id not in given]
        if walk.ask is None:
            self.answers |= {key: answer.value for key, answer in given.items()}
            self.unanswered = {**self.unanswered, **dict.fromkeys(missing, refusal.reason)}
        return Answers(walk.ask, dict.fromkeys(missing, none) | given)

    def _hears(self, walk: Walk, refusal: Refuse) -> bool:
        """Whether the tool hears why there is no answer: a coroutine that wants to, and of a deadline each, and a tool that takes them."""
        if walk.asking.on_failure != "fail_call":
            return True
        return refusal.reason == "deadline" and (walk.ask is not None or self._view.policy.takes_deadlines)

    def _replied(self, walk: Walk, refusal: Refuse) -> str:
        """Leave a form for what a person said instead; return what a model reads of that."""
        walk.follow(Leave(Replied(refusal.reply)))
        match walk.step():
            case Cancelled() as cancelled:
                return self._marker(walk, cancelled, refusal.on_record)
            case step:
                raise AssertionError(f"a form that was left goes on: {step}")

    def _marker(self, walk: Walk, cancelled: Cancelled, on_record: str | None = None) -> str:
        """Return what a model reads of a form that was left: all that was answered in the call by then.

        What was typed is kept for the next time that the tool asks.
        """
        self._state.drafts[self._view.tool] = walk.walker.drafts
        answers, own = self._view.call.answers, {question.id for question in walk.asking.form.questions}
        by_then = answers.at_reply[on_record] if on_record else answers.now
        before = {key: answer for key, answer in by_then.items() if key not in own}
        return cancel_marker(Cancelled(before | cancelled.answered, cancelled.reply))

    def _review(self, walk: Walk, answers: Mapping[str, Json | SecretValue]) -> ReviewStep | Answers | Respond | None:
        """Show all answers once more, unless the record says what was done with them."""
        if self._replay.goes_back(walk):
            walk.follow(GoBack())
            return None
        recorded = self._replay.review(walk)
        if recorded and recorded.state == "approved":
            walk.follow(Send())
            return None
        if recorded and recorded.state == "expired":
            return self._past_deadline(walk, walk.asking.form.questions[-1].text)
        if recorded and recorded.is_reply:
            return self._report(walk, Refuse("reply", reply=recorded.reason, on_record=recorded.event_id))
        shown = {question_id: value for question_id, value in answers.items() if not isinstance(value, SecretValue)}
        waiting = recorded.id if recorded and recorded.state == "waiting" else None
        walk.waits_for = waiting or self._state.approval_id(self._view.call.request.id, "review")
        form = self._replay.form_of_review(walk)
        attached, questions = self._view.settings.attached, walk.asking.form.questions
        is_a_persons = waiting is not None and not attached
        known, configured = self._state.settings.known_people, bool(walk.people) and self._requests.was_configured
        polls = tuple(Poll("", people, directory=known, configured=configured) for people in walk.people.values() if people.only)
        step = ReviewStep(self._view, walk.waits_for, attached, is_a_persons, questions, shown, form, walk.tells_replies, walk.deadline)
        return replace(step, polls=polls) if polls else step

    def _secret_again(self, walk: Walk, answers: Mapping[str, Json | SecretValue]) -> Inquiry | None:
        """Ask once more for a secret that was given before the process died: it was never written."""
        questions = walk.asking.form.questions
        index, question = next((i, q) for i, q in enumerate(questions, 1) if q.id in walk.placeholders)
        if answers.get(question.id) is None:
            walk.placeholders.discard(question.id)  # a later answer has gated the question off
            return None
        persisted = question.persisted()
        again = self._replay.secret(question.id, persisted.key) or self._requests.ask_anew(walk, question, persisted)
        self._replay.use(again)
        return self._requests.inquiry(walk, Ask(question, index, len(questions)), again.last.request)


# ----------------------------------------------------------------------------------------------------------------------
# Requests: each gets its id, its deadline and its people here, and is opened as an inquiry


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
        found: list[str | float] = []
        for asked in asking.form.questions:
            if asked.deadline is not None:
                found.append(asked.deadline)
            if asked.deadline_seconds is not None:
                found.append(asked.deadline_seconds)
            if policy.questions and (configured := policy.question(asked.id).deadline) is not None:
                found.append(configured)
        return found

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
            configured=self.is_configured(people, form),
            metadata=note,
        )
        self._request(question.id, template)
        return record.chains[-1]

    def is_configured(self, people: People | None, form: FormAuthored | None) -> bool:
        """Whether people of this request, or of the later questions of its form, are named by a configuration."""
        if people is None and not any("people" in question for question in (form.questions if form else ())):
            return False
        return self._view.settings.names_people or self.was_configured

    @property
    def was_configured(self) -> bool:
        """Whether people that this call has asked are named by a configuration: of a visitor, who has none, only the record says so."""
        return any(chain.asked.configured for chain in self._view.call.chains)

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
