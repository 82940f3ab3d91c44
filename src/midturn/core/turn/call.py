"""One tool call: may it run, what does it ask, what did it say, may that be delivered."""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Mapping
from typing import Any, assert_never

from midturn.core.events import (
    AskedForm,
    CancelReason,
    InquiryAnswered,
    InquiryCancelled,
    InquiryRedacted,
    InquiryRequest,
    ToolCallResponse,
)
from midturn.core.form import Form
from midturn.core.form.steps import Ask, Cancelled, Completed, FormEnded, Review
from midturn.core.json_value import Json
from midturn.core.outcome import Success, ToolError
from midturn.core.question import PersistedQuestion, Question
from midturn.core.reply import Answered, Submitted
from midturn.core.routing import messages
from midturn.core.routing.policy import ToolPolicy
from midturn.core.secret import SecretValue
from midturn.core.turn import result
from midturn.core.turn.approval import Delivery, Permission, ReviewStep
from midturn.core.turn.effects import ClosePrompt, GiveAnswers, NoAnswer, RunTool, StopTool
from midturn.core.turn.host import OpenInquiry
from midturn.core.turn.inputs import Asking
from midturn.core.turn.inquiry import Inquiry
from midturn.core.turn.record import CallRecord, Chain
from midturn.core.turn.state import TurnState
from midturn.core.turn.walk import PLACEHOLDER, Walk


