"""Decisions about approvals: the base class, the delivery of a result and the review of a form.
Also checks the arguments of programs.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, ClassVar, Final, Self, assert_never

from msgspec import Struct
from msgspec.structs import replace

from midturn.events.open_question import (
    PromptKind,
    address,
    answers_sha256,
    approval_text,
    result_sha256,
)
from midturn.events.prompt import FormSubject, Prompt, ResultSubject, Subject
from midturn.events.types import AnsweredBy, Approval, ApprovalState, Image, required_by
from midturn.question.answer_type import BooleanType
from midturn.question.json_value import Json, pointer_to
from midturn.question.question import Question
from midturn.question.reply import Answered, Edited, Replied, Submitted, WentBack
from midturn.routing import messages
from midturn.routing.policy import DetachedPolicy
from midturn.turn import decision as decisions
from midturn.turn.votes import Poll, open_poll

NOT_AN_APPROVAL = decisions.InvalidReply.because("This is a yes/no decision.")


class ApprovalDecision(Struct, frozen=True):
    """Base class of permissions, deliveries and reviews.

    `waiting` is looked up in the call record each time, because routing may write this event.
    """

    kind: ClassVar[PromptKind]

    context: decisions.DecisionContext
    id: str
    attached: bool
    requires_person: bool
    """Whether only a person may decide, because people were already asked before this run and
    nobody is attached now.

    The detached policy then does not apply.
    """

    @property
    def waiting(self) -> Approval | None:
        """The recorded event with state `waiting`, or None."""
        return self.context.call.undecided(self.id)

    @property
    def event(self) -> str:
        """The `event_id` of the recorded `waiting` event. Empty if there is none."""
        return waiting.event_id if (waiting := self.waiting) else ""

    @property
    def request_id(self) -> str:
        """The id of the approval."""
        return self.id

    @property
    def poll(self) -> Poll | None:
        """The people who decide the approval. None if anybody may decide."""
        waiting = self.waiting
        return (
            None
            if waiting is None
            else open_poll(waiting, self.context.turn.notes, self.context.settings.known_people)
        )

    @property
    def digest(self) -> str:
        """Digest of the subject (a call, a result, or answers). An approval is valid only for a
        subject with this digest.
        """
        return ""

    @property
    def was_changed(self) -> bool:
        """Whether the subject was changed after people were asked."""
        return False

    @property
    def _text(self) -> str:
        return approval_text(self.kind, self.context.tool)

    def _record(self, state: ApprovalState, **fields: Any) -> Approval:
        return Approval(
            id=self.id,
            call=self.context.call.request.event_id,
            kind=self.kind,
            state=state,
            **fields,
        )

    def _waits(self, **fields: Any) -> Approval | None:
        """Return a new `waiting` event, or None if one is already recorded."""
        if self.waiting:
            return None
        return self._record(
            "waiting",
            **fields,
            requires=required_by(fields.get("deadline", ""), fields.get("people")),
        )

    def _policy(self, policy: DetachedPolicy) -> DetachedPolicy:
        """Return `policy`, or `defer` if only a person may decide."""
        return "defer" if self.requires_person else policy

    def _denied(self, message: str) -> decisions.Resolution:
        """Return the resolution if nobody is attached and the policy is `deny`."""
        return decisions.Resolution(
            decisions.Respond(message), (self._record("skipped", answered_by=decisions.BY_DEFAULT),)
        )

    def _shown(self, subject: Subject, *, may_remember: bool = False) -> Prompt:
        call, event, waiting, poll = self.context.call.call, self.event, self.waiting, self.poll
        return Prompt(
            question=Question.unchecked(
                id=f"__{self.kind}__", text=self._text, answer_type=BooleanType()
            ),
            label=decisions.labelled(None, poll) if poll else None,
            people=poll.people if poll else None,
            kind=self.kind,
            asked_by=self.context.policy.source.header,
            subject=subject,
            may_remember=may_remember,
            can_reply=self.kind == "review",
            id=address(self.context.settings.conversation, event or self.id),
            event=event,
            conversation=self.context.settings.conversation,
            tool=call.name,
            arguments=call.arguments,
            deadline=waiting.deadline if waiting else "",
            digest=self.digest,
        )

    def unattended(self) -> Self:
        """Return a copy of this decision that treats nobody as attached."""
        return replace(self, attached=False)

    def left_open(self) -> Self:
        """Return a copy of this decision that stays open until a person decides, whatever the
        detached policy is.
        """
        return replace(self, attached=False, requires_person=True)

    def fail(self, error: str) -> decisions.Resolution:
        """Return the resolution after the prompter failed: the call fails."""
        return decisions.Resolution(
            decisions.Respond(messages.prompt_failed(self.context.tool, self._text, error))
        )


class DeliveryDecision(ApprovalDecision, frozen=True):
    """Decides whether the model may read the result of a call."""

    kind: ClassVar[PromptKind] = "deliver"

    content: str
    is_error: bool
    images: tuple[Image, ...] = ()

    @property
    def digest(self) -> str:
        """Digest of the result."""
        return result_sha256(self.content, is_error=self.is_error, images=self.images)

    def route(self) -> decisions.AskPerson | decisions.Resolution:
        """Ask the attached person, or follow the detached policy.

        The `waiting` event contains the result.
        """
        if self.attached:
            return decisions.AskPerson(
                "person",
                self._waits(content=self.content, is_error=self.is_error, images=self.images),
            )
        match self._policy(self.context.policy.detached.deliver):
            case "defer":
                return decisions.AskPerson(
                    "inbox",
                    self._waits(content=self.content, is_error=self.is_error, images=self.images),
                )
            case "deny":
                return self._denied(messages.withheld(self.context.tool))
            case "auto" | "defaults":
                return self._deliver(self._record("approved", answered_by=decisions.BY_DEFAULT))
            case _ as other:
                assert_never(other)

    def prompt(self) -> Prompt:
        """Return the prompt for a person."""
        return self._shown(
            ResultSubject(self.context.call.call, self.content, self.is_error, self.images)
        )

    def take(
        self, reply: decisions.DecisionReply, who: AnsweredBy
    ) -> decisions.Resolution | decisions.InvalidReply:
        """Evaluate a reply: deliver the tool's result, deliver an edited text, or withhold the
        result.
        """
        if (poll := self.poll) is not None and (why := poll.barred(who)):
            return decisions.InvalidReply.barring(why)
        match reply:
            case Answered(value=True, reason=reason):
                return self._deliver(self._record("approved", answered_by=who, reason=reason))
            case Answered(value=False, reason=reason):
                record = self._record("skipped", answered_by=who, reason=reason)
                by_policy = who.by == "policy"
                tool = self.context.tool
                said = (
                    messages.withheld_by_policy(tool, who.name or who.by)
                    if by_policy
                    else messages.withheld(tool)
                )
                return decisions.Resolution(decisions.Respond(said), (record,))
            case Edited(value) if isinstance(value, str):
                record = self._record("edited", answered_by=who, content=value)
                # the edited text replaces the whole result, including images
                return decisions.Resolution(decisions.Respond(value, self.is_error), (record,))
            case Edited():
                return decisions.InvalidReply.because("The edited result must be a string.")
            case Answered() | WentBack() | Replied() | Submitted():
                return NOT_AN_APPROVAL
            case _ as other:
                assert_never(other)

    def _deliver(self, record: Approval) -> decisions.Resolution:
        return decisions.Resolution(
            decisions.Respond(self.content, self.is_error, self.images), (record,)
        )


class ReviewDecision(ApprovalDecision, frozen=True):
    """Review of all answers to a form, before they are sent to the tool.

    Args:
        questions: The questions of the form.
        answers: The answers, without secrets.
        form: The id of the form's first request, if the call asked several forms concurrently.
        reports_replies: Whether the tool receives a reply that a person gives instead of an answer.
            If so, the reply is recorded, because the tool may act on it before the process dies.
        until: The deadline of the form (RFC 3339). Empty if there is none.
        polls: The people of each question in the form that only certain people may answer.
        agent: Name of the agent on whose behalf the tool asks. Empty if the tool itself asks.
    """

    kind: ClassVar[PromptKind] = "review"

    questions: Sequence[Question[Any]]
    answers: dict[str, Json]
    form: str | None
    reports_replies: bool = False
    until: str = ""
    polls: tuple[Poll, ...] = ()
    agent: str = ""

    @property
    def digest(self) -> str:
        """Digest of the questions and the answers, without secrets."""
        return answers_sha256(self.questions, self.answers)

    @property
    def was_changed(self) -> bool:
        """Whether an answer was changed after people were asked to review the answers."""
        return self.context.call.was_answered_since(self.id)

    def route(self) -> decisions.AskPerson | decisions.Resolution:
        """Ask the attached person, or follow the detached policy for deliveries.

        If only certain people may answer one of the questions, the review waits for them, unless
        the policy is `deny`.
        """
        policy = self._policy(self.context.policy.detached.deliver)
        if self.polls and (self.attached or policy != "deny"):
            return decisions.ask_people(
                self.polls[0],
                self.context.settings,
                self._waits(deadline=self.until),
                attached=self.attached,
            )
        if self.attached:
            return decisions.AskPerson("person", self._waits(deadline=self.until))
        match policy:
            case "defer":
                return decisions.AskPerson("inbox", self._waits(deadline=self.until))
            case "deny":
                return self._denied(messages.refusal(self.context.tool, "detached_denied", ""))
            case "auto" | "defaults":
                return decisions.Resolution(
                    decisions.SubmitForm(),
                    (self._record("approved", answered_by=decisions.BY_DEFAULT),),
                )
            case _ as other:
                assert_never(other)

    def _record(self, state: ApprovalState, **fields: Any) -> Approval:
        return super()._record(state, form=self.form, **fields)

    def prompt(self) -> Prompt:
        """Return the prompt for a person."""
        prompt = self._shown(FormSubject(self.questions, self.answers))
        return replace(prompt, asked_by=self.agent) if self.agent else prompt

    def take(
        self, reply: decisions.DecisionReply, who: AnsweredBy
    ) -> decisions.Resolution | decisions.InvalidReply:
        """Evaluate a reply: submit the answers, go back, or reply to the model.

        A person may decide only if the person may answer every question in the form.
        """
        if why := next(filter(None, (poll.barred(who) for poll in self.polls)), ""):
            return decisions.InvalidReply.barring(why)
        match reply:
            case Submitted():
                return self._sent(who)
            case Answered(value=True, reason=reason):
                return self._sent(who, reason)
            case WentBack():
                return decisions.Resolution(decisions.StepBack())
            case Replied(text):
                replied = self._record("skipped", answered_by=who, reason=text)
                return decisions.Resolution(
                    decisions.LeaveForm(reply), (replied,) if self.reports_replies else ()
                )
            case Answered() | Edited():
                return decisions.InvalidReply.because("Send the answers, go back, or reply.")
            case _ as other:
                assert_never(other)

    def expire(self) -> decisions.Resolution:
        """Return the resolution after the deadline."""
        text = self.questions[-1].text
        return decisions.Resolution(
            decisions.FailQuestion("deadline", messages.past_deadline(self.context.tool, text)),
            (self._record("expired"),) if self.waiting else (),
        )

    def _sent(self, who: AnsweredBy, reason: str | None = None) -> decisions.Resolution:
        return decisions.Resolution(
            decisions.SubmitForm(),
            (self._record("approved", answered_by=who, reason=reason),) if self.waiting else (),
        )


# Check the arguments of programs: a program could print a control character to the terminal
# --------------------------------------------------------------------------------------------------


_CONTROL: Final = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f]")
"""All control characters except line ends and tabs."""


def control_problem(arguments: Json) -> str | None:
    """Return an error message with the JSON Pointer of a control character in a call's arguments.
    None if they contain no control character.
    """
    return next(
        (
            f"{pointer or 'the text'} contains the control character U+{ord(found):04X}"
            for pointer, found in _controls(arguments)
        ),
        None,
    )


def _controls(arguments: Json) -> Iterator[tuple[str, str]]:
    """Yield the JSON Pointer of each control character, and the character. For a character in a
    key, the pointer refers to the object that contains the key.
    """
    todo: list[tuple[str, Json]] = [("", arguments)]
    while todo:
        pointer, value = todo.pop()
        match value:
            case str():
                if found := _CONTROL.search(value):
                    yield pointer, found[0]
            case Mapping():
                yield from (
                    (pointer or "/", found[0]) for key in value if (found := _CONTROL.search(key))
                )
                todo += [(pointer_to(pointer, key), member) for key, member in value.items()]
            case list() | tuple():
                todo += [(pointer_to(pointer, place), member) for place, member in enumerate(value)]
            case _:
                pass
