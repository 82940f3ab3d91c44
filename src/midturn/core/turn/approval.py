"""What a person decides beside questions: may a call run, may its result be delivered, are the answers right."""

from __future__ import annotations

import hashlib
from itertools import count
from typing import Any, ClassVar, assert_never

from midturn.core.events import AnsweredBy, Approval
from midturn.core.json_value import Json, canonical
from midturn.core.prompt import AnswersSubject, CallSubject, Prompt, PromptKind, ResultSubject, Subject
from midturn.core.question import Question
from midturn.core.question.answer_type import BooleanType
from midturn.core.reply import Answered, Edited, EndedTurn, Replied, Reply, Submitted, Unavailable, WentBack
from midturn.core.routing import messages
from midturn.core.routing.policy import DetachedPolicy
from midturn.core.stream.approval_question import approval_text
from midturn.core.turn.host import Host
from midturn.core.turn.memory import permission_key
from midturn.core.turn.record import CallRecord
from midturn.core.turn.walk import Walk

BY_DEFAULT = AnsweredBy("default")
NOT_AN_APPROVAL = "This is a yes/no decision."


def arguments_sha256(arguments: Json) -> str:
    """Return what binds an approval to the exact arguments that run."""
    return hashlib.sha256(canonical(arguments)).hexdigest()


class _Decision:
    """What the three kinds share: their id, their place on the desk, their events."""

    kind: ClassVar[PromptKind]

    def __init__(self, call: Host) -> None:
        self._call = call
        self._state = call.state
        self._unattended = False
        self._waiting = call.record.waiting(self.kind)
        self.id = self._waiting.id if self._waiting else self._new_id()

    def _new_id(self) -> str:
        """Return the first id that is free: calls may share a `tool_call_id`, and not every approval is on record before it is decided."""
        stem = f"{self._call.record.request.id}.__{self.kind}__"
        ids = (f"{stem}.{number}" for number in count(1))
        return next(free for free in ids if not (self._state.record.has_approval(free) or self._state.desk.find(free)))

    @property
    def _attached(self) -> bool:
        return self._state.settings.attached and not self._unattended

    @property
    def _tool(self) -> str:
        return self._call.record.request.name

    def _write(self, approval: Approval) -> None:
        self._state.write(approval)

    def _approval(self, state: str, **fields: Any) -> Approval:
        return Approval(id=self.id, call=self._call.event, kind=self.kind, state=state, **fields)

    @property
    def _text(self) -> str:
        return approval_text(self.kind, self._tool)

    def _shown(self, subject: Subject, *, may_remember: bool = False) -> Prompt:
        call = self._call.record.call
        return Prompt(
            question=Question(id=f"__{self.kind}__", text=self._text, answer_type=BooleanType()),
            kind=self.kind,
            asked_by=self._call.policy.source.header,
            subject=subject,
            may_remember=may_remember,
            can_reply=self.kind == "review",
            id=self.id,
            event=self._waiting.event_id if self._waiting else "",
            conversation=self._state.settings.conversation,
            tool=call.name,
            arguments=call.arguments,
        )

    def _wait(self, waiting: Approval) -> None:
        """Record that a decision is waited for, unless that is on record already."""
        if self._waiting is None:
            self._waiting = self._state.write(waiting)

    def fail(self, error: str) -> None:
        """Fail the call, because the prompter failed."""
        self._call.respond(messages.prompt_failed(self._tool, self._text, error))

    def nobody_there(self) -> None:
        """Decide again as not attached."""
        self._state.desk.remove(self.id)
        self._unattended = True
        self.decide()

    def decide(self) -> None:
        """Carry out what the policy says."""
        raise NotImplementedError


class Permission(_Decision):
    """May this call run, with exactly these arguments?"""

    kind = "run"

    @staticmethod
    def was_given(record: CallRecord) -> bool:
        """Whether the call was approved before, for the very arguments that would run now."""
        decision = record.decided("run")
        if decision is None or record.waiting("run"):
            return False
        return decision.state == "edited" or decision.arguments_sha256 == arguments_sha256(record.arguments)

    def decide(self) -> None:
        """Carry out what was remembered, else ask, else follow the detached policy."""
        if self._use_remembered():
            return
        if self._attached:
            self._state.desk.queue(self)
            return
        policy: DetachedPolicy = self._call.policy.detached.run
        match policy:
            case "auto" | "defaults":
                self._approve(BY_DEFAULT)
            case "deny":
                self._write(self._approval("skipped", answered_by=BY_DEFAULT))
                self._call.respond(messages.switched_off(self._tool))
            case "defer":
                self._wait(self._approval("waiting"))
                self._state.desk.park(self)
            case _ as other:
                assert_never(other)

    def settle_without_a_person(self) -> bool:
        """Use what was remembered while this waited in line."""
        return self._use_remembered()

    def prompt(self) -> Prompt:
        """Return what a person is shown."""
        return self._shown(CallSubject(self._call.record.call), may_remember=True)

    def take(self, reply: Reply, who: AnsweredBy) -> str | None:
        """Run, run with other arguments, or skip."""
        match reply:
            case Answered(value=True, remember=remember):
                self._approve(who, remember=remember)
            case Answered(value=False, reason=reason, remember=remember):
                self._skip(who, reason, remember=remember)
            case Edited(value) if isinstance(value, dict):
                self._write(self._approval("edited", answered_by=who, arguments=value))
                self._call.run()
            case EndedTurn():
                self._call.end_turn()
            case Unavailable():
                self.nobody_there()
            case Edited():
                return "Arguments are a JSON object."
            case Answered() | WentBack() | Replied() | Submitted():
                return NOT_AN_APPROVAL
            case _ as other:
                assert_never(other)
        return None

    def _use_remembered(self) -> bool:
        remembered = self._state.record.memory.permissions.get(permission_key(self._tool))
        if remembered == "y":
            self._approve(AnsweredBy("cached"))
        elif remembered == "n":
            self._skip(AnsweredBy("cached"), None)
        return remembered is not None

    def _approve(self, who: AnsweredBy, *, remember: bool = False) -> None:
        digest = arguments_sha256(self._call.record.arguments)
        self._write(self._approval("approved", answered_by=who, remembered=remember, arguments_sha256=digest))
        self._call.run()

    def _skip(self, who: AnsweredBy, reason: str | None, *, remember: bool = False) -> None:
        self._write(self._approval("skipped", answered_by=who, remembered=remember, reason=reason))
        self._call.respond(messages.skipped(self._tool, reason))


