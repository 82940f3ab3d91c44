"""Decides an open question: its route, its prompt, and the result of a reply. Also keeps secrets
out of events.
"""

from __future__ import annotations

from functools import partial
from typing import Any, assert_never, cast

from msgspec import UNSET, Struct, UnsetType
from msgspec.structs import replace

from midturn.errors import AnswerError
from midturn.events import types as ev
from midturn.events.open_question import address
from midturn.events.prompt import Prompt
from midturn.question.answer import answer_from_words
from midturn.question.answer_type import BooleanType, SecretType
from midturn.question.json_value import Json, SecretValue, shown
from midturn.question.question import Question
from midturn.question.reply import Answered, Edited, Replied, Submitted, WentBack
from midturn.question.walker import Ask
from midturn.routing import messages
from midturn.routing.messages import LimitName
from midturn.routing.policy import DetachedPolicy, QuestionPolicy, Words
from midturn.routing.table import (
    AskAssistant,
    AskUser,
    Fail,
    Route,
    Suspend,
    UseCached,
    UseConfigured,
    UseDefault,
    route,
)
from midturn.turn import decision as decisions
from midturn.turn.inputs import AssistantFailed, AssistantReplied
from midturn.turn.limits import exceeds_repeats, exceeds_shown, limit_value
from midturn.turn.memory import answer_key, may_be_remembered, scopes_of
from midturn.turn.standing_decisions import answer_event
from midturn.turn.votes import Poll, open_poll

NO_SECRET_IN_WORDS = "a secret is not accepted on the command line, which the shell and the conversation store; the text was not used."  # noqa: S105  no secret
ONLY_BOOLEANS_ESCALATE = "only yes/no questions can be escalated; the assistant's answer stands."


