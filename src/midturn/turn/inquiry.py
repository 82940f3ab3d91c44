"""One open question of a call: its route, its prompt, and the consequences of every answer. Secrets are dropped here."""

from __future__ import annotations

from functools import partial
from typing import Any, assert_never, cast

from msgspec import UNSET, Struct, UnsetType
from msgspec.structs import replace

from midturn.errors import AnswerError
from midturn.question.answer import answer_from_words
from midturn.question.answer_type import Answered, BooleanType, Edited, Replied, SecretType, Submitted, WentBack
from midturn.question.question import Question
from midturn.question.walker import Ask
from midturn.record.events import (
    NO_ONE_THERE,
    AnsweredBy,
    CancelReason,
    InquiryAnswered,
    InquiryCancelled,
    InquiryRedacted,
    InquiryRequest,
    Vote,
)
from midturn.record.open_question import address
from midturn.record.prompt import Prompt
from midturn.routing import messages
from midturn.routing.messages import LimitName
from midturn.routing.policy import DetachedPolicy, QuestionPolicy, Words
from midturn.routing.table import AskAssistant, AskUser, Fail, Route, Suspend, UseCached, UseConfigured, UseDefault, route
from midturn.turn.decision import (
    BY_DEFAULT,
    AwaitPerson,
    Closing,
    Consult,
    Counted,
    Escalate,
    Give,
    GoBack,
    Going,
    Leave,
    Misfit,
    Refuse,
    Spoken,
    View,
    counted,
    labelled,
    put_to_people,
)
from midturn.turn.memory import answer_key, may_be_remembered
from midturn.turn.people import Poll, open_poll
from midturn.turn.state import allowed, is_one_too_many, is_repeated_too_often
from midturn.turn.step import AssistantFailed, AssistantReplied
from midturn.values.json_value import Json, SecretValue, shown

NO_SECRET_IN_WORDS = "a secret is not taken from the command line, which the shell and the conversation remember; the words were not used."  # noqa: S105  no secret
ONLY_BOOLEANS_ESCALATE = "only yes/no questions can be escalated; the assistant's answer stands."