class Call:
    """A call in the running process. What is durable about it stands in its record; the rest is found again by replaying."""

    def __init__(self, state: TurnState, record: CallRecord, policy: ToolPolicy) -> None:
        self.state = state
        self.record = record
        self.policy = policy
        self.ends_turn = False
        self._executing = False
        self._answers: dict[str, Json | SecretValue] = {}
        self._emissions: Counter[tuple[str, bytes]] = Counter()
        self._walks: deque[Walk] = deque()
        self._inquiries: dict[str, OpenInquiry] = {}
        self._consulting: dict[str, OpenInquiry] = {}
        self._latest: Chain | None = None
        self._deciding: Permission | Delivery | ReviewStep | None = None

    @property
    def event(self) -> str:
        """The identity of the call."""
        return self.record.request.event_id

    @property
    def is_done(self) -> bool:
        """Whether the call has its response."""
        return self.record.response is not None

    @property
    def waits_for(self) -> str | None:
        """The id of the inquiry or approval that the call cannot go on without."""
        if self._walks:
            return self._walks[0].waiting
        return self._deciding.id if self._deciding else None

    @property
    def form(self) -> Form | None:
        """The form that the call cannot go on without."""
        return self._walks[0].asking.form if self._walks else None

    @property
    def is_moving(self) -> bool:
        """Whether something happens without a person who comes by later: the tool works, a model or an attached person is asked."""
        waits = self.waits_for
        return waits is None or not self.state.desk.is_parked(waits)

    # Running --------------------------------------------------------------------------------------------------------

    def begin(self) -> None:
        """Start the call, or start it again in a resumed turn: what was decided about it is not asked again."""
        arguments = self.record.arguments
        name = self.record.request.name
        if self.policy.run == "skip":
            self.respond(messages.switched_off(name))
        elif not isinstance(arguments, dict):
            self.respond(messages.broken_arguments(name, "they could not be read"))
        elif self.record.waiting("deliver"):
            self._deciding = Delivery.waiting(self)
            self._deciding.decide()
        elif self.policy.run == "unattended" or Permission.was_given(self.record):
            self.run()
        else:
            self._deciding = Permission(self)
            self._deciding.decide()

    def run(self) -> None:
        """Have the tool run with everything that was answered so far."""
        self.decided()
        self._executing = True
        self.state.want(RunTool(self.record.call, dict(self._answers)))

    def finished(self, outcome: Success | ToolError) -> None:
        """Take the tool's result, and see whether it may be delivered."""
        self._executing = False
        content, is_error = result.for_model(self.record, outcome, self._latest.last if self._latest else None)
        self._close_questions()
        if self.policy.result == "unattended":
            self.respond(content, is_error=is_error)
        elif self.policy.result == "skip":
            self.respond(messages.withheld(self.record.request.name))
        else:
            self._deciding = Delivery(self, content, is_error=is_error)
            self._deciding.decide()

    def respond(self, content: str, *, is_error: bool = True) -> None:
        """Give the call its one response; whatever of it is still open closes with it."""
        self._close_questions()
        self.decided()
        request = self.record.request
        self.state.write(ToolCallResponse(id=request.id, content=content, is_error=is_error, call=self.event))
        if self._executing:
            self._executing = False
            self.state.want(StopTool(self.event))

    def abandon(self) -> None:
        """Stop everything that moves, because the turn is over and its last events are written."""
        for inquiry in list(self._inquiries.values()):
            self.drop(inquiry)
        self.decided()
        self._walks.clear()
        if self._executing:
            self._executing = False
            self.state.want(StopTool(self.event))

    def end_turn(self) -> None:
        """The person ended the turn at a prompt of this call."""
        self.ends_turn = True

    # Asking ---------------------------------------------------------------------------------------------------------

    def asked(self, ask: int, asking: Asking) -> None:
        """Take a form that the tool wants answered; asks of one call queue."""
        if ask == 0:
            self._executing = False
        self._walks.append(Walk(ask, asking, self.state.drafts.get(self.record.request.name, {})))

    def dropped(self, ask: int) -> None:
        """Forget an ask that its coroutine gave up."""
        for walk in [w for w in self._walks if w.ask == ask]:
            if walk.waiting in self._inquiries:
                self._inquiries[walk.waiting].supersede()
            elif walk.waiting:
                self.decided()
            self._walks.remove(walk)

    def advance(self) -> None:
        """Walk on until somebody has to answer, the tool runs, or the call is done: a loop over what is there already."""
        while self._walks and not self.is_done and not self.ends_turn and self._walks[0].waiting is None:
            self._step(self._walks[0])

    def track(self, inquiry: OpenInquiry) -> None:
        """Keep an inquiry until it has its response."""
        self._inquiries[inquiry.id] = inquiry

    def consulted(self, id: str) -> OpenInquiry | None:
        """Return the open inquiry that a model is being asked."""
        return self._consulting.get(id)

    def consult_returned(self, id: str) -> OpenInquiry | None:
        """Return the inquiry whose side request is done: there is nothing to stop any more."""
        return self._consulting.pop(id, None)

    def consult(self, inquiry: OpenInquiry) -> None:
        """Note that a model is being asked."""
        self._consulting[inquiry.id] = inquiry

    def drop(self, inquiry: OpenInquiry) -> None:
        """Forget an inquiry that has its response, with its prompt or side request."""
        self._inquiries.pop(inquiry.id, None)
        if self._consulting.pop(inquiry.id, None):
            inquiry.stop_assistant()
        self.close_prompt(inquiry.id)
        for walk in self._walks:
            if walk.waiting == inquiry.id:
                walk.waiting = None

    def close_prompt(self, id: str) -> None:
        """Take a decision off the desk, and its prompt off the screen."""
        if self.state.desk.remove(id):
            self.state.want(ClosePrompt(id))

    def refuse(self, walk: Walk, reason: CancelReason, message: str) -> None:
        """Fail the call, or report the missing answer to a coroutine that asked to be told."""
        if walk.asking.on_failure == "fail_call":
            self.respond(message)
            return
        self._report(walk, reason)

    def _report(self, walk: Walk, reason: str) -> None:
        """Tell a coroutine that there is no answer, and why."""
        self._walks.remove(walk)
        self.state.want(GiveAnswers(self.event, walk.ask, {q.id: NoAnswer(reason) for q in walk.asking.form.questions}))

    def request_link(self, previous: InquiryRequest, question: Question[Any]) -> InquiryRequest:
        """Record the user's review of what a model said about a question."""
        return self._record(previous.question_id, question.persisted(), previous, escalates=previous.id)

    def _step(self, walk: Walk) -> None:
        match walk.step():
            case Ask() as ask:
                self._reach(walk, ask)
            case Review(answers):
                self._review(walk, answers)
            case Completed(answers) if walk.placeholders:
                self._ask_secret_again(walk, answers)
            case Completed(answers):
                self._complete(walk, answers)
            case Cancelled() as cancelled:
                self.state.drafts[self.record.request.name] = walk.walker.drafts
                self.respond(result.cancel_marker(cancelled), is_error=False)
            case FormEnded():
                self.end_turn()
            case _ as other:
                assert_never(other)

    def _reach(self, walk: Walk, ask: Ask) -> None:
        """Count what the tool emits, then answer from the record, or ask."""
        question = ask.question
        persisted = question.persisted()
        if question.id not in walk.emitted:
            walk.emitted.add(question.id)
            self._emissions[question.id, persisted.key] += 1
        chain = self._recorded(walk, question.id, persisted.key) or self._ask_anew(walk, question)
        self._come_to(walk, chain)
        if not chain.is_open:
            self._replay(walk, chain)
            return
        inquiry = Inquiry(self, walk, ask, chain.last.request)
        if self._emissions[question.id, persisted.key] > self.state.settings.limits.repeats:
            inquiry.exceed("repeats")
        else:
            inquiry.decide()

    def _come_to(self, walk: Walk, chain: Chain) -> None:
        """Note that this run of the call has come to an attempt, recorded before or now."""
        chain.used = True
        walk.form_is_recorded = True
        walk.goes_back = False
        walk.places.append(self.record.chains.index(chain))
        self._latest = chain

    def _recorded(self, walk: Walk, question_id: str, key: bytes) -> Chain | None:
        """Return the first recorded attempt of this very question that this run has not had."""
        reports = walk.asking.on_failure == "report"
        unused = (c for c in self.record.chains if not c.used and c.asks(question_id, key) and (reports or not c.is_refused))
        return next((c for c in unused if not c.is_superseded), None)

    def _replay(self, walk: Walk, chain: Chain) -> None:
        """Feed a recorded outcome as if it had just happened."""
        response = chain.last.response
        question_id = chain.asked.question_id
        match response:
            case InquiryAnswered(answer=answer, reason=reason, answered_by=who):
                by = who.by if who else "user"
                walk.answer(question_id, Answered(answer, reason=reason, automatic=by != "user"), response.id, by)
            case InquiryRedacted(answered_by=who):
                by = who.by if who else "user"
                walk.answer(question_id, Answered(PLACEHOLDER, automatic=by != "user"), response.id, by)
            case InquiryCancelled(reason="back"):
                walk.back()
            case InquiryCancelled(reason=reason):
                self._report(walk, reason)
            case None:
                raise AssertionError("an open chain is taken over, not replayed")
            case _ as other:
                assert_never(other)

    def _ask_anew(self, walk: Walk, question: Question[Any]) -> Chain:
        """Record a request; one that is open under the same question id asked something else."""
        self._supersede(question.id)
        self._request(walk, question, walk.inquiries.get(question.id) if walk.goes_back else None)
        return self.record.chains[-1]

    def _request(self, walk: Walk, question: Question[Any], revises: str | None) -> InquiryRequest:
        form = None
        if not walk.form_is_recorded:
            questions = walk.asking.form.questions
            form = AskedForm(len(questions), tuple(q.to_json() for q in questions))
        template = InquiryRequest(id="", source=walk.asking.source, question=question.persisted(), form=form, revises=revises)
        return self._record(question.id, template.question, template)

    def _record(
        self, question_id: str, question: PersistedQuestion, like: InquiryRequest, *, escalates: str | None = None
    ) -> InquiryRequest:
        """Record a request: its id is allocated here, once."""
        tool_call_id = self.record.request.id
        attempt = self.state.record.next_attempt(tool_call_id, question_id)
        return self.state.write(
            InquiryRequest(
                id=f"{tool_call_id}.{question_id}.{attempt}",
                source=like.source,
                question=question,
                call=self.event,
                tool_call_id=tool_call_id,
                question_id=question_id,
                escalates=escalates,
                revises=None if escalates else like.revises,
                form=None if escalates else like.form,
            )
        )

    def _supersede(self, question_id: str) -> None:
        """Close what is still open under the same question id: the tool asks something else now."""
        for chain in self.record.chains:
            if chain.is_open and chain.asked.question_id == question_id:
                self.state.write(InquiryCancelled(id=chain.last.request.id, reason="superseded"))

    def _review(self, walk: Walk, answers: Mapping[str, Json | SecretValue]) -> None:
        """Show all answers once more; a recorded revision of one of them means that Back was chosen here."""
        of_walk = set(walk.inquiries.values())
        if any(not c.used and c.asked.revises in of_walk for c in self.record.chains):
            walk.back()
            return
        if self._is_reviewed(walk):
            self.submitted(walk)
            return
        shown = {question_id: value for question_id, value in answers.items() if not isinstance(value, SecretValue)}
        self._deciding = ReviewStep(self, walk, shown)
        self._deciding.decide()

    def _is_reviewed(self, walk: Walk) -> bool:
        """Whether a person has approved the answers of this very walk: since it began, and before anything that this run has yet to ask."""
        began = min(walk.places)
        return any(began < place and all(c.used for c in self.record.chains[began:place]) for place in self.record.reviewed)

    def decided(self) -> None:
        """Take the decision that was waited for off the desk."""
        if self._deciding:
            self.close_prompt(self._deciding.id)
            self._deciding = None

    def submitted(self, walk: Walk) -> None:
        """The answers of a form are to be sent."""
        self.decided()
        walk.waiting = None
        walk.walker.feed(Submitted())

    def _ask_secret_again(self, walk: Walk, answers: dict[str, Any]) -> None:
        """Ask once more for a secret that was given before the process died: it was never written."""
        place, question = next((i, q) for i, q in enumerate(walk.asking.form.questions, 1) if q.id in walk.placeholders)
        if answers.get(question.id) is None:
            walk.placeholders.discard(question.id)  # a later answer has gated the question off
            return
        again = self._open_secret(question) or self._ask_anew(walk, question)
        again.used = True
        ask = Ask(question, place, len(walk.asking.form.questions))
        Inquiry(self, walk, ask, again.last.request).decide()

    def _open_secret(self, question: Question[Any]) -> Chain | None:
        """Return the open request of a secret; every recorded answer to it is used up, for none of them was written."""
        found: Chain | None = None
        for chain in self.record.chains:
            if chain.asks(question.id, question.persisted().key):
                found = chain if chain.is_open else found
                chain.used = chain.used or isinstance(chain.last.response, InquiryRedacted)
        return found

    def _complete(self, walk: Walk, answers: dict[str, Any]) -> None:
        """Give the tool what was answered: to the waiting coroutine, or by running it again."""
        self._walks.remove(walk)
        self._answers |= answers
        if walk.ask:
            self.state.want(GiveAnswers(self.event, walk.ask, walk.given(answers)))
        else:
            self.run()

    def _close_questions(self) -> None:
        """Close every question of the call that is still open: nobody needs its answer."""
        for chain in self.record.chains:
            if chain.is_open:
                self.state.write(InquiryCancelled(id=chain.last.request.id, reason="superseded"))
        for inquiry in list(self._inquiries.values()):
            self.drop(inquiry)
        if self._walks:
            self.decided()
            self._walks.clear()