class QuestionDecision(Struct, frozen=True):
    """A question that waits for an answer. The question closes exactly once, with one response.

    Args:
        context: Settings and records.
        ask: The step of the form walker that asks the question.
        request: The recorded request.
        question: The question as it is shown to a person.
        policy: The policy for the question.
        attached: Whether a person is attached.
        emissions: Number of times that the tool asked the same question in this run.
        error: The error of the model that was asked before, if it failed.
        reports_replies: Whether the tool receives a reply that a person gives instead of an
            answer. Such a reply is recorded.
        requires_person: Whether only a person may answer, because nobody is attached and a person
            was already asked this question or an earlier question of its form. The detached policy
            then does not apply.
    """

    context: decisions.DecisionContext
    ask: Ask
    request: ev.InquiryRequest
    question: Question[Any]
    policy: QuestionPolicy
    attached: bool
    emissions: int = 1
    error: str | None = None
    reports_replies: bool = False
    requires_person: bool = False

    @property
    def id(self) -> str:
        """The `event_id` of the request."""
        return self.request.event_id

    @property
    def event(self) -> str:
        """The `event_id` of the request. A question is always recorded before it is asked."""
        return self.request.event_id

    @property
    def request_id(self) -> str:
        """The id of the request."""
        return self.request.id

    @property
    def poll(self) -> Poll | None:
        """The people who decide. None if anybody may decide."""
        notes = self.context.turn.notes
        return (
            open_poll(self.request, notes, self.context.settings.known_people)
            if notes or self.request.people is not None
            else None
        )

    @property
    def digest(self) -> str:
        """Empty, because a question does not change."""
        return ""

    @property
    def was_changed(self) -> bool:
        """False, because a question does not change."""
        return False

    def route(self) -> decisions.DecisionRoute:
        """Return the route to the responder, or the resolution if the routing table or a limit
        already decides the question.

        If only certain people may answer the question, no remembered or configured answer is used.
        """
        if exceeds_repeats(self.emissions, self.context.settings.limits):
            return _exceed(self, "repeats")
        if (poll := self.poll) is not None:
            return _route_to_people(self, poll)
        if self.request.escalates and not self.attached and (resolution := _without_review(self)):
            return resolution
        found = _carry_out(self, _route(self))
        return replace(found, warning=NO_SECRET_IN_WORDS) if _is_secret_in_words(self) else found

    def prompt(self) -> Prompt:
        """Return the prompt for a person."""
        call, poll = self.context.call.call, self.poll
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
            scopes=() if self.request.people else tuple(scopes_of(self.question)),
            id=address(self.context.settings.conversation, self.request.event_id),
            event=self.request.event_id,
            conversation=self.context.settings.conversation,
            tool=call.name,
            arguments=call.arguments,
            deadline=self.request.deadline,
            label=(
                decisions.labelled(self.policy.prompt_label, poll)
                if poll
                else self.policy.prompt_label
            ),
            verdict=self._verdict,
            people=self.request.people,
        )

    # Replies
    # ----------------------------------------------------------------------------------------------

    def take(
        self, reply: decisions.DecisionReply, who: ev.AnsweredBy
    ) -> decisions.Resolution | decisions.VoteRecorded | decisions.InvalidReply:
        """Evaluate a person's reply."""
        poll = self.poll
        if poll is not None and (why := poll.barred(who)):
            return decisions.InvalidReply.barring(why)
        if isinstance(reply, Answered):
            return (
                self._take_answer(reply, who)
                if poll is None
                else self._take_vote(poll, reply, poll.named(who))
            )
        return self._take_other(reply)

    def _take_other(
        self, reply: WentBack | Replied | Edited | Submitted
    ) -> decisions.Resolution | decisions.InvalidReply:
        match reply:
            case WentBack() if self.ask.can_go_back:
                return self.cancel("back", decisions.StepBack())
            case WentBack():
                return decisions.InvalidReply.because("There is no earlier answer to go back to.")
            case Replied():
                metadata: dict[str, Json] | None = (
                    {"reply": reply.text} if self.reports_replies and reply.text else None
                )
                return self.cancel("reply", decisions.LeaveForm(reply), metadata)
            case Edited() | Submitted():
                return decisions.InvalidReply.because(
                    "Reply with an answer: this is not an approval."
                )
            case _ as other:
                assert_never(other)

    def _take_answer(
        self, reply: Answered, who: ev.AnsweredBy
    ) -> decisions.Resolution | decisions.InvalidReply:
        try:
            value = self.question.check(reply.value)
        except AnswerError as error:
            return decisions.InvalidReply(error.problems)
        remember = bool(reply.remember) and may_be_remembered(self.question)
        resolution = self.answer(
            Answered(value, reason=reply.reason, remember=remember, automatic=who.by != "user"), who
        )
        if reply.scope is None:
            return resolution
        event = answer_event(
            self.request, self.context.tool, self.question, replace(reply, value=value), who
        )
        return (
            decisions.InvalidReply.because(event)
            if isinstance(event, str)
            else replace(resolution, records=(*resolution.records, event))
        )

    def _take_vote(
        self, poll: Poll, reply: Answered, who: ev.AnsweredBy
    ) -> decisions.Resolution | decisions.VoteRecorded | decisions.InvalidReply:
        """If several people must approve, count a yes vote; the first refusal decides. If one
        person is enough, any answer decides.
        """
        resolution = self._take_answer(replace(reply, remember=False), who)
        if isinstance(resolution, decisions.InvalidReply) or poll.needed == 1:
            return resolution
        if reply.value is True and (why := poll.why_no_vote(who)):
            return decisions.InvalidReply.barring(why)
        vote = ev.Vote(
            id=self.request.id, answer=reply.value is True, reason=reply.reason, answered_by=who
        )
        return decisions.with_vote(poll, vote, resolution)

    # Resolutions
    # ----------------------------------------------------------------------------------------------

    def answer(self, answered: Answered, who: ev.AnsweredBy) -> decisions.Resolution:
        """Return the resolution that records an answer and gives it to the call."""
        action = decisions.UseAnswer(self.request.question_id, answered, self.request.id, who.by)
        return decisions.Resolution(action, (recorded_answer(self.request.id, answered, who),))

    def by_default(self, default: Json) -> decisions.Resolution:
        """Return the resolution that gives the default answer to the call."""
        return self.answer(Answered(default, automatic=True), decisions.BY_DEFAULT)

    def cancel(
        self,
        reason: ev.CancelReason,
        action: (
            decisions.UseAnswer
            | decisions.StepBack
            | decisions.LeaveForm
            | decisions.FailQuestion
            | decisions.Escalate
        ),
        metadata: dict[str, Json] | None = None,
    ) -> decisions.Resolution:
        """Return the resolution that closes the question without an answer."""
        return decisions.Resolution(
            action, (ev.InquiryCancelled(id=self.request.id, reason=reason, metadata=metadata),)
        )

    def fail(self, error: str) -> decisions.Resolution:
        """Return the resolution for a question whose prompter failed."""
        message = messages.prompt_failed(self.context.tool, self.question.text, error)
        return self.cancel("backend_error", decisions.FailQuestion("backend_error", message))

    def expire(self) -> decisions.Resolution:
        """Return the resolution for a question whose deadline has passed."""
        return self.cancel(
            "deadline",
            decisions.FailQuestion(
                "deadline", messages.past_deadline(self.context.tool, self.question.text)
            ),
        )

    def unattended(self) -> QuestionDecision:
        """Return a copy of this decision that treats nobody as attached."""
        return replace(self, attached=False)

    def left_open(self) -> QuestionDecision:
        """Return a copy of this decision that stays open until a person answers, whatever the
        detached policy is.
        """
        return replace(self, attached=False, requires_person=True)

    def model_said(self, said: AssistantReplied) -> decisions.Resolution:
        """Return the resolution for a question that a model answered. A "no" can be escalated to a
        person.
        """
        who = ev.AnsweredBy("assistant", model=said.model)
        record = ev.InquiryAnswered(
            id=self.request.id,
            answer=said.answer,
            answered_by=who,
            reason=said.reason,
            metadata=said.metadata,
        )
        escalation = (
            self._escalation(messages.recommended_rejection(said.reason))
            if said.answer is False
            else None
        )
        answered = Answered(self.question.check(said.answer), reason=said.reason, automatic=True)
        return decisions.Resolution(
            escalation
            or decisions.UseAnswer(self.request.question_id, answered, self.request.id, who.by),
            (record,),
        )

    def model_failed(self, failed: AssistantFailed) -> decisions.Resolution:
        """Return the resolution for a question that a model failed to answer. A failure does not
        count as a "no": if escalation is configured, a person is asked.
        """
        message = messages.assistant_failed(self.context.tool, self.question.text, failed.error)
        escalation = self._escalation(messages.REVIEWER_FAILED, failed.error)
        return self.cancel(
            "backend_error",
            escalation or decisions.FailQuestion("backend_error", message),
            failed.metadata,
        )

    def _escalation(self, heading: str, error: str | None = None) -> decisions.Escalate | None:
        """Return the escalation to a person, or None if the model's result is final."""
        if (
            self.policy.target.kind != "assistant_with_escalation"
            or not self.is_boolean
            or self.is_asked_again
        ):
            return None
        original = self.ask.question
        policy, attached, default = self.detached, self.context.settings.attached, original.default
        if not attached and (
            policy in ("deny", "auto") or (policy == "defaults" and default is UNSET)
        ):
            return None
        context = f"{heading}\n\n{original.context}" if original.context else heading
        asked = replace(original, context=context, default=UNSET)
        return decisions.Escalate(
            self.ask,
            self.request,
            asked,
            UNSET if attached or policy == "defer" else default,
            error,
        )

    # Properties
    # ----------------------------------------------------------------------------------------------

    @property
    def is_boolean(self) -> bool:
        """Whether this is a yes/no question."""
        return isinstance(self.question.answer_type, BooleanType)

    @property
    def is_asked_again(self) -> bool:
        """Whether this request repeats a question, after Back or to review a model's answer."""
        return self.request.revises is not None or self.request.escalates is not None

    @property
    def breaker_is_open(self) -> bool:
        """Whether only a person may answer, because models rejected too many requests in a row.

        False after Back, which only a person can choose.
        """
        return self.context.turn.breaker_is_open and self.request.revises is None

    @property
    def detached(self) -> DetachedPolicy:
        """The detached policy.

        It is `defer` if only a person may answer.
        """
        return "defer" if self.requires_person else self.context.policy.detached.tool

    @property
    def _verdict(self) -> str | None:
        """The model's answer that a person reviews. It is the first part of the context."""
        if self.question.context is None or self.question.context == self.ask.question.context:
            return None
        return self.question.context.removesuffix(self.ask.question.context or "").rstrip("\n")


