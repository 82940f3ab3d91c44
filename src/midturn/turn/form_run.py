"""Runs one form that a tool asks: uses the recorded answers first, then asks people or models.

Theory of operation
===================

A tool asks a form in one of two ways: it returns the form, or one of its coroutines awaits a form
(`ctx.ask`). The call creates a `FormRun` for each form. `advance` uses the recorded answers until
it needs a decision. The call routes this decision, and the form run waits until the decision is
closed. `accept`, `fail`, `report_reply` and `escalate` process the next action after the decision.
A form is done when all its questions have answers, or when it ends without them. `advance`, `fail`
or `report_reply` then returns an `AskResult` for the tool, or a `Respond` that ends the call.

A recorded answer and a new answer produce the same action (`turn/replay.py`), so a replayed form
asks the same questions as before.

Most forms have one question and no review. The answer completes such a form, so no `FormWalker` is
created unless the person goes back or replies to the model.

The rows F1 to F24 of the state table (`turn/state_table.py`) describe this module.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeAlias, assert_never

from msgspec import UNSET, Struct
from msgspec.structs import replace

from midturn.errors import AnswerError
from midturn.events.types import InquiryRequest
from midturn.question.json_value import Json, SecretValue
from midturn.question.people import People
from midturn.question.persisted_question import PersistedQuestion
from midturn.question.question import Question
from midturn.question.reply import Replied, Submitted, WentBack
from midturn.question.walker import Ask, Cancelled, Completed, FormEnded, FormWalker, Review, copied
from midturn.routing import messages
from midturn.routing.policy import QuestionPolicy
from midturn.turn import requests
from midturn.turn.approvals import ReviewDecision
from midturn.turn.call_record import QuestionThread
from midturn.turn.decision import (
    DecisionContext,
    Escalate,
    FailQuestion,
    LeaveForm,
    Respond,
    StepBack,
    SubmitForm,
    UseAnswer,
)
from midturn.turn.inputs import Answer, FormWanted, Given, NoAnswer
from midturn.turn.question import QuestionDecision
from midturn.turn.queue import DecisionQueue, FormScreen
from midturn.turn.replay import PLACEHOLDER, Replay, recorded_action
from midturn.turn.result import cancel_marker, with_reasons
from midturn.turn.step_output import StepOutput
from midturn.turn.votes import Poll


class FormRunContext(Struct, frozen=True):
    """State shared by all form runs of a call."""

    output: StepOutput
    queue: DecisionQueue
    context: DecisionContext
    replay: Replay


class AskResult(Struct, frozen=True):
    """The answers to one form, or the reasons for missing answers.

    Args:
        ask: Number of the `await ctx.ask` in the run. None if the tool returned the form and runs
            again with the answers.
        given: The answers for the tool, by question id.
        answers: The answers for the next run of the tool.
        unanswered: Reasons for missing answers, by question id, for the next run of the tool.
        is_complete: Whether the whole form was answered.
        at_once: Whether the call never had two open questions at the same time so far.
    """

    ask: int | None
    given: Given
    answers: Mapping[str, Json | SecretValue]
    unanswered: Mapping[str, str] = {}
    is_complete: bool = False
    at_once: bool = False


Advance: TypeAlias = QuestionDecision | ReviewDecision | AskResult | Respond


class FormRun:
    """A form that a tool asks, with its progress.

    Args:
        shared: State shared with the other form runs of the call.
        number: Number of the ask in this run of the call, from 1.
        ask: Number of the `await ctx.ask` in the run. None for a form that the tool returned.
        asking: The form, and how the tool asks it.
    """

    def __init__(
        self, shared: FormRunContext, number: int, ask: int | None, asking: FormWanted
    ) -> None:
        self.ask = ask
        self.decision: QuestionDecision | ReviewDecision | None = None
        """The decision that the form run waits for."""
        self.screen = FormScreen() if len(asking.form.questions) > 1 else None
        self.deadline = ""
        """The deadline for every question in the form, set by the form's first request."""
        self.places: list[int] = []
        """Indexes of the question threads in the call record that this form run matched or created.
        """
        self._output = shared.output
        self._queue = shared.queue
        self._context = shared.context
        self._replay = shared.replay
        self._number = number
        self._asking = asking
        self._is_single = len(asking.form.questions) == 1 and not asking.form.review
        self._form_is_recorded = self._is_single
        self._was_put_to_person = False
        self._went_back = False
        """Whether the last action was Back."""
        self._drafts = (
            shared.output.drafts.get(shared.context.tool, {}) if shared.output.drafts else {}
        )
        self._emitted: set[str] = set()
        self._people: dict[str, People] = {}
        """The people assigned to each question, by question id."""
        self._given: dict[str, Answer[Json | SecretValue]] = {}
        self._inquiries: dict[str, str] = {}
        """The id of the request that each answer came from, by question id."""
        self._placeholders: set[str] = set()
        """IDs of the questions that were answered with a secret in an earlier run. The secrets are
        lost.
        """
        self._left: Cancelled | None = None
        self._walker: FormWalker | None = None
        self._only_answer: Answer[Json | SecretValue] | None = None
        """The answer, if the form has only one question."""

    @property
    def reports_replies(self) -> bool:
        """Whether the tool receives a reply that a person gives instead of an answer. Otherwise a
        reply ends the call.
        """
        return self._asking.on_failure == "report_all"

    @property
    def walker(self) -> FormWalker:
        """The position in the form, and the answers so far. Created on first use."""
        if self._walker is None:
            self._walker = FormWalker(self._asking.form, drafts=self._drafts)
        return self._walker

    # Progress
    # ----------------------------------------------------------------------------------------------

    def advance(self) -> Advance | None:
        """Use the recorded answers. Return the next decision that is needed, or the result. None
        while a decision is open.
        """
        while self.decision is None:
            question = self._asking.form.questions[0]
            if self._only_answer is not None:
                return self._complete_with(question.id, self._only_answer)
            begins = self._is_single and not self.places
            found = self._reach(question) if begins else self._step()
            if found is not None:
                if isinstance(found, QuestionDecision | ReviewDecision):
                    self.decision = found
                return found
        return None

    def accept(self, action: UseAnswer | StepBack | LeaveForm | SubmitForm) -> None:
        """Apply the next action of the closed decision."""
        self.decision = None
        match action:
            case UseAnswer():
                given = self._note(action)
                if self._completes(action):
                    self._only_answer = given
                else:
                    self.walker.accept(
                        action.question_id,
                        action.answered.value,
                        automatic=action.answered.automatic,
                    )
            case StepBack():
                self._went_back = self._was_put_to_person = True
                self._step_back()
            case LeaveForm(replied):
                self._leave(replied)
            case SubmitForm():
                self.walker.feed(Submitted())
            case _ as other:
                assert_never(other)

    def fail(self, action: FailQuestion) -> AskResult | None:
        """Return the result for a tool that handles missing answers. None if the call fails."""
        return self._without_answer(action) if self._reports(action) else None

    def report_reply(self, reply: str | None) -> AskResult | None:
        """Return the result for a tool that handles replies. None if a reply ends the call."""
        return (
            self._without_answer(FailQuestion("reply", reply=reply))
            if self.reports_replies
            else None
        )

    def escalate(self, action: Escalate) -> QuestionDecision:
        """Ask a person to review a model's answer: write a request as the next attempt. Return the
        decision to wait for.
        """
        request = requests.escalation_request(action, self._asking, self.deadline)
        review = self._question(
            action.ask, requests.write_request(self._output, self._context, request)
        )
        self.decision = review = replace(review, error=action.error)
        return review

    # One position of the form
    # ----------------------------------------------------------------------------------------------

    def _step(self) -> Advance | None:
        match self._left or self.walker.step():
            case Ask(question):
                return self._reach(question)
            case Review(answers):
                return self._review(answers)
            case Completed() if self._context.call.revisions and self._replay.is_revised(
                self._inquiries.values()
            ):
                self.accept(StepBack())
                return None
            case Completed(answers) if self._placeholders:
                return self._secret_again(answers)
            case Completed(answers):
                return self._complete(self._with_responders(answers))
            case Cancelled() as cancelled:
                return Respond(with_reasons(self._marker(cancelled), self._replay), is_error=False)
            case FormEnded():
                raise AssertionError("ending the turn is not an action of a form")
            case _ as other:
                assert_never(other)

    def _reach(self, question: Question[Any]) -> Advance | None:
        """Process the next question of the form: use the recorded answer, or ask."""
        persisted = question.persisted()
        emissions = self._replay.count_emission(
            question.id, persisted.key, is_new=question.id not in self._emitted
        )
        self._emitted.add(question.id)
        thread, action = self._on_record(question, persisted)
        if not self.places:
            self.deadline = thread.asked.deadline
        if thread.asked.people is not None:
            self._people.setdefault(question.id, thread.asked.people)
        self._replay.use(thread, self._number)
        self.places.append(thread.place)
        self._form_is_recorded, self._went_back = True, False
        match action:
            case None:
                self._was_put_to_person = self._was_put_to_person or self._replay.was_put_to_person(
                    thread
                )
                is_first = self._is_single and self._walker is None and not self._drafts
                ask = Ask(question, 1, 1) if is_first else self._current()
                return self._question(ask, thread.last.request, emissions)
            case UseAnswer() if self._completes(action):
                return self._complete_with(question.id, self._note(action))
            case UseAnswer() | StepBack():
                self.accept(action)
                return None
            case FailQuestion(reason="deadline"):
                return self._past_deadline(question.text)
            case FailQuestion():
                return self._without_answer(action)

    def _on_record(
        self, question: Question[Any], persisted: PersistedQuestion
    ) -> tuple[QuestionThread, UseAnswer | StepBack | FailQuestion | None]:
        """Return the question thread that matches, and its next action. The action is None while
        the question is open.

        If no thread matches, write a new request.

        A recorded answer that is invalid for the question is not used, and the user is warned:
        someone edited the log.
        """
        while thread := self._replay.find(question.id, persisted.key, self._asking):
            response = thread.last.response
            if (
                response is None
                and thread.is_with_a_model
                and not self._is_for_model(question.id, thread.asked.revises)
            ):
                # a person must decide now, so write a new request, which supersedes the request to
                # the model
                break
            if response is None:
                return thread, None
            try:
                return thread, recorded_action(thread, question)
            except AnswerError as error:
                self._replay.use(thread)
                what = (
                    f"the recorded answer to {question.text!r} does not fit the question, so the"
                    " question is asked again."
                )
                self._output.warn(
                    f"{self._context.tool}.{question.id}", f"{what} {error}", response.event_id
                )
        return self._ask_new(question, persisted), None

    def _is_for_model(self, question_id: str, revises: str | None) -> bool:
        return requests.is_for_model(
            self._context, question_id, revises, was_put_to_person=self._was_put_to_person
        )

    def _ask_new(self, question: Question[Any], persisted: PersistedQuestion) -> QuestionThread:
        """Write a request. First supersede each open question that has the same id but that this
        run did not match: its content is different.
        """
        context = self._context
        for thread in context.call.open_threads:
            if (
                thread.asked.question_id == question.id
                and not self._replay.has_used(thread)
                and self._asking.has_asked(thread.asked.source)
            ):
                self._output.supersede(thread.last.request)
        request = requests.question_request(
            context,
            self._asking,
            question,
            persisted,
            is_first=not self._form_is_recorded,
            revises=self._inquiries.get(question.id) if self._went_back else None,
            people=self._people.get(question.id),
            deadline=(
                self.deadline
                if self.places
                else requests.new_deadline(self._output, self._asking, context.policy)
            ),
            was_put_to_person=self._was_put_to_person,
        )
        requests.write_request(self._output, context, request)
        return context.call.threads[-1]

    def _question(self, ask: Ask, request: InquiryRequest, emissions: int = 1) -> QuestionDecision:
        """Return the decision for a request. A review of a model's answer shows that answer as
        context, and no default.
        """
        context, question = self._context, ask.question
        review = (
            requests.review_behind(self._output.record.inquiries, request)
            if request.escalates or request.revises
            else None
        )
        if review is not None:
            question = replace(question, context=review.question.context, default=UNSET)
        elif (
            self._walker is not None
            and ask.prefill is UNSET
            and (draft := self._walker.draft) is not UNSET
        ):
            ask = replace(ask, prefill=draft)
        policy, attached = context.policy.question(request.question_id), context.settings.attached
        return QuestionDecision(
            context,
            ask,
            request,
            question,
            self._without_configured_answer(policy) if self._asking.human_only else policy,
            attached,
            emissions,
            reports_replies=self.reports_replies,
            requires_person=self._was_put_to_person and not attached,
        )

    def _without_configured_answer(self, policy: QuestionPolicy) -> QuestionPolicy:
        """Return the policy of a question that only people may answer. A configured answer is meant
        for the questions of a tool, so it does not answer another agent.
        """
        if self._asking.on_behalf_of is None:
            return replace(policy, exclusive=True)
        return replace(policy, exclusive=True, answer=UNSET)

    def _current(self) -> Ask:
        match self._left or self.walker.step():
            case Ask() as ask:
                return ask
            case step:
                raise AssertionError(f"no question is open: {step}")

    def _review(self, answers: Mapping[str, Json | SecretValue]) -> Advance | None:
        """Return the decision about the review of all answers, or the recorded result of the
        review.
        """
        if self._replay.is_revised(self._inquiries.values()):
            self.accept(StepBack())
            return None
        recorded = self._replay.review(self.places)
        if recorded and recorded.state == "approved":
            self.accept(SubmitForm())
            return None
        questions = self._asking.form.questions
        if recorded and recorded.state == "expired":
            return self._past_deadline(questions[-1].text)
        if recorded and recorded.is_reply:
            return self._without_answer(
                FailQuestion("reply", reply=recorded.reason, on_record=recorded.event_id)
            )
        context = self._context
        waiting = recorded.id if recorded and recorded.state == "waiting" else None
        attached = context.settings.attached
        known, configured = (
            context.settings.known_people,
            bool(self._people) and requests.was_configured(context),
        )
        return ReviewDecision(
            context,
            waiting or self._queue.approval_id(context.call.request.id, "review"),
            attached,
            waiting is not None and not attached,
            questions,
            {
                question_id: value
                for question_id, value in answers.items()
                if not isinstance(value, SecretValue)
            },
            self._replay.form_of_review(self.places),
            self.reports_replies,
            self.deadline,
            tuple(
                Poll("", people, directory=known, configured=configured)
                for people in self._people.values()
                if people.only
            ),
            self._asking.source.header if self._asking.on_behalf_of else "",
        )

    def _secret_again(self, answers: Mapping[str, Json | SecretValue]) -> QuestionDecision | None:
        """Ask again for a secret that was given in an earlier run, because secrets are never
        written.
        """
        questions = self._asking.form.questions
        index, question = next(
            (i, q) for i, q in enumerate(questions, 1) if q.id in self._placeholders
        )
        if answers.get(question.id) is None:
            self._placeholders.discard(
                question.id
            )  # with the later answers, the question is not asked
            return None
        persisted = question.persisted()
        thread = self._replay.secret(question.id, persisted.key, self._asking) or self._ask_new(
            question, persisted
        )
        self._replay.use(thread)
        return self._question(Ask(question, index, len(questions)), thread.last.request)

    # Results
    # ----------------------------------------------------------------------------------------------

    def _complete(self, given: Mapping[str, Answer[Json | SecretValue]]) -> AskResult:
        values = {question_id: answer.value for question_id, answer in given.items()}
        return AskResult(
            self.ask,
            given,
            values,
            is_complete=True,
            at_once=self._context.call.is_sequential(self.places),
        )

    def _complete_with(self, question_id: str, answer: Answer[Json | SecretValue]) -> AskResult:
        return self._complete({question_id: Answer(copied(answer.value), answer.reason, answer.by)})

    def _past_deadline(self, text: str) -> AskResult | Respond:
        """Report a passed deadline to the tool if it can handle that. Otherwise end the call."""
        late = FailQuestion("deadline", messages.past_deadline(self._context.tool, text))
        return (
            self._without_answer(late)
            if self._reports(late)
            else Respond(with_reasons(late.message, self._replay))
        )

    def _without_answer(self, refusal: FailQuestion) -> AskResult:
        """Return the result for a tool that handles missing answers."""
        message = self._after_reply(refusal) if refusal.reason == "reply" else refusal.message
        none = NoAnswer(refusal.reason, refusal.reply, message)
        given = self._given_so_far() if refusal.reason == "deadline" else {}
        missing = [
            question.id for question in self._asking.form.questions if question.id not in given
        ]
        for_tool = dict.fromkeys(missing, none) | given
        if self.ask is not None:
            return AskResult(self.ask, for_tool, {})
        return AskResult(
            None,
            for_tool,
            {key: answer.value for key, answer in given.items()},
            dict.fromkeys(missing, refusal.reason),
        )

    def _reports(self, refusal: FailQuestion) -> bool:
        """Return whether the tool gets the reason for a missing answer.

        The tool chooses this with `on_failure`. A passed deadline is also reported to every
        coroutine, and to tools that handle deadlines.
        """
        if self._asking.on_failure != "fail_call":
            return True
        return refusal.reason == "deadline" and (
            self.ask is not None or self._context.policy.takes_deadlines
        )

    def _after_reply(self, refusal: FailQuestion) -> str:
        """Cancel the form because of a person's reply. Return the text for the model."""
        self.accept(LeaveForm(Replied(refusal.reply)))
        match self._left or self.walker.step():
            case Cancelled() as cancelled:
                return self._marker(cancelled, refusal.on_record)
            case step:
                raise AssertionError(f"a cancelled form continues: {step}")

    def _marker(self, cancelled: Cancelled, on_record: str | None = None) -> str:
        """Return the text for the model about a cancelled form. It contains all answers in the call
        so far.

        The answers are also stored as drafts, for the next time that the tool asks.
        """
        self._output.drafts[self._context.tool] = self.walker.drafts
        answers, own = (
            self._context.call.answers,
            {question.id for question in self._asking.form.questions},
        )
        so_far = answers.at_reply[on_record] if on_record else answers.now
        before = {key: answer for key, answer in so_far.items() if key not in own}
        return cancel_marker(Cancelled(before | cancelled.answered, cancelled.reply))

    def _completes(self, action: UseAnswer) -> bool:
        """Return whether this answer completes the form: the form has one question and no review,
        the answer is not a lost secret, and nobody chose Back.
        """
        is_placeholder = action.answered.value is PLACEHOLDER
        return (
            self._is_single
            and self._walker is None
            and not is_placeholder
            and not self._context.call.revisions
        )

    # Answers
    # ----------------------------------------------------------------------------------------------

    def _note(self, action: UseAnswer) -> Answer[Json | SecretValue]:
        """Store an answer with its responder and reason, and return it."""
        question_id, answered = action.question_id, action.answered
        self._was_put_to_person = self._was_put_to_person or action.by == "user"
        self._given[question_id] = given = Answer(answered.value, answered.reason, action.by)
        self._inquiries[question_id] = action.inquiry
        if answered.value is PLACEHOLDER:
            self._placeholders.add(question_id)
        else:
            self._placeholders.discard(question_id)
        return given

    def _with_responders(
        self, answers: Mapping[str, Json | SecretValue]
    ) -> dict[str, Answer[Json | SecretValue]]:
        """Add the responders and reasons to the answers."""
        found: dict[str, Answer[Json | SecretValue]] = {}
        for question_id, value in answers.items():
            given = self._given.get(question_id)
            if given is None or (value is None and given.value is not None):
                found[question_id] = Answer(None, by="skipped")
            else:
                found[question_id] = Answer(value, given.reason, given.by)
        return found

    def _given_so_far(self) -> dict[str, Answer[Json | SecretValue]]:
        """Return the answers so far, without lost secrets."""
        collected = self.walker.collected
        kept: dict[str, Json | SecretValue] = {
            key: collected[key] for key in collected if key not in self._placeholders
        }
        return self._with_responders(kept)

    def _step_back(self) -> None:
        """Go back to the previous question.

        If the form is already complete, its last question is asked again. This happens if a person
        chose Back at a recorded review, but the form no longer has a review.
        """
        match self.walker.step():
            case Completed():
                self.walker.reopen()
            case _:
                self.walker.feed(WentBack())

    def _leave(self, replied: Replied) -> None:
        """Cancel the form.

        A lost secret is asked for again after all other questions, and is still part of the form.
        """
        match self.walker.step():
            case Completed(answers):
                plain: dict[str, Json] = {
                    key: v
                    for key, v in answers.items()
                    if v is not None and not isinstance(v, SecretValue)
                }
                self._left = Cancelled(plain, replied.text)
            case _:
                self.walker.feed(replied)