class Delivery(_Decision):
    """May the model read this result?"""

    kind = "deliver"

    def __init__(self, call: Host, content: str, *, is_error: bool) -> None:
        super().__init__(call)
        self._content = content
        self._is_error = is_error

    @classmethod
    def waiting(cls, call: Host) -> Delivery:
        """Take over a delivery that was left undecided: the tool does not run again."""
        waiting = call.record.waiting("deliver")
        return cls(call, (waiting.content if waiting else None) or "", is_error=bool(waiting and waiting.is_error))

    def decide(self) -> None:
        """Ask, else follow the detached policy. What waits is recorded with the result that it is about."""
        policy: DetachedPolicy = self._call.policy.detached.deliver
        if self._attached or policy == "defer":
            self._wait(self._approval("waiting", content=self._content, is_error=self._is_error))
            if self._attached:
                self._state.desk.queue(self)
            else:
                self._state.desk.park(self)
        elif policy == "deny":
            self._write(self._approval("skipped", answered_by=BY_DEFAULT))
            self._call.respond(messages.switched_off(self._tool))
        else:
            self._write(self._approval("approved", answered_by=BY_DEFAULT))
            self._call.respond(self._content, is_error=self._is_error)

    def settle_without_a_person(self) -> bool:
        """Nothing else decides: every result is looked at."""
        return False

    def prompt(self) -> Prompt:
        """Return what a person is shown."""
        subject = ResultSubject(self._call.record.call, self._content, self._is_error)
        return self._shown(subject)

    def take(self, reply: Reply, who: AnsweredBy) -> str | None:
        """Deliver, deliver something else, or withhold."""
        match reply:
            case Answered(value=True):
                self._write(self._approval("approved", answered_by=who))
                self._call.respond(self._content, is_error=self._is_error)
            case Answered(value=False, reason=reason):
                self._write(self._approval("skipped", answered_by=who, reason=reason))
                self._call.respond(messages.withheld(self._tool))
            case Edited(value) if isinstance(value, str):
                self._write(self._approval("edited", answered_by=who, content=value))
                self._call.respond(value, is_error=self._is_error)
            case EndedTurn():
                self._call.end_turn()
            case Unavailable():
                self.nobody_there()
            case Edited():
                return "A result is text."
            case Answered() | WentBack() | Replied() | Submitted():
                return NOT_AN_APPROVAL
            case _ as other:
                assert_never(other)
        return None


class ReviewStep(_Decision):
    """Are the answers of this form right? Recorded only where no person is attached."""

    kind = "review"

    def __init__(self, call: Host, walk: Walk, answers: dict[str, Json]) -> None:
        super().__init__(call)
        self._walk = walk
        self._answers = answers
        walk.waiting = self.id

    def decide(self) -> None:
        """Ask, else follow the policy for deliveries."""
        policy: DetachedPolicy = self._call.policy.detached.deliver
        if self._attached:
            self._state.desk.queue(self)
        elif policy == "defer":
            self._wait(self._approval("waiting"))
            self._state.desk.park(self)
        elif policy == "deny":
            self._write(self._approval("skipped", answered_by=BY_DEFAULT))
            self._call.respond(messages.switched_off(self._tool))
        else:
            self._write(self._approval("approved", answered_by=BY_DEFAULT))
            self._call.submitted(self._walk)

    def settle_without_a_person(self) -> bool:
        """Nothing else decides: a review is for the person who answered."""
        return False

    def prompt(self) -> Prompt:
        """Return what a person is shown."""
        return self._shown(AnswersSubject(self._walk.asking.form.questions, self._answers))

    def take(self, reply: Reply, who: AnsweredBy) -> str | None:
        """Send the answers, go back to them, or say something instead."""
        match reply:
            case Submitted() | Answered(value=True):
                if self._waiting:
                    self._write(self._approval("approved", answered_by=who))
                self._call.submitted(self._walk)
            case WentBack():
                self._leave()
                self._walk.back()
            case Replied():
                self._leave()
                self._walk.reply(reply)
            case EndedTurn():
                self._call.end_turn()
            case Unavailable():
                self.nobody_there()
            case Answered() | Edited():
                return "Send the answers, or go back to them."
            case _ as other:
                assert_never(other)
        return None

    def _leave(self) -> None:
        self._call.decided()
        self._walk.waiting = None
