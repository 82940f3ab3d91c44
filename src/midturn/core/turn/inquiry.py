"""One open question of a call, from its request to its response."""

from __future__ import annotations

from typing import Any, assert_never, cast

from msgspec import UNSET, UnsetType
from msgspec.structs import replace

from midturn.core.events import (
    AnsweredBy,
    CancelReason,
    InquiryAnswered,
    InquiryCancelled,
    InquiryRedacted,
    InquiryRequest,
)
from midturn.core.form.steps import Ask
from midturn.core.json_value import Json, shown
from midturn.core.prompt import Prompt
from midturn.core.question import Question
from midturn.core.question.answer import answer_from_words
from midturn.core.question.answer_type import BooleanType, SecretType
from midturn.core.reply import Answered, Edited, EndedTurn, Replied, Reply, Submitted, Unavailable, WentBack
from midturn.core.routing import (
    AskAssistant,
    AskUser,
    Fail,
    QuestionPolicy,
    Route,
    Suspend,
    UseCached,
    UseConfigured,
    UseDefault,
    messages,
    route,
)
from midturn.core.routing.messages import LimitName
from midturn.core.secret import SecretValue
from midturn.core.turn.effects import ConsultAssistant, StopAssistant, Warn
from midturn.core.turn.host import Host
from midturn.core.turn.memory import answer_key
from midturn.core.turn.state import TurnState
from midturn.core.turn.walk import Walk
from midturn.errors import AnswerError

FLAG = "--answer"