# Routes: an existing answer, a model, a person, or a refusal
# --------------------------------------------------------


def _route_to_people(decision: QuestionDecision, poll: Poll) -> decisions.DecisionRoute:
    """Return the route to the attached person, if that person may answer, or to people who answer
    later. With the policy `deny`, the question is closed instead of waiting for people.
    """
    if not decision.attached and exceeds_shown(
        decision.request, decision.context.turn, decision.context.settings
    ):
        return _exceed(decision, "shown")
    if why := poll.why_never:
        action = decisions.FailQuestion(
            "backend_error", messages.too_few(decision.context.tool, decision.question.text, why)
        )
        return replace(decision.cancel("backend_error", action), warning=why)
    if not decision.attached and decision.detached == "deny":
        return _fail(decision, "detached_denied")
    return decisions.ask_people(poll, decision.context.settings, attached=decision.attached)


def _route(decision: QuestionDecision) -> Route:
    """Return the route according to the routing table.

    A question that is asked again after Back, or that a model rejected, is routed to the user.
    """
    again, breaker_is_open = decision.is_asked_again, decision.breaker_is_open
    return route(
        decision.question,
        target="user" if again or breaker_is_open else decision.policy.target,
        cached=UNSET if again else _remembered(decision),
        configured=UNSET if again else _configured(decision),
        attached=decision.attached,
        detached=decision.detached,
        exclusive=(
            True if decision.request.escalates or breaker_is_open else decision.policy.exclusive
        ),
    )


