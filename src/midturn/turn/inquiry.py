"""One open question of a call: its route, its prompt, and the consequences of every answer. Secrets are dropped here."""

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
from midturn.routing.table import AskAssistant, AskUser, Fail, Route, Suspend, UseCached, UseConfigured, UseDefault, route
from midturn.turn import decision as decisions
from midturn.turn.memory import answer_key, may_be_remembered, scopes_of
from midturn.turn.people import Poll, open_poll
from midturn.turn.standing import answer_event
from midturn.turn.state import allowed, is_one_too_many, is_repeated_too_often
from midturn.turn.step import AssistantFailed, AssistantReplied

NO_SECRET_IN_WORDS = "a secret is not taken from the command line, which the shell and the conversation remember; the words were not used."  # noqa: S105  no secret
ONLY_BOOLEANS_ESCALATE = "only yes/no questions can be escalated; the assistant's answer stands."


class Inquiry(Struct, frozen=True):
    """A question on its way to its answer. It closes exactly once, with one response.

    `ask` is the step of its form, `question` what is put to a person, `emissions` how often the tool has asked it. `error` is what a model
    failed with that was asked before. `tells_replies` means that the tool hears of a reply, so that its words are kept for it.
    `is_a_persons` means that no one is attached to this run, and that it was put to a person before, or an earlier question of its form
    was: then no policy for those who are absent closes it.
    """

    view: decisions.View
    ask: Ask
    request: ev.InquiryRequest
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
        notes = self.view.turn.notes
        return open_poll(self.request, notes, self.view.settings.known_people) if notes or self.request.people is not None else None

    @property
    def digest(self) -> str:
        """Return nothing: what a question asks does not change."""
        return ""

    @property
    def was_changed(self) -> bool:
        """Return False: what a question asks does not change."""
        return False

    def going(self) -> decisions.Going:
        """Say what the routing table says, within the limits. What has people is theirs: nothing remembered or configured answers."""
        return _going(self)

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
            scopes=() if self.request.people else tuple(scopes_of(self.question)),
            id=address(self.view.settings.conversation, self.request.event_id),
            event=self.request.event_id,
            conversation=self.view.settings.conversation,
            tool=call.name,
            arguments=call.arguments,
            deadline=self.request.deadline,
            label=decisions.labelled(self.policy.prompt_label, poll) if poll else self.policy.prompt_label,
            verdict=self._verdict,
            people=self.request.people,
        )

    def take(self, reply: decisions.Spoken, who: ev.AnsweredBy) -> decisions.Closing | decisions.Counted | decisions.Misfit:
        """Close with what a person did, or say why it does not fit."""
        poll = self.poll
        if poll is not None and (why := poll.barred(who)):
            return decisions.Misfit.barring(why)
        if isinstance(reply, Answered):
            return self._take_answer(reply, who) if poll is None else self._take_vote(poll, reply, poll.named(who))
        return self._take_else(reply)

    def _take_else(self, reply: WentBack | Replied | Edited | Submitted) -> decisions.Closing | decisions.Misfit:
        """Close with what a person did in place of an answer."""
        match reply:
            case WentBack() if self.ask.can_go_back:
                return self.cancel("back", decisions.GoBack())
            case WentBack():
                return decisions.Misfit.because("There is no earlier answer to go back to.")
            case Replied():
                return self.cancel("reply", decisions.Leave(reply), {"reply": reply.text} if self.tells_replies and reply.text else None)
            case Edited() | Submitted():
                return decisions.Misfit.because("This question takes an answer.")
            case _ as other:
                assert_never(other)

    def fail(self, error: str) -> decisions.Closing:
        """Close, because the prompter failed."""
        message = messages.prompt_failed(self.view.tool, self.question.text, error)
        return self.cancel("backend_error", decisions.Refuse("backend_error", message))

    def expire(self) -> decisions.Closing:
        """Close, because no one has answered in time."""
        return self.cancel("deadline", decisions.Refuse("deadline", messages.past_deadline(self.view.tool, self.question.text)))

    def unattended(self) -> Inquiry:
        """Return the same question as if no one was attached."""
        return replace(self, attached=False)

    def left_open(self) -> Inquiry:
        """Return the same question as one that waits for a person, who is not attached: no detached policy closes it."""
        return replace(self, attached=False, is_a_persons=True)

    def model_said(self, said: AssistantReplied) -> decisions.Closing:
        """Close with a model's answer; a "no" under escalation goes on to the user."""
        who = ev.AnsweredBy("assistant", model=said.model)
        record = ev.InquiryAnswered(id=self.request.id, answer=said.answer, answered_by=who, reason=said.reason, metadata=said.metadata)
        escalation = self._escalation(messages.recommended_rejection(said.reason)) if said.answer is False else None
        answered = Answered(self.question.check(said.answer), reason=said.reason, automatic=True)
        return decisions.Closing(escalation or decisions.Give(self.request.question_id, answered, self.request.id, who.by), (record,))

    def model_failed(self, failed: AssistantFailed) -> decisions.Closing:
        """Close without an answer; under escalation a person is asked: a failure is not a "no"."""
        message = messages.assistant_failed(self.view.tool, self.question.text, failed.error)
        escalation = self._escalation(messages.REVIEWER_FAILED, failed.error)
        return self.cancel("backend_error", escalation or decisions.Refuse("backend_error", message), failed.metadata)

    def by_default(self, default: Json) -> decisions.Closing:
        """Close with the default."""
        return self.answer(Answered(default, automatic=True), decisions.BY_DEFAULT)

    # How it closes --------------------------------------------------------------------------------------------------

    def answer(self, answered: Answered, who: ev.AnsweredBy) -> decisions.Closing:
        """Close with an answer."""
        give = decisions.Give(self.request.question_id, answered, self.request.id, who.by)
        return decisions.Closing(give, (recorded_answer(self.request.id, answered, who),))

    def cancel(
        self,
        reason: ev.CancelReason,
        then: decisions.Give | decisions.GoBack | decisions.Leave | decisions.Refuse | decisions.Escalate,
        metadata: dict[str, Json] | None = None,
    ) -> decisions.Closing:
        """Close without an answer."""
        return decisions.Closing(then, (ev.InquiryCancelled(id=self.request.id, reason=reason, metadata=metadata),))

    def _take_answer(self, reply: Answered, who: ev.AnsweredBy) -> decisions.Closing | decisions.Misfit:
        try:
            value = self.question.check(reply.value)
        except AnswerError as error:
            return decisions.Misfit(error.problems)
        remember = bool(reply.remember) and may_be_remembered(self.question)
        closing = self.answer(Answered(value, reason=reply.reason, remember=remember, automatic=who.by != "user"), who)
        if reply.scope is None:
            return closing
        event = answer_event(self.request, self.view.tool, self.question, replace(reply, value=value), who)
        return decisions.Misfit.because(event) if isinstance(event, str) else replace(closing, records=(*closing.records, event))

    def _take_vote(self, poll: Poll, reply: Answered, who: ev.AnsweredBy) -> decisions.Closing | decisions.Counted | decisions.Misfit:
        """Count a yes where several have to say it; the first no, and whatever one person may say alone, is the answer."""
        closing = self._take_answer(replace(reply, remember=False), who)
        if isinstance(closing, decisions.Misfit) or poll.needed == 1:
            return closing
        if reply.value is True and (why := poll.why_no_vote(who)):
            return decisions.Misfit.barring(why)
        return decisions.counted(
            poll, ev.Vote(id=self.request.id, answer=reply.value is True, reason=reply.reason, answered_by=who), closing
        )

    def _escalation(self, heading: str, error: str | None = None) -> decisions.Escalate | None:
        """Return the question to the user in place of the model, where the policies have one to ask. None: what the model did stands."""
        if self.policy.target.kind != "assistant_with_escalation" or not self.is_boolean or self.is_asked_again:
            return None
        original = self.ask.question
        policy, attached, default = self.detached, self.view.settings.attached, original.default
        if not attached and (policy in ("deny", "auto") or (policy == "defaults" and default is UNSET)):
            return None
        context = f"{heading}\n\n{original.context}" if original.context else heading
        asked = replace(original, context=context, default=UNSET)
        return decisions.Escalate(self.ask, self.request, asked, UNSET if attached or policy == "defer" else default, error)

    # Facts about it -------------------------------------------------------------------------------------------------

    @property
    def is_boolean(self) -> bool:
        """Whether it is answered with yes or no."""
        return isinstance(self.question.answer_type, BooleanType)

    @property
    def is_asked_again(self) -> bool:
        """Whether a person went back to it, or has the last word about what a model said."""
        return self.request.revises is not None or self.request.escalates is not None

    @property
    def breaker_is_open(self) -> bool:
        """Whether only a person may answer because models have said no too often; who goes back is a person already."""
        return self.view.turn.breaker_is_open and self.request.revises is None

    @property
    def detached(self) -> DetachedPolicy:
        """What happens where no one is attached: what was put to a person stays put to a person."""
        return "defer" if self.is_a_persons else self.view.policy.detached.tool

    @property
    def _verdict(self) -> str | None:
        """What a reviewer said, where the user has the last word: it heads the context of what is asked again."""
        if self.question.context is None or self.question.context == self.ask.question.context:
            return None
        return self.question.context.removesuffix(self.ask.question.context or "").rstrip("\n")