class Inquiry(Struct, frozen=True):
    """A question on its way to its answer. It closes exactly once, with one response.

    `ask` is the step of its form, `question` what is put to a person, `emissions` how often the tool has asked it. `error` is what a model
    failed with that was asked before. `tells_replies` means that the tool hears of a reply, so that its words are kept for it.
    `is_a_persons` means that no one is attached to this run, and that it was put to a person before, or an earlier question of its form
    was: then no policy for those who are absent closes it.
    """

    view: View
    ask: Ask
    request: InquiryRequest
    question: Question[Any]
    policy: QuestionPolicy
    attached: bool
    emissions: int = 1
    error: str | None = None
    tells_replies: bool = False
    is_a_persons: bool = False

    @property
    def id(self) -> str:
        """The `event_id` of its request."""
        return self.request.event_id

    @property
    def event(self) -> str:
        """The same: a question is recorded before it is asked."""
        return self.request.event_id

    @property
    def request_id(self) -> str:
        """The id of the inquiry."""
        return self.request.id

    @property
    def poll(self) -> Poll | None:
        """Whose question it is; None where it is anyone's."""
        return open_poll(self.request, self.view.turn.notes)

    def going(self) -> Going:
        """Say what the routing table says, within the limits. What has people is theirs: nothing remembered or configured answers."""
        if is_repeated_too_often(self.emissions, self.view.settings.limits):
            return self._exceed("repeats")
        if (poll := self.poll) is not None:
            return self._of_people(poll)
        if self.request.escalates and not self.attached and (kept := self._without_review()):
            return kept
        going = self._carried_out(self._route())
        return replace(going, warning=NO_SECRET_IN_WORDS) if self._is_secret_in_words else going

    def prompt(self) -> Prompt:
        """Return what a person is shown."""
        call, poll = self.view.call.call, self.poll
        return Prompt(
            question=self.question,
            kind="tool",
            asked_by=self.request.source.header,
            index=self.ask.index,
            total=self.ask.total,
            prefill=self.ask.prefill,
            error=self.request.problem,
            can_go_back=self.ask.can_go_back,
            may_remember=may_be_remembered(self.question) and self.request.people is None,
            id=address(self.view.settings.conversation, self.request.event_id),
            event=self.request.event_id,
            conversation=self.view.settings.conversation,
            tool=call.name,
            arguments=call.arguments,
            deadline=self.request.deadline,
            label=labelled(self.policy.prompt_label, poll) if poll else self.policy.prompt_label,
            verdict=self._verdict,
            people=self.request.people,
        )

    def take(self, reply: Spoken, who: AnsweredBy) -> Closing | Counted | Misfit:
        """Close with what a person did, or say why it does not fit."""
        poll = self.poll
        if poll is not None and (why := poll.barred(who)):
            return Misfit.barring(why)
        if isinstance(reply, Answered):
            return self._take_answer(reply, who) if poll is None else self._take_vote(poll, reply, poll.named(who))
        return self._take_else(reply)

    def _take_else(self, reply: WentBack | Replied | Edited | Submitted) -> Closing | Misfit:
        """Close with what a person did in place of an answer."""
        match reply:
            case WentBack() if self.ask.can_go_back:
                return self._cancel("back", GoBack())
            case WentBack():
                return Misfit.because("There is no earlier answer to go back to.")
            case Replied():
                return self._cancel("reply", Leave(reply), {"reply": reply.text} if self.tells_replies and reply.text else None)
            case Edited() | Submitted():
                return Misfit.because("This question takes an answer.")
            case _ as other:
                assert_never(other)

    def fail(self, error: str) -> Closing:
        """Close, because the prompter failed."""
        message = messages.prompt_failed(self.view.tool, self.question.text, error)
        return self._cancel("backend_error", Refuse("backend_error", message))

    def expire(self) -> Closing:
        """Close, because no one has answered in time."""
        return self._cancel("deadline", Refuse("deadline", messages.past_deadline(self.view.tool, self.question.text)))

    def unattended(self) -> Inquiry:
        """Return the same question as if no one was attached."""
        return replace(self, attached=False)

    def model_said(self, said: AssistantReplied) -> Closing:
        """Close with a model's answer; a "no" under escalation goes on to the user."""
        who = AnsweredBy("assistant", model=said.model)
        record = InquiryAnswered(id=self.request.id, answer=said.answer, answered_by=who, reason=said.reason, metadata=said.metadata)
        escalation = self._escalation(messages.recommended_rejection(said.reason)) if said.answer is False else None
        answered = Answered(self.question.check(said.answer), reason=said.reason, automatic=True)
        return Closing(escalation or Give(self.request.question_id, answered, self.request.id, who.by), (record,))

    def model_failed(self, failed: AssistantFailed) -> Closing:
        """Close without an answer; under escalation a person is asked: a failure is not a "no"."""
        message = messages.assistant_failed(self.view.tool, self.question.text, failed.error)
        escalation = self._escalation(messages.reviewer_failed(failed.error), failed.error)
        return self._cancel("backend_error", escalation or Refuse("backend_error", message), failed.metadata)

    def by_default(self, default: Json) -> Closing:
        """Close with the default."""
        return self._answer(Answered(default, automatic=True), BY_DEFAULT)

    @property
    def _verdict(self) -> str | None:
        """What a reviewer said, where the user has the last word: it heads the context of what is asked again."""
        if self.question.context is None or self.question.context == self.ask.question.context:
            return None
        return self.question.context.removesuffix(self.ask.question.context or "").rstrip("\n")

    # Where it goes --------------------------------------------------------------------------------------------------

    def _of_people(self, poll: Poll) -> Going:
        """Put it to a person who is attached and may answer; else leave it to those who come by later, unless that is denied."""
        if is_one_too_many(self.request, self.view.turn, self.view.settings):
            return self._exceed("shown")
        if why := poll.why_never:
            refuse = Refuse("backend_error", messages.too_few(self.view.tool, self.question.text, why))
            return replace(self._cancel("backend_error", refuse), warning=why)
        if not self.attached and self._detached == "deny":
            return self._fail_closed("detached_denied")
        return put_to_people(poll, self.view.settings, attached=self.attached)

    def _carried_out(self, way: Route) -> Going:
        match way:
            case AskUser() | AskAssistant() | Suspend() | UseDefault() | Fail() if self.view.call.foretold and (agreed := self._agreed):
                return agreed
            case UseCached(value) | UseConfigured(value) | UseDefault(value):
                return self._answer(Answered(value, automatic=True), self._giver(way))
            case AskAssistant(escalate):
                return Consult(self.request, None if self._is_boolean or not escalate else ONLY_BOOLEANS_ESCALATE)
            case AskUser() if is_one_too_many(self.request, self.view.turn, self.view.settings):
                return self._exceed("shown")
            case AskUser() | Suspend():
                return AwaitPerson("person" if isinstance(way, AskUser) else "inbox")
            case Fail(reason):
                return self._fail_closed(reason)
            case _ as other:
                assert_never(other)

    @property
    def _agreed(self) -> Closing | None:
        """Close with the yes of the person who permitted the call, and saw this very question then."""
        if not self._is_boolean or self._is_asked_again or self.policy.target.kind != "user":
            return None
        who = self.view.call.agreed(self.request)
        return self._answer(Answered(True), who) if who is not None else None

    def _giver(self, way: UseCached | UseConfigured | UseDefault) -> AnsweredBy:
        """Say who gives an answer that is there already."""
        match way:
            case UseCached():
                return AnsweredBy("cached")
            case UseConfigured():
                return AnsweredBy("static", origin=self.policy.origin)
            case UseDefault():
                return BY_DEFAULT
            case _ as other:
                assert_never(other)

    def _route(self) -> Route:
        """Ask the table. What Back asks again, and what a model rejected, go to the user."""
        again, breaker_is_open = self._is_asked_again, self._breaker_is_open
        return route(
            self.question,
            target="user" if again or breaker_is_open else self.policy.target,
            cached=UNSET if again else self._cached(),
            configured=UNSET if again else self._configured(),
            attached=self.attached,
            detached="defer" if self.is_a_persons else self.view.policy.detached.tool,
            exclusive=True if self.request.escalates or breaker_is_open else self.policy.exclusive,
        )

    @property
    def _detached(self) -> DetachedPolicy:
        """What happens where no one is attached: what was put to a person stays put to a person."""
        return "defer" if self.is_a_persons else self.view.policy.detached.tool

    @property
    def _is_boolean(self) -> bool:
        return isinstance(self.question.answer_type, BooleanType)

    @property
    def _is_asked_again(self) -> bool:
        return self.request.revises is not None or self.request.escalates is not None

    @property
    def _breaker_is_open(self) -> bool:
        """Whether only a person may answer because models have said no too often; who goes back is a person already."""
        return self.view.turn.breaker_is_open and self.request.revises is None

    @property
    def _is_secret_in_words(self) -> bool:
        is_secret = isinstance(self.question.answer_type, SecretType)
        return is_secret and isinstance(self.policy.answer, Words) and not self._is_asked_again

    def _configured(self) -> Json | SecretValue | UnsetType:
        """Return the configured answer; words are read as an answer to this question.

        No secret is taken from words, which were typed on a command line: there the question is asked as if nothing was configured.
        """
        answer = self.policy.answer
        if not isinstance(answer, Words):
            return answer
        return UNSET if self._is_secret_in_words else answer_from_words(self.question, answer.text)

    def _cached(self) -> Json | UnsetType:
        """Return what was remembered, unless this call has had it for an equal question already."""
        asked, call = self.request, self.view.call
        had = partial(call.has_had, asked.question_id, asked.question.key)
        return self.view.turn.memory.answer(answer_key(self.view.tool, asked.question_id), had)

    def _without_review(self) -> Closing | None:
        """Close the review of a model's answer where no one is there: by the default, or as the model left it. None: it waits."""
        policy, default = self._detached, self.ask.question.default
        if policy == "defer":
            return None
        if policy == "defaults" and not isinstance(default, UnsetType):
            return self.by_default(default)
        before = self.view.turn.inquiries[self.request.escalates or ""].response
        if before and before.outcome == "answered" and before.answered_by:
            answer = Answered(self.question.check(before.answer), reason=before.reason, automatic=True)
            return self._answer(answer, before.answered_by)
        message = messages.assistant_failed(self.view.tool, self.question.text, self.error or "it gave no answer")
        return self._cancel("backend_error", Refuse("backend_error", message))

    # How it closes --------------------------------------------------------------------------------------------------

    def _take_answer(self, reply: Answered, who: AnsweredBy) -> Closing | Misfit:
        try:
            value = self.question.check(reply.value)
        except AnswerError as error:
            return Misfit(error.problems)
        remember = bool(reply.remember) and may_be_remembered(self.question)
        return self._answer(Answered(value, reason=reply.reason, remember=remember, automatic=who.by != "user"), who)

    def _take_vote(self, poll: Poll, reply: Answered, who: AnsweredBy) -> Closing | Counted | Misfit:
        """Count a yes where several have to say it; the first no, and whatever one person may say alone, is the answer."""
        closing = self._take_answer(replace(reply, remember=False), who)
        if isinstance(closing, Misfit) or poll.needed == 1:
            return closing
        if reply.value is True and (why := poll.why_no_vote(who)):
            return Misfit.barring(why)
        return counted(poll, Vote(id=self.request.id, answer=reply.value is True, reason=reply.reason, answered_by=who), closing)

    def _answer(self, answered: Answered, who: AnsweredBy) -> Closing:
        give = Give(self.request.question_id, answered, self.request.id, who.by)
        return Closing(give, (recorded_answer(self.request.id, answered, who),))

    def _cancel(self, reason: CancelReason, then: GoBack | Leave | Refuse | Escalate, metadata: dict[str, Json] | None = None) -> Closing:
        return Closing(then, (InquiryCancelled(id=self.request.id, reason=reason, metadata=metadata),))

    def _fail_closed(self, reason: CancelReason) -> Closing:
        if reason in NO_ONE_THERE and self._breaker_is_open:
            return self._exceed("rejected_cycles")
        refusal = self._cancel(reason, Refuse(reason, messages.refusal(self.view.tool, reason, self.request.question_id)))
        return replace(refusal, warning=self._why_it_does_not_fit()) if reason == "invalid_static_answer" else refusal

    def _why_it_does_not_fit(self) -> str | None:
        """Say which configured answer does not fit, to which question, and why: the call fails because of it."""
        answer = cast("Json", self._configured())
        try:
            self.question.check(answer)
        except AnswerError as error:
            is_secret = isinstance(self.question.answer_type, SecretType)
            given = "the configured secret" if is_secret else f"the configured answer {shown(answer)}"
            return f"{given} does not fit the question {self.question.text!r}, so the call failed: {error}"
        return None

    def _exceed(self, limit: LimitName) -> Closing:
        """Close, because a limit is reached; the record says which."""
        message = messages.limit_exceeded(self.view.tool, limit, allowed(limit, self.view.settings.limits))
        return self._cancel("limit_exceeded", Refuse("limit_exceeded", message), {"limit": limit})

    def _escalation(self, heading: str, error: str | None = None) -> Escalate | None:
        """Return the question to the user in place of the model, where the policies have one to ask. None: what the model did stands."""
        if self.policy.target.kind != "assistant_with_escalation" or not self._is_boolean or self._is_asked_again:
            return None
        original = self.ask.question
        policy, attached, default = self._detached, self.view.settings.attached, original.default
        if not attached and (policy in ("deny", "auto") or (policy == "defaults" and default is UNSET)):
            return None
        context = f"{heading}\n\n{original.context}" if original.context else heading
        asked = replace(original, context=context, default=UNSET)
        return Escalate(self.ask, self.request, asked, UNSET if attached or policy == "defer" else default, error)


# Records of secrets: who answered, and nothing else -------------------------------------------------------------------


def recorded_answer(id: str, answered: Answered, who: AnsweredBy) -> InquiryAnswered | InquiryRedacted:
    """Return the event that an answer becomes. The class for a secret has no field that could hold it."""
    if isinstance(answered.value, SecretValue):
        return InquiryRedacted(id=id, answered_by=who)
    return InquiryAnswered(id=id, answer=answered.value, answered_by=who, reason=answered.reason, remembered=answered.remember is True)