def _carry_out(decision: QuestionDecision, found: Route) -> decisions.DecisionRoute:
    match found:
        case AskUser() | AskAssistant() | Suspend() | UseDefault() | Fail() if (
            decision.context.call.was_previewed and (agreed := _agreed(decision))
        ):
            return agreed
        case UseCached(value) | UseConfigured(value) | UseDefault(value):
            return decision.answer(Answered(value, automatic=True), _responder(decision, found))
        case AskAssistant(escalate):
            return decisions.AskModel(
                decision.request,
                None if decision.is_boolean or not escalate else ONLY_BOOLEANS_ESCALATE,
            )
        case AskUser() | Suspend():
            return decisions.AskPerson("person" if isinstance(found, AskUser) else "inbox")
        case Fail(reason):
            return _fail(decision, reason)
        case _ as other:
            assert_never(other)


def _agreed(decision: QuestionDecision) -> decisions.Resolution | None:
    """Return the resolution if the approval of the call also answers this question, because the
    permission prompt showed it. None otherwise.
    """
    if not decision.is_boolean or decision.is_asked_again or decision.policy.target.kind != "user":
        return None
    who = decision.context.call.agreed(decision.request)
    return decision.answer(Answered(True), who) if who is not None else None


def _responder(
    decision: QuestionDecision, found: UseCached | UseConfigured | UseDefault
) -> ev.AnsweredBy:
    """Return the responder to record for a remembered, configured or default answer."""
    match found:
        case UseCached():
            return ev.AnsweredBy("cached")
        case UseConfigured():
            return ev.AnsweredBy("static", origin=decision.policy.origin)
        case UseDefault():
            return decisions.BY_DEFAULT
        case _ as other:
            assert_never(other)


def _is_secret_in_words(decision: QuestionDecision) -> bool:
    is_secret = isinstance(decision.question.answer_type, SecretType)
    return is_secret and isinstance(decision.policy.answer, Words) and not decision.is_asked_again