# Where an inquiry goes: answered by what is there already, put to a model or a person, or refused -----------------------


def _going(inquiry: Inquiry) -> decisions.Going:
    if is_repeated_too_often(inquiry.emissions, inquiry.view.settings.limits):
        return _exceed(inquiry, "repeats")
    if (poll := inquiry.poll) is not None:
        return _of_people(inquiry, poll)
    if inquiry.request.escalates and not inquiry.attached and (kept := _without_review(inquiry)):
        return kept
    going = _carried_out(inquiry, _route(inquiry))
    return replace(going, warning=NO_SECRET_IN_WORDS) if _is_secret_in_words(inquiry) else going


def _of_people(inquiry: Inquiry, poll: Poll) -> decisions.Going:
    """Put it to a person who is attached and may answer; else leave it to those who come by later, unless that is denied."""
    if not inquiry.attached and is_one_too_many(inquiry.request, inquiry.view.turn, inquiry.view.settings):
        return _exceed(inquiry, "shown")
    if why := poll.why_never:
        refuse = decisions.Refuse("backend_error", messages.too_few(inquiry.view.tool, inquiry.question.text, why))
        return replace(inquiry.cancel("backend_error", refuse), warning=why)
    if not inquiry.attached and inquiry.detached == "deny":
        return _fail_closed(inquiry, "detached_denied")
    return decisions.put_to_people(poll, inquiry.view.settings, attached=inquiry.attached)