class Inquiry:
    """A question on its way to whoever answers it. It closes exactly once, with one response."""

    def __init__(self, call: Host, walk: Walk, ask: Ask, request: InquiryRequest) -> None:
        self._call = call
        self._state: TurnState = call.state
        self._walk = walk
        self._ask = ask
        self.request = request
        self._question: Question[Any] = ask.question
        self._unattended = False
        self._escalate = False
        walk.waiting = request.id
        call.track(self)
        if request.escalates:
            self._question = replace(ask.question, context=request.question.context, default=UNSET)

    @property
    def id(self) -> str:
        """The inquiry's id."""
        return self.request.id

    def decide(self) -> None:
        """Carry out the route."""
        match self._route():
            case UseCached(value):
                self._answer(Answered(value, automatic=True), AnsweredBy("cached"))
            case UseConfigured(value):
                self._answer(Answered(value, automatic=True), AnsweredBy("static", origin=self._policy.origin))
            case UseDefault(value):
                self._answer(Answered(value, automatic=True), AnsweredBy("default"))
            case AskAssistant(escalate):
                self._consult(escalate=escalate)
            case AskUser():
                self._ask_user()
            case Suspend():
                self._state.desk.park(self)
            case Fail(reason):
                if reason == "invalid_static_answer":
                    self._warn_of_misfit()
                self._refuse(reason)
            case _ as other:
                assert_never(other)

    # A decision on the desk -----------------------------------------------------------------------------------------

    def settle_without_a_person(self) -> bool:
        """Look at the table once more when the prompt's turn comes."""
        if isinstance(self._route(), AskUser) and not self._is_one_too_many:
            return False
        self.decide()
        return True

    def prompt(self) -> Prompt:
        """Return what a person is shown."""
        question, call = self._question, self._call.record.call
        return Prompt(
            question=question,
            kind="tool",
            asked_by=self.request.source.header,
            index=self._ask.index,
            total=self._ask.total,
            prefill=self._walk.walker.draft if self._ask.prefill is UNSET else self._ask.prefill,
            can_go_back=self._ask.can_go_back,
            may_remember=_may_be_remembered(question),
            id=self.id,
            event=self.request.event_id,
            conversation=self._state.settings.conversation,
            tool=call.name,
            arguments=call.arguments,
            label=self._policy.prompt_label,
        )

    def take(self, reply: Reply, who: AnsweredBy) -> str | None:
        """Close with what a person did, or say why it does not fit."""
        match reply:
            case Answered():
                return self._take_answer(reply, who)
            case WentBack():
                if not self._ask.can_go_back:
                    return "There is no earlier answer to go back to."
                self._cancel("back")
                self._walk.back()
            case Replied():
                self._cancel("reply")
                self._walk.reply(reply)
            case EndedTurn():
                self._call.end_turn()
            case Unavailable():
                self.nobody_there()
            case Edited() | Submitted():
                return "This question takes an answer."
            case _ as other:
                assert_never(other)
        return None

    def fail(self, error: str) -> None:
        """Close, because the prompter failed."""
        self._cancel("backend_error")
        self._call.refuse(self._walk, "backend_error", messages.prompt_failed(self._tool, self._question.text, error))

    def nobody_there(self) -> None:
        """Route again as not attached."""
        self._state.desk.remove(self.id)
        self._unattended = True
        self.decide()

    # The assistant --------------------------------------------------------------------------------------------------

    def assistant_said(self, answer: Json, who: AnsweredBy, reason: str | None, metadata: dict[str, Json] | None) -> None:
        """Close with a model's answer; a "no" under escalation goes on to the user."""
        self._state.write(InquiryAnswered(id=self.id, answer=answer, answered_by=who, reason=reason, metadata=metadata))
        if self._escalate and answer is False and self._escalated(messages.recommended_rejection(reason)):
            self._call.drop(self)
            return
        self._closed(Answered(answer, reason=reason, automatic=True), who.by)

    def assistant_failed(self, error: str, metadata: dict[str, Json] | None) -> None:
        """Close without an answer; under escalation a person is asked: a failure is not a "no"."""
        self._state.write(InquiryCancelled(id=self.id, reason="backend_error", metadata=metadata))
        self._call.drop(self)
        if self._escalate and self._escalated(messages.reviewer_failed(error)):
            return
        self._call.refuse(self._walk, "backend_error", messages.assistant_failed(self._tool, self._question.text, error))

    def supersede(self) -> None:
        """Close, because the tool goes on without the answer."""
        self._cancel("superseded")

    # How it closes --------------------------------------------------------------------------------------------------

    def _take_answer(self, reply: Answered, who: AnsweredBy) -> str | None:
        try:
            value = self._question.check(reply.value)
        except AnswerError as error:
            return str(error)
        remember = reply.remember and _may_be_remembered(self._question)
        self._answer(Answered(value, reason=reply.reason, remember=remember), who)
        return None

    def _answer(self, answered: Answered, who: AnsweredBy) -> None:
        if isinstance(answered.value, SecretValue):
            self._state.write(InquiryRedacted(id=self.id, answered_by=who))
        else:
            self._state.write(
                InquiryAnswered(id=self.id, answer=answered.value, answered_by=who, reason=answered.reason, remembered=answered.remember)
            )
        self._closed(answered, who.by)

    def _closed(self, answered: Answered, by: str) -> None:
        self._call.drop(self)
        self._walk.answer(self.request.question_id, answered, self.id, by)

    def _cancel(self, reason: CancelReason, metadata: dict[str, Json] | None = None) -> None:
        self._state.write(InquiryCancelled(id=self.id, reason=reason, metadata=metadata))
        self._call.drop(self)

    def _refuse(self, reason: CancelReason) -> None:
        if reason in ("no_prompt_backend", "no_default", "detached_denied") and self._breaker_is_open:
            self.exceed("rejected_cycles")
            return
        self._cancel(reason)
        self._call.refuse(self._walk, reason, messages.refusal(self._tool, reason, self.request.question_id))

    def exceed(self, limit: LimitName) -> None:
        """Close, because a limit is reached; the record says which."""
        self._cancel("limit_exceeded", {"limit": limit})
        count = getattr(self._state.settings.limits, limit)
        self._call.refuse(self._walk, "limit_exceeded", messages.limit_exceeded(self._tool, limit, count))

    # Where it goes --------------------------------------------------------------------------------------------------

    @property
    def _tool(self) -> str:
        return self._call.record.request.name

    @property
    def _policy(self) -> QuestionPolicy:
        return self._call.policy.question(self.request.question_id)

    def _route(self) -> Route:
        """Ask the table. What Back asks again, and what a model rejected, go to the user."""
        policy, tool = self._policy, self._call.policy
        again = self.request.revises is not None or self.request.escalates is not None
        return route(
            self._question,
            target="user" if again or self._breaker_is_open else policy.target,
            cached=UNSET if again else self._cached(),
            configured=UNSET if again else self._configured(),
            attached=self._state.settings.attached and not self._unattended,
            detached=tool.detached.tool,
            exclusive=True if self.request.escalates or self._breaker_is_open else policy.exclusive,
        )

    @property
    def _breaker_is_open(self) -> bool:
        """Whether only a person may answer because models have said no too often; who goes back is a person already."""
        return self._state.record.breaker_is_open and self.request.revises is None

    def _configured(self) -> Json | UnsetType:
        """Return the configured answer; the words of `--answer` are read as an answer to this question.

        No secret is taken from a command line: there the question is asked as if nothing was configured.
        """
        answer = self._policy.answer
        if self._policy.origin != FLAG or not isinstance(answer, str):
            return answer
        if not isinstance(self._question.answer_type, SecretType):
            return answer_from_words(self._question, answer)
        self._warn_once("a secret is not taken from the command line, where the shell's history keeps it; the words were not used.")
        return UNSET

    def _cached(self) -> Json | UnsetType:
        """Return what was remembered, unless this call has had it for an equal question already."""
        key = answer_key(self._tool, self.request.question_id)
        answers = self._state.record.memory.answers
        if key not in answers:
            return UNSET
        value = answers[key]
        had = self._call.record.has_had(self.request.question_id, self.request.question.key, value)
        return UNSET if had else value

    @property
    def _is_one_too_many(self) -> bool:
        """Whether the person has been shown enough in this turn."""
        shown = self._state.record.shown
        mine = (self.request.call, self.request.question_id, self.request.question.key)
        return mine not in shown and len(shown) >= self._state.settings.limits.shown

    def _ask_user(self) -> None:
        if self._is_one_too_many:
            self.exceed("shown")
        else:
            self._state.desk.queue(self)

    def _consult(self, *, escalate: bool) -> None:
        boolean = isinstance(self._question.answer_type, BooleanType)
        if escalate and not boolean:
            self._warn_once("only yes/no questions can be escalated; the assistant's answer stands.")
        self._escalate = escalate and boolean
        self._call.consult(self)
        self._state.want(ConsultAssistant(self.request, self._tool))

    def _warn_of_misfit(self) -> None:
        """Say which configured answer does not fit, to which question, and why: the call fails because of it."""
        answer = cast("Json", self._configured())
        try:
            self._question.check(answer)
        except AnswerError as error:
            given = (
                "the configured secret" if isinstance(self._question.answer_type, SecretType) else f"the configured answer {shown(answer)}"
            )
            self._warn_once(f"{given} does not fit the question {self._question.text!r}, so the call failed: {error}")

    def _warn_once(self, what: str) -> None:
        """Say something about this question, once in a process."""
        key = answer_key(self._tool, self.request.question_id)
        if key not in self._state.warned:
            self._state.warned.add(key)
            self._state.want(Warn(f"{key}: {what}"))

    def stop_assistant(self) -> None:
        """Stop asking a model, where one is being asked."""
        self._state.want(StopAssistant(self.id))

    def _escalated(self, heading: str) -> bool:
        """Ask the user in place of the model, where the policy has one to ask. False: what the model did stands."""
        original = self._ask.question
        policy, attached, default = self._call.policy.detached.tool, self._state.settings.attached, original.default
        if not attached and (policy in ("deny", "auto") or (policy == "defaults" and default is UNSET)):
            return False
        context = f"{heading}\n\n{original.context}" if original.context else heading
        asked = replace(original, context=context, default=UNSET)
        link = Inquiry(self._call, self._walk, self._ask, self._call.request_link(self.request, asked))
        if attached or policy == "defer" or default is UNSET:
            link.decide()
        else:
            link._answer(Answered(default, automatic=True), AnsweredBy("default"))
        return True


def _may_be_remembered(question: Question[Any]) -> bool:
    """Whether "remember" is offered, and so counts."""
    return question.persistence == "turn" and isinstance(question.answer_type, BooleanType)