def _configured(decision: QuestionDecision) -> Json | SecretValue | UnsetType:
    """Return the configured answer. Text is parsed as an answer to this question.

    Text comes from the command line, so it is never used as a secret. Instead, the secret is asked
    for as if no answer were configured.
    """
    answer = decision.policy.answer
    if not isinstance(answer, Words):
        return answer
    return (
        UNSET
        if _is_secret_in_words(decision)
        else answer_from_words(decision.question, answer.text)
    )


def _remembered(decision: QuestionDecision) -> Json | UnsetType:
    """Return the remembered answer, unless this call already received it for the same question."""
    asked, call = decision.request, decision.context.call
    had = partial(call.has_had, asked.question_id, asked.question.key)
    memory, tool = decision.context.turn.memory, decision.context.tool
    answer = memory.answer(answer_key(tool, asked.question_id), had)
    if not isinstance(answer, UnsetType) or not scopes_of(decision.question):
        return answer
    return memory.standing_answer(tool, asked.question_id, asked.question.key, had)


def _without_review(decision: QuestionDecision) -> decisions.Resolution | None:
    """Resolve an escalated question while nobody is attached, with its default or the model's
    answer. None if it must wait for a person.
    """
    policy, default = decision.detached, decision.ask.question.default
    if policy == "defer":
        return None
    if policy == "defaults" and not isinstance(default, UnsetType):
        return decision.by_default(default)
    before = decision.context.turn.inquiries[decision.request.escalates or ""].attempt.response
    if before and before.outcome == "answered" and before.answered_by:
        answer = Answered(
            decision.question.check(before.answer), reason=before.reason, automatic=True
        )
        action = decisions.UseAnswer(
            decision.request.question_id,
            answer,
            decision.request.escalates or "",
            before.answered_by.by,
        )
        return decision.cancel("no_prompt_backend", action, ev.MODEL_ANSWER_IS_FINAL)
    message = messages.assistant_failed(
        decision.context.tool, decision.question.text, decision.error or "it gave no answer"
    )
    return decision.cancel("backend_error", decisions.FailQuestion("backend_error", message))


def _fail(decision: QuestionDecision, reason: ev.CancelReason) -> decisions.Resolution:
    if reason in ev.DETACHED_REASONS and decision.breaker_is_open:
        return _exceed(decision, "rejected_cycles")
    action = decisions.FailQuestion(
        reason, messages.refusal(decision.context.tool, reason, decision.request.question_id)
    )
    resolution = decision.cancel(reason, action)
    return (
        replace(resolution, warning=_why_it_does_not_fit(decision))
        if reason == "invalid_static_answer"
        else resolution
    )


def _why_it_does_not_fit(decision: QuestionDecision) -> str | None:
    """Return a warning if the configured answer is invalid. The call then fails."""
    answer = cast("Json", _configured(decision))
    try:
        decision.question.check(answer)
    except AnswerError as error:
        is_secret = isinstance(decision.question.answer_type, SecretType)
        given = "the configured secret" if is_secret else f"the configured answer {shown(answer)}"
        return (
            f"{given} does not fit the question {decision.question.text!r}, so the call failed:"
            f" {error}"
        )
    return None


def _exceed(decision: QuestionDecision, limit: LimitName) -> decisions.Resolution:
    """Return the resolution for a question that exceeds a limit. The event names the limit."""
    message = messages.limit_exceeded(
        decision.context.tool, limit, limit_value(limit, decision.context.settings.limits)
    )
    return decision.cancel(
        "limit_exceeded", decisions.FailQuestion("limit_exceeded", message), {"limit": limit}
    )


def recorded_answer(
    id: str, answered: Answered, who: ev.AnsweredBy
) -> ev.InquiryAnswered | ev.InquiryRedacted:
    """Return the event for an answer. The event for a secret has no field for the answer."""
    if isinstance(answered.value, SecretValue):
        return ev.InquiryRedacted(id=id, answered_by=who)
    return ev.InquiryAnswered(
        id=id,
        answer=answered.value,
        answered_by=who,
        reason=answered.reason,
        remembered=answered.remember is True,
    )