def _carried_out(inquiry: Inquiry, way: Route) -> decisions.Going:
    match way:
        case AskUser() | AskAssistant() | Suspend() | UseDefault() | Fail() if inquiry.view.call.foretold and (agreed := _agreed(inquiry)):
            return agreed
        case UseCached(value) | UseConfigured(value) | UseDefault(value):
            return inquiry.answer(Answered(value, automatic=True), _giver(inquiry, way))
        case AskAssistant(escalate):
            return decisions.Consult(inquiry.request, None if inquiry.is_boolean or not escalate else ONLY_BOOLEANS_ESCALATE)
        case AskUser() | Suspend():
            return decisions.AwaitPerson("person" if isinstance(way, AskUser) else "inbox")
        case Fail(reason):
            return _fail_closed(inquiry, reason)
        case _ as other:
            assert_never(other)


def _agreed(inquiry: Inquiry) -> decisions.Closing | None:
    """Close with the yes of the person who permitted the call, and saw this very question then."""
    if not inquiry.is_boolean or inquiry.is_asked_again or inquiry.policy.target.kind != "user":
        return None
    who = inquiry.view.call.agreed(inquiry.request)
    return inquiry.answer(Answered(True), who) if who is not None else None


def _giver(inquiry: Inquiry, way: UseCached | UseConfigured | UseDefault) -> ev.AnsweredBy:
    """Say who gives an answer that is there already."""
    match way:
        case UseCached():
            return ev.AnsweredBy("cached")
        case UseConfigured():
            return ev.AnsweredBy("static", origin=inquiry.policy.origin)
        case UseDefault():
            return decisions.BY_DEFAULT
        case _ as other:
            assert_never(other)


def _route(inquiry: Inquiry) -> Route:
    """Ask the table. What Back asks again, and what a model rejected, go to the user."""
    again, breaker_is_open = inquiry.is_asked_again, inquiry.breaker_is_open
    return route(
        inquiry.question,
        target="user" if again or breaker_is_open else inquiry.policy.target,
        cached=UNSET if again else _cached(inquiry),
        configured=UNSET if again else _configured(inquiry),
        attached=inquiry.attached,
        detached=inquiry.detached,
        exclusive=True if inquiry.request.escalates or breaker_is_open else inquiry.policy.exclusive,
    )


