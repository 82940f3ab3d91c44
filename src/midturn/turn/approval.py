"""Approvals: what they share, delivery of a result, review of a form, and the check of program arguments."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, ClassVar, Final, Self, assert_never

from msgspec import Struct
from msgspec.structs import replace

from midturn.events.open_question import PromptKind, address, answers_sha256, approval_text, result_sha256
from midturn.events.prompt import FormSubject, Prompt, ResultSubject, Subject
from midturn.events.types import AnsweredBy, Approval, ApprovalState, Image, required_by
from midturn.question.answer_type import BooleanType
from midturn.question.json_value import Json, pointer_to
from midturn.question.question import Question
from midturn.question.reply import Answered, Edited, Replied, Submitted, WentBack
from midturn.routing import messages
from midturn.routing.policy import DetachedPolicy
from midturn.turn import decision as decisions
from midturn.turn.people import Poll, open_poll

NOT_AN_APPROVAL = decisions.Misfit.because("This is a yes/no decision.")


class Approving(Struct, frozen=True):
    """What the three kinds share: their id, their events, their prompt. `waiting` is looked up each time: asking may write it."""

    kind: ClassVar[PromptKind]

    view: decisions.View
    id: str
    attached: bool
    is_a_persons: bool
    """Whether it waited before this run, to which no one is attached: then no policy for those who are absent decides it."""

    @property
    def waiting(self) -> Approval | None:
        """The event that says that this is waited for."""
        return self.view.call.undecided(self.id)

    @property
    def event(self) -> str:
        """The `event_id` of what says that this is waited for; empty where nothing is recorded."""
        return waiting.event_id if (waiting := self.waiting) else ""

    @property
    def request_id(self) -> str:
        """The id of the approval."""
        return self.id

    @property
    def poll(self) -> Poll | None:
        """Whose decision it is; None where it is anyone's."""
        waiting = self.waiting
        return None if waiting is None else open_poll(waiting, self.view.turn.notes, self.view.settings.known_people)

    @property
    def digest(self) -> str:
        """Digest of what is decided on; a yes counts only for this."""
        return ""

    @property
    def was_changed(self) -> bool:
        """Whether what is decided on was changed since it was put to people."""
        return False

    @property
    def _text(self) -> str:
        return approval_text(self.kind, self.view.tool)

    def _record(self, state: ApprovalState, **fields: Any) -> Approval:
        return Approval(id=self.id, call=self.view.call.request.event_id, kind=self.kind, state=state, **fields)

    def _waits(self, **fields: Any) -> Approval | None:
        """Return the record that this is waited for, unless there is one already."""
        if self.waiting:
            return None
        return self._record("waiting", **fields, requires=required_by(fields.get("deadline", ""), fields.get("people")))

    def _policy(self, policy: DetachedPolicy) -> DetachedPolicy:
        """Say what happens where no one is attached: what was put to a person stays put to a person."""
        return "defer" if self.is_a_persons else policy

    def _denied(self, message: str) -> decisions.Closing:
        """Close, because no one is there and the policy is `deny`."""
        return decisions.Closing(decisions.Respond(message), (self._record("skipped", answered_by=decisions.BY_DEFAULT),))

    def _shown(self, subject: Subject, *, may_remember: bool = False) -> Prompt:
        call, event, waiting, poll = self.view.call.call, self.event, self.waiting, self.poll
        return Prompt(
            question=Question.unchecked(id=f"__{self.kind}__", text=self._text, answer_type=BooleanType()),
            label=decisions.labelled(None, poll) if poll else None,
            people=poll.people if poll else None,
            kind=self.kind,
            asked_by=self.view.policy.source.header,
            subject=subject,
            may_remember=may_remember,
            can_reply=self.kind == "review",
            id=address(self.view.settings.conversation, event or self.id),
            event=event,
            conversation=self.view.settings.conversation,
            tool=call.name,
            arguments=call.arguments,
            deadline=waiting.deadline if waiting else "",
            digest=self.digest,
        )

    def unattended(self) -> Self:
        """Return the same decision as if no one was attached."""
        return replace(self, attached=False)

    def left_open(self) -> Self:
        """Return the same decision as one that waits for a person, who is not attached: no detached policy closes it."""
        return replace(self, attached=False, is_a_persons=True)

    def fail(self, error: str) -> decisions.Closing:
        """Fail the call, because the prompter failed."""
        return decisions.Closing(decisions.Respond(messages.prompt_failed(self.view.tool, self._text, error)))


class Delivery(Approving, frozen=True):
    """May the model read this result?"""

    kind: ClassVar[PromptKind] = "deliver"

    content: str
    is_error: bool
    images: tuple[Image, ...] = ()

    @property
    def digest(self) -> str:
        """Digest of the result."""
        return result_sha256(self.content, is_error=self.is_error, images=self.images)

    def going(self) -> decisions.AwaitPerson | decisions.Closing:
        """Ask, else follow the detached policy. What waits is recorded with the result that it is about."""
        if self.attached:
            return decisions.AwaitPerson("person", self._waits(content=self.content, is_error=self.is_error, images=self.images))
        match self._policy(self.view.policy.detached.deliver):
            case "defer":
                return decisions.AwaitPerson("inbox", self._waits(content=self.content, is_error=self.is_error, images=self.images))
            case "deny":
                return self._denied(messages.withheld(self.view.tool))
            case "auto" | "defaults":
                return self._deliver(self._record("approved", answered_by=decisions.BY_DEFAULT))
            case _ as other:
                assert_never(other)

    def prompt(self) -> Prompt:
        """Return what a person is shown."""
        return self._shown(ResultSubject(self.view.call.call, self.content, self.is_error, self.images))

    def take(self, reply: decisions.Spoken, who: AnsweredBy) -> decisions.Closing | decisions.Misfit:
        """Deliver, deliver something else, or withhold."""
        if (poll := self.poll) is not None and (why := poll.barred(who)):
            return decisions.Misfit.barring(why)
        match reply:
            case Answered(value=True, reason=reason):
                return self._deliver(self._record("approved", answered_by=who, reason=reason))
            case Answered(value=False, reason=reason):
                record = self._record("skipped", answered_by=who, reason=reason)
                by_policy = who.by == "policy"
                tool = self.view.tool
                said = messages.withheld_by_policy(tool, who.name or who.by) if by_policy else messages.withheld(tool)
                return decisions.Closing(decisions.Respond(said), (record,))
            case Edited(value) if isinstance(value, str):
                record = self._record("edited", answered_by=who, content=value)
                return decisions.Closing(
                    decisions.Respond(value, self.is_error), (record,)
                )  # the words stand for the whole result: its pictures are left out
            case Edited():
                return decisions.Misfit.because("A result is text.")
            case Answered() | WentBack() | Replied() | Submitted():
                return NOT_AN_APPROVAL
            case _ as other:
                assert_never(other)

    def _deliver(self, record: Approval) -> decisions.Closing:
        return decisions.Closing(decisions.Respond(self.content, self.is_error, self.images), (record,))


