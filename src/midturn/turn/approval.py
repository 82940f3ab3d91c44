"""Approvals: permission for a call, delivery of its result, review of a form, and the check of program arguments."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, ClassVar, Final, Self, assert_never

from msgspec import UNSET, Struct, UnsetType
from msgspec.structs import replace

from midturn.question.answer_type import BooleanType
from midturn.question.people import People
from midturn.question.persisted_question import PersistedQuestion
from midturn.question.question import Question
from midturn.question.reply import Answered, Edited, Replied, Scope, Submitted, WentBack
from midturn.record.events import AnsweredBy, Approval, ApprovalState, Image, Vote, required_by
from midturn.record.open_question import PromptKind, address, approval_text, arguments_sha256
from midturn.record.prompt import CallSubject, FormSubject, Prompt, ResultSubject, Subject
from midturn.routing import messages
from midturn.routing.policy import DetachedPolicy
from midturn.routing.rules import Ruling
from midturn.turn import decision as decisions, standing
from midturn.turn.people import Poll, open_poll
from midturn.turn.record import CallRecord
from midturn.values.json_value import Json, pointer_to

NOT_AN_APPROVAL = decisions.Misfit.because("This is a yes/no decision.")


class _Approving(Struct, frozen=True):
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
        )

    def unattended(self) -> Self:
        """Return the same decision as if no one was attached."""
        return replace(self, attached=False)

    def fail(self, error: str) -> decisions.Closing:
        """Fail the call, because the prompter failed."""
        return decisions.Closing(decisions.Respond(messages.prompt_failed(self.view.tool, self._text, error)))


class Foretelling(Struct, frozen=True):
    """What the tool of a call would ask first: who is asked about the call sees it in place of our own words, and a yes answers both."""

    question_id: str
    question: PersistedQuestion

    def fields(self) -> dict[str, Any]:
        """Return it as a record keeps it."""
        return {"question_id": self.question_id, "question": self.question}


def foretold_by(waiting: Approval | None) -> Foretelling | None:
    """Return what was foretold when an approval began to wait."""
    return Foretelling(waiting.question_id, waiting.question) if waiting is not None and waiting.question is not None else None


class Permission(_Approving, frozen=True):
    """May this call run, with exactly these arguments?

    `foretold` is what it would ask first, `ruling` what rules say about it, `until` the deadline of one that is asked now.
    """

    kind: ClassVar[PromptKind] = "run"

    foretold: Foretelling | None = None
    ruling: Ruling = Ruling("ask")
    until: str = ""

    @staticmethod
    def was_given(record: CallRecord) -> bool:
        """Whether the call was approved before, for the very arguments that would run now."""
        decision = record.decided("run")
        if decision is None or record.waiting("run"):
            return False
        return decision.state == "edited" or decision.arguments_sha256 == arguments_sha256(record.arguments)

    def going(self) -> decisions.AwaitPerson | decisions.Closing:
        """Use what was remembered, else the rule that holds; else ask, else follow the detached policy."""
        if (settled := self._settled()) is not None:
            return settled
        if (poll := self.poll) is not None:
            return self._of_people(poll)
        if self.attached:
            return decisions.AwaitPerson("person", self._waits_for_a_yes())
        match self._policy(self.view.policy.detached.run):
            case "auto" | "defaults":
                return self._approve(decisions.BY_DEFAULT)
            case "deny":
                return self._denied(messages.not_allowed(self.view.tool))
            case "defer":
                return decisions.AwaitPerson("inbox", self._waits_for_a_yes())
            case _ as other:
                assert_never(other)

    def _waits_for_a_yes(self) -> Approval | None:
        policy = self.view.policy
        bound = {"definition": policy.definition, "is_local": policy.is_local}
        return self._waits(reason=self._reason, deadline=self.until, **bound, **self._as_foretold())

    @property
    def _reason(self) -> str | None:
        """Why a person is asked: the reason of a rule, or that a rule does not apply any more."""
        changed = "" if self.ruling.place else self.ruling.changed
        return standing.changed(self.view.tool, changed) if changed else self.ruling.reason

    @property
    def scopes(self) -> tuple[Scope, ...]:
        """The scopes that a yes may have. It may have none where certain people decide, or where a rule has a person asked."""
        if self.poll is not None or self._asking_rule or self.foretold is not None:
            return ()
        waiting = self.waiting
        is_local = self.view.policy.is_local or (waiting is not None and waiting.is_local)
        return standing.scopes_for(self.view.call.arguments, is_local=is_local)

    @property
    def _asking_rule(self) -> str:
        """The place of the rule that has a person asked."""
        waiting = self.waiting
        return waiting.rule if waiting else self.ruling.place if self.ruling.run == "ask" else ""

    @property
    def _definition(self) -> str:
        """The fingerprint of the tool; a process that only answers knows it from the record."""
        waiting = self.waiting
        return self.view.policy.definition or (waiting.definition if waiting else "")

    @property
    def deadline(self) -> str:
        """Until when a person may allow the call; empty where that is without end, or no one waits for it."""
        return waiting.deadline if (waiting := self.waiting) else ""

    def expire(self) -> decisions.Closing:
        """Close, because no one has allowed the call in time."""
        return decisions.Closing(decisions.Respond(messages.not_allowed_in_time(self.view.tool)), (self._record("expired"),))

    @property
    def poll(self) -> Poll | None:
        """Whose decision it is: as recorded, or as a rule says before anything is."""
        if self.waiting is not None or self.ruling.people is None:
            return super().poll
        asked = self._record("waiting", people=self._people, configured=self._is_configured)
        return open_poll(asked, {}, self.view.settings.known_people)

    @property
    def _people(self) -> People | None:
        people = self.ruling.people
        return self.view.settings.filled_in(people) if people else None

    def _of_people(self, poll: Poll) -> decisions.AwaitPerson | decisions.Closing:
        """Put it to a person who is attached and may decide; else leave it to those who come by later, unless that is denied."""
        if why := poll.why_never:
            return replace(self._denied(messages.too_few(self.view.tool, self._text, why)), warning=why)
        if not self.attached and self._policy(self.view.policy.detached.run) == "deny":
            return self._denied(messages.not_allowed(self.view.tool))
        return decisions.put_to_people(poll, self.view.settings, self._waits_for_a_yes(), attached=self.attached)

    def _waits(self, **fields: Any) -> Approval | None:
        """Return the record that this is waited for, with those whose decision it is."""
        return super()._waits(**fields, people=self._people, configured=self._is_configured)

    @property
    def _is_configured(self) -> bool:
        return self.ruling.people is not None and self.view.settings.names_people

    def _settled(self) -> decisions.Closing | None:
        """Decide without asking: by a rule that stops the call, by what was remembered, by a rule that lets it run.

        What a rule puts to people, only people decide.
        """
        if self.ruling.run == "skip":
            return self._skip(self._ruler, self.ruling.reason)
        if self.poll is not None:
            return None
        memory = self.view.turn.memory
        remembered = memory.permission(self.view.tool, self._asking_rule)
        if remembered is not None:
            return self._approve(AnsweredBy("cached")) if remembered == "y" else self._skip(AnsweredBy("cached"))
        if not self._asking_rule and memory.allows(self.view.tool, self.view.call.arguments, self._definition):
            return self._approve(AnsweredBy("cached", origin="conversation"))
        return self._approve(self._ruler, self.ruling.reason) if self.ruling.run == "unattended" else None

    def prompt(self) -> Prompt:
        """Return what a person is shown."""
        poll = self.poll
        call = self.view.call.call
        if poll is not None and not isinstance(poll.arguments, UnsetType):
            call = replace(call, arguments=poll.arguments)
        shown = replace(self._shown(CallSubject(call), may_remember=poll is None), arguments=call.arguments)
        shown = replace(shown, scopes=self.scopes, definition=self._definition)
        if self.foretold is None:
            return replace(shown, question=replace(shown.question, context=self._why)) if self._why else shown
        return replace(shown, question=replace(shown.question, text=self._text, context=self.foretold.question.context))

    @property
    def _text(self) -> str:
        return super()._text if self.foretold is None else self.foretold.question.text

    def _as_foretold(self) -> dict[str, Any]:
        """Return what a person who decides has seen, for the record."""
        return {} if self.foretold is None else self.foretold.fields()

    @property
    def _why(self) -> str | None:
        """Why a rule has a person asked; it stands in the record that is waited for."""
        waiting = self.waiting
        return waiting.reason if waiting else self._reason

    @property
    def _ruler(self) -> AnsweredBy:
        """Who decides where a rule does."""
        by, place = self.ruling.by, self.ruling.place
        return AnsweredBy(by, name=place) if by == "policy" else AnsweredBy(by, origin=place)

    def _record(self, state: ApprovalState, **fields: Any) -> Approval:
        """Return a record; what a person is asked, and says, is under the rule that had them asked."""
        who: AnsweredBy | None = fields.get("answered_by")
        is_asked = who is None or who.was_asked
        return super()._record(state, **fields, rule=self._asking_rule if is_asked else "")

    def take(self, reply: decisions.Spoken, who: AnsweredBy) -> decisions.Closing | decisions.Counted | decisions.Misfit:
        """Run, run with other arguments, or skip."""
        poll = self.poll
        if poll is not None and (why := poll.barred(who)):
            return decisions.Misfit.barring(why)
        if isinstance(reply, Answered) and reply.scope is not None:
            return self._allowed(reply, who)
        if poll is None:
            return self._decided(reply, who)
        return self._voted(poll, reply, poll.named(who))

    def _allowed(self, reply: Answered, who: AnsweredBy) -> decisions.Closing | decisions.Misfit:
        """Take a yes that counts for later calls, too."""
        scope = reply.scope or "conversation"
        if why := standing.refusal(scope, self.scopes, self._asking_rule, has_people=self.poll is not None):
            return decisions.Misfit.because(why)
        event = standing.permission_event(self.id, self.view.tool, self.view.call.arguments, reply, self._definition, who)
        if isinstance(event, str):
            return decisions.Misfit.because(event)
        closing = self._approve(who, reply.reason)
        return replace(closing, records=(*closing.records, event))

    def has_changed(self, digest: str) -> bool:
        """Whether the arguments are others than those that someone was shown: one of several people has edited them since."""
        poll = self.poll
        edited = UNSET if poll is None else poll.arguments
        return digest != arguments_sha256(self.view.call.arguments if isinstance(edited, UnsetType) else edited)

    def _voted(self, poll: Poll, reply: decisions.Spoken, who: AnsweredBy) -> decisions.Closing | decisions.Counted | decisions.Misfit:
        """Take a decision of one of several people. An edit is a vote for other arguments: those who agree have to see them."""
        reply = replace(reply, remember=False) if isinstance(reply, Answered) else reply
        edited = reply.value if isinstance(reply, Edited) else poll.arguments
        is_yes = isinstance(reply, Edited) or (isinstance(reply, Answered) and reply.value is True)
        outcome = Edited(edited) if is_yes and not isinstance(edited, UnsetType) else reply
        closing = self._decided(outcome, who)
        if isinstance(closing, decisions.Misfit) or poll.needed == 1:
            return closing
        if isinstance(reply, Answered) and is_yes and (why := poll.why_no_vote(who)):
            return decisions.Misfit.barring(why)
        about = self.view.call.arguments if isinstance(edited, UnsetType) else edited
        vote = Vote(
            id=self.id,
            answer=is_yes,
            reason=reply.reason if isinstance(reply, Answered) else None,
            answered_by=who,
            arguments=edited if isinstance(reply, Edited) else UNSET,
            sha256=arguments_sha256(about),
        )
        return decisions.counted(poll, vote, closing)

    def _decided(self, reply: decisions.Spoken, who: AnsweredBy) -> decisions.Closing | decisions.Misfit:
        match reply:
            case Answered(value=True, reason=reason, remember=remember):
                return self._approve(who, reason, remember=remember)
            case Answered(value=False, reason=reason, remember=remember):
                return self._skip(who, reason, remember=remember)
            case Edited(value) if problem := self._not_to_run(value):
                return decisions.Misfit.because(problem)
            case Edited(value) if isinstance(value, dict):
                return decisions.Closing(decisions.Run(), (self._record("edited", answered_by=who, arguments=value),))
            case Edited():
                return decisions.Misfit.because("Arguments are a JSON object.")
            case Answered() | WentBack() | Replied() | Submitted():
                return NOT_AN_APPROVAL
            case _ as other:
                assert_never(other)

    def _not_to_run(self, arguments: Json) -> str | None:
        """Say why a person cannot have the call run with these arguments."""
        if self.view.policy.is_program and (problem := control_problem(arguments)):
            return f"{problem}. Only line ends and tabs are allowed in what a program is given."
        ruling = self.view.policy.ruling(arguments)
        return f"A rule does not allow such a call ({ruling.place})." if ruling.place and ruling.run == "skip" else None

    def _approve(self, who: AnsweredBy, reason: str | None = None, *, remember: bool | str = False) -> decisions.Closing:
        digest = arguments_sha256(self.view.call.arguments)
        seen = self._as_foretold() if who.by == "user" else {}
        kept = {"remembered": bool(remember), "kept": remember if isinstance(remember, str) else ""}
        record = self._record("approved", answered_by=who, reason=reason, arguments_sha256=digest, **kept, **seen)
        return decisions.Closing(decisions.Run(), (record,))

    def _skip(self, who: AnsweredBy, reason: str | None = None, *, remember: bool | str = False) -> decisions.Closing:
        seen = self._as_foretold() if who.by == "user" else {}
        record = self._record("skipped", answered_by=who, remembered=bool(remember), reason=reason, **seen)
        return decisions.Closing(decisions.Respond(self._refusal(who, reason)), (record,))

    def _refusal(self, who: AnsweredBy, reason: str | None) -> str:
        """Return what the model reads."""
        match who.by:
            case "configuration":
                return messages.skipped_by_rule(self.view.tool, reason)
            case "policy":
                return messages.skipped_by_policy(self.view.tool, who.name or who.by, reason)
            case _:
                return messages.skipped(self.view.tool, reason)


class Delivery(_Approving, frozen=True):
    """May the model read this result?"""

    kind: ClassVar[PromptKind] = "deliver"

    content: str
    is_error: bool
    images: tuple[Image, ...] = ()

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


class ReviewStep(_Approving, frozen=True):
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