def _is_secret_in_words(inquiry: Inquiry) -> bool:
    is_secret = isinstance(inquiry.question.answer_type, SecretType)
    return is_secret and isinstance(inquiry.policy.answer, Words) and not inquiry.is_asked_again


def _configured(inquiry: Inquiry) -> Json | SecretValue | UnsetType:
    """Return the configured answer; words are read as an answer to this question.

    No secret is taken from words, which were typed on a command line: there the question is asked as if nothing was configured.
    """
    answer = inquiry.policy.answer
    if not isinstance(answer, Words):
        return answer
    return UNSET if _is_secret_in_words(inquiry) else answer_from_words(inquiry.question, answer.text)


def _cached(inquiry: Inquiry) -> Json | UnsetType:
    """Return what was remembered, unless this call has had it for an equal question already."""
    asked, call = inquiry.request, inquiry.view.call
    had = partial(call.has_had, asked.question_id, asked.question.key)
    memory, tool = inquiry.view.turn.memory, inquiry.view.tool
    answer = memory.answer(answer_key(tool, asked.question_id), had)
    if not isinstance(answer, UnsetType) or not scopes_of(inquiry.question):
        return answer
    return memory.standing_answer(tool, asked.question_id, asked.question.key, had)


def _without_review(inquiry: Inquiry) -> decisions.Closing | None:
    """Close the review of a model's answer where no one is there: by the default, or as the model left it. None: it waits."""
    policy, default = inquiry.detached, inquiry.ask.question.default
    if policy == "defer":
        return None
    if policy == "defaults" and not isinstance(default, UnsetType):
        return inquiry.by_default(default)
    before = inquiry.view.turn.inquiries[inquiry.request.escalates or ""].response
    if before and before.outcome == "answered" and before.answered_by:
        answer = Answered(inquiry.question.check(before.answer), reason=before.reason, automatic=True)
        give = decisions.Give(inquiry.request.question_id, answer, inquiry.request.escalates or "", before.answered_by.by)
        return inquiry.cancel("no_prompt_backend", give, ev.STANDS)
    message = messages.assistant_failed(inquiry.view.tool, inquiry.question.text, inquiry.error or "it gave no answer")
    return inquiry.cancel("backend_error", decisions.Refuse("backend_error", message))


def _fail_closed(inquiry: Inquiry, reason: ev.CancelReason) -> decisions.Closing:
    if reason in ev.NO_ONE_THERE and inquiry.breaker_is_open:
        return _exceed(inquiry, "rejected_cycles")
    refusal = inquiry.cancel(reason, decisions.Refuse(reason, messages.refusal(inquiry.view.tool, reason, inquiry.request.question_id)))
    return replace(refusal, warning=_why_it_does_not_fit(inquiry)) if reason == "invalid_static_answer" else refusal


def _why_it_does_not_fit(inquiry: Inquiry) -> str | None:
    """Say which configured answer does not fit, to which question, and why: the call fails because of it."""
    answer = cast("Json", _configured(inquiry))
    try:
        inquiry.question.check(answer)
    except AnswerError as error:
        is_secret = isinstance(inquiry.question.answer_type, SecretType)
        given = "the configured secret" if is_secret else f"the configured answer {shown(answer)}"
        return f"{given} does not fit the question {inquiry.question.text!r}, so the call failed: {error}"
    return None


def _exceed(inquiry: Inquiry, limit: LimitName) -> decisions.Closing:
    """Close, because a limit is reached; the record says which."""
    message = messages.limit_exceeded(inquiry.view.tool, limit, allowed(limit, inquiry.view.settings.limits))
    return inquiry.cancel("limit_exceeded", decisions.Refuse("limit_exceeded", message), {"limit": limit})


# Records of secrets: who answered, and nothing else -------------------------------------------------------------------


def recorded_answer(id: str, answered: Answered, who: ev.AnsweredBy) -> ev.InquiryAnswered | ev.InquiryRedacted:
    """Return the event that an answer becomes. The class for a secret has no field that could hold it."""
    if isinstance(answered.value, SecretValue):
        return ev.InquiryRedacted(id=id, answered_by=who)
    return ev.InquiryAnswered(id=id, answer=answered.value, answered_by=who, reason=answered.reason, remembered=answered.remember is True)