class ReviewStep(Approving, frozen=True):
    """Are the answers of this form right? `form` says which one, where that is not plain.

    What a person says instead is recorded only where the tool hears of it (`tells_replies`): it may have acted on it when the process dies.
    `until` is the deadline of the form.
    """

    kind: ClassVar[PromptKind] = "review"

    questions: Sequence[Question[Any]]
    answers: dict[str, Json]
    form: str | None
    tells_replies: bool = False
    until: str = ""
    polls: tuple[Poll, ...] = ()

    @property
    def digest(self) -> str:
        """Digest of the answers that would be sent, and of their questions; secrets are not among them."""
        return answers_sha256(self.questions, self.answers)

    @property
    def was_changed(self) -> bool:
        """Whether an answer was given again since the review was put to people."""
        return self.view.call.was_answered_since(self.id)

    def going(self) -> decisions.AwaitPerson | decisions.Closing:
        """Ask, else follow the policy for deliveries. Where a question was certain people's, it waits for them, unless that is denied."""
        policy = self._policy(self.view.policy.detached.deliver)
        if self.polls and (self.attached or policy != "deny"):
            return decisions.put_to_people(self.polls[0], self.view.settings, self._waits(deadline=self.until), attached=self.attached)
        if self.attached:
            return decisions.AwaitPerson("person", self._waits(deadline=self.until))
        match policy:
            case "defer":
                return decisions.AwaitPerson("inbox", self._waits(deadline=self.until))
            case "deny":
                return self._denied(messages.refusal(self.view.tool, "detached_denied", ""))
            case "auto" | "defaults":
                return decisions.Closing(decisions.Send(), (self._record("approved", answered_by=decisions.BY_DEFAULT),))
            case _ as other:
                assert_never(other)

    def _record(self, state: ApprovalState, **fields: Any) -> Approval:
        return super()._record(state, form=self.form, **fields)

    def prompt(self) -> Prompt:
        """Return what a person is shown."""
        return self._shown(FormSubject(self.questions, self.answers))

    def take(self, reply: decisions.Spoken, who: AnsweredBy) -> decisions.Closing | decisions.Misfit:
        """Send the answers, go back to them, or say something instead. That is for those who may answer every question of the form."""
        if why := next(filter(None, (poll.barred(who) for poll in self.polls)), ""):
            return decisions.Misfit.barring(why)
        match reply:
            case Submitted():
                return self._sent(who)
            case Answered(value=True, reason=reason):
                return self._sent(who, reason)
            case WentBack():
                return decisions.Closing(decisions.GoBack())
            case Replied(text):
                replied = self._record("skipped", answered_by=who, reason=text)
                return decisions.Closing(decisions.Leave(reply), (replied,) if self.tells_replies else ())
            case Answered() | Edited():
                return decisions.Misfit.because("Send the answers, or go back to them.")
            case _ as other:
                assert_never(other)

    def expire(self) -> decisions.Closing:
        """Close, because no one has sent the answers in time."""
        text = self.questions[-1].text
        return decisions.Closing(
            decisions.Refuse("deadline", messages.past_deadline(self.view.tool, text)), (self._record("expired"),) if self.waiting else ()
        )

    def _sent(self, who: AnsweredBy, reason: str | None = None) -> decisions.Closing:
        return decisions.Closing(decisions.Send(), (self._record("approved", answered_by=who, reason=reason),) if self.waiting else ())


# Arguments of programs: no control character reaches a terminal, whichever program prints them ------------------------


_CONTROL: Final = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f]")
"""All controls but the ends of lines and tabs, which texts need."""


def control_problem(arguments: Json) -> str | None:
    """Say where a call's arguments have a control character; None where they have none."""
    return next((f"{pointer or 'the text'} has the control character U+{ord(found):04X}" for pointer, found in _controls(arguments)), None)


def _controls(arguments: Json) -> Iterator[tuple[str, str]]:
    """Yield where a control character stands, and which; of a key, the pointer is that of its object."""
    todo: list[tuple[str, Json]] = [("", arguments)]
    while todo:
        pointer, value = todo.pop()
        match value:
            case str():
                if found := _CONTROL.search(value):
                    yield pointer, found[0]
            case Mapping():
                yield from ((pointer or "/", found[0]) for key in value if (found := _CONTROL.search(key)))
                todo += [(pointer_to(pointer, key), member) for key, member in value.items()]
            case list() | tuple():
                todo += [(pointer_to(pointer, place), member) for place, member in enumerate(value)]
            case _:
                pass
