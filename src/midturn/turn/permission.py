"""Permission for a call: may it run with these arguments? Edits of the arguments are checked here, see `turn/edits.py`."""

from __future__ import annotations

from typing import Any, ClassVar, Final, assert_never

from msgspec import UNSET, Struct
from msgspec.structs import replace

from midturn.events.open_question import PromptKind, Refusal, arguments_sha256
from midturn.events.prompt import Prompt
from midturn.events.types import PROPOSALS, AnsweredBy, Approval, ApprovalState, Proposal, Vote
from midturn.question.json_value import Json, JsonObject, json_equal, members
from midturn.question.people import People
from midturn.question.persisted_question import PersistedQuestion
from midturn.question.reply import Answered, Edited, Replied, Scope, Submitted, WentBack
from midturn.question.schema import check_schema
from midturn.question.schema_check import misfits
from midturn.question.whole_numbers import whole_numbers
from midturn.routing import messages
from midturn.routing.rules import Ruling
from midturn.turn import decision as decisions, standing
from midturn.turn.approval import NOT_AN_APPROVAL, Approving, control_problem
from midturn.turn.context import call_context, call_subject
from midturn.turn.edits import Edits, proposed_arguments, read_edits
from midturn.turn.people import Poll, open_poll
from midturn.turn.record import CallRecord


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


NOT_CHECKED: Final = "An edit of this call is not checked yet: its rules are read when the turn goes on. Until then only a no counts."


class Permission(Approving, frozen=True):
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

    # What is decided on ---------------------------------------------------------------------------------------------

    @property
    def edits(self) -> Edits:
        """The edits of the call while it waited."""
        notes = self.view.turn.notes.get(self.id, ())
        return read_edits(notes)

    @property
    def arguments(self) -> Json:
        """The arguments that are decided on: those of the model, or of the last edit that others decide on."""
        if not self.view.turn.notes.get(self.id):  # as usual
            return self.view.call.arguments
        poll = self.poll
        return proposed_arguments(self.edits, UNSET if poll is None else poll.arguments, self.view.call.arguments)

    @property
    def digest(self) -> str:
        """Digest of the arguments that are decided on."""
        return arguments_sha256(self.arguments)

    @property
    def was_changed(self) -> bool:
        """Whether the arguments were edited since the call was put to people."""
        return self.edits.any

    @property
    def refusals(self) -> tuple[Refusal, ...]:
        """Refusals of equal calls earlier in the turn."""
        return self.view.turn.refusals_before(self.view.call, self.arguments)

    # Who decides ----------------------------------------------------------------------------------------------------

    def going(self) -> decisions.AwaitPerson | decisions.Closing:
        """Use what was remembered, else the rule that holds; else ask, else follow the detached policy."""
        if (closing := self._settled() or self._refused_too_often()) is not None:
            return closing
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

    def _refused_too_often(self) -> decisions.Closing | None:
        """Ask nobody about a call that people have refused as often as a tool may ask the same question."""
        refusals = self.refusals if self.waiting is None else ()
        if len(refusals) < self.view.settings.limits.repeats:
            return None
        message = messages.refused_too_often(self.view.tool, len(refusals))
        return decisions.Closing(decisions.Respond(message), (self._record("skipped", answered_by=AnsweredBy("cached")),))

    def _waits_for_a_yes(self) -> Approval | None:
        policy = self.view.policy
        bound = {
            "definition": policy.definition,
            "is_local": policy.is_local,
            "arguments_schema": policy.schema_for(self.view.call.arguments),
        }
        return self._waits(reason=self._reason, deadline=self.until, **bound, **self._as_foretold())

    @property
    def _reason(self) -> str | None:
        """Why a person is asked: the reason of a rule, or that a rule does not apply any more."""
        changed = "" if self.ruling.place else self.ruling.changed
        return standing.changed(self.view.tool, changed) if changed else self.ruling.reason

    @property
    def scopes(self) -> tuple[Scope, ...]:
        """The scopes that a yes may have. It may have none if certain people decide, if a rule has a person asked, or after an edit."""
        if self.poll is not None or self._rule or self.foretold is not None or self.was_changed:
            return ()
        waiting = self.waiting
        is_local = self.view.policy.is_local or (waiting is not None and waiting.is_local)
        return standing.scopes_for(self.view.call.arguments, is_local=is_local)

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
        asked = self._record("waiting", people=self._people(self.ruling), configured=self._is_configured(self.ruling))
        return open_poll(asked, {}, self.view.settings.known_people)

    def _is_configured(self, ruling: Ruling) -> bool:
        return ruling.people is not None and self.view.settings.names_people

    def _people(self, ruling: Ruling) -> People | None:
        return self.view.settings.filled_in(ruling.people) if ruling.people else None

    def _of_people(self, poll: Poll) -> decisions.AwaitPerson | decisions.Closing:
        """Put it to a person who is attached and may decide; else leave it to those who come by later, unless that is denied."""
        if why := poll.why_never:
            return replace(self._denied(messages.too_few(self.view.tool, self._text, why)), warning=why)
        if not self.attached and self._policy(self.view.policy.detached.run) == "deny":
            return self._denied(messages.not_allowed(self.view.tool))
        return decisions.put_to_people(poll, self.view.settings, self._waits_for_a_yes(), attached=self.attached)

    def _waits(self, **fields: Any) -> Approval | None:
        """Return the record that this is waited for, with those whose decision it is."""
        whose = {"people": self._people(self.ruling), "configured": self._is_configured(self.ruling)}
        return super()._waits(**fields, **whose, any_arguments=self.view.rules_are_fixed)

    def _settled(self) -> decisions.Closing | None:
        """Decide without asking: by a rule that stops the call, by what was remembered, by a rule that lets it run.

        What a rule puts to people, only people decide.
        """
        if self.ruling.run == "skip":
            return self._skip(self._ruler, self.ruling.reason)
        if self.poll is not None:
            return None
        remembered = self._remembered(self.ruling)
        if remembered is not None:
            return self._approve(AnsweredBy("cached")) if remembered == "y" else self._skip(AnsweredBy("cached"))
        if not self._rule and self.view.turn.memory.allows(self.view.tool, self.view.call.arguments, self._definition):
            return self._approve(AnsweredBy("cached", origin="conversation"))
        return self._approve(self._ruler, self.ruling.reason) if self.ruling.run == "unattended" else None

    def _remembered(self, ruling: Ruling) -> str | None:
        return self.view.turn.memory.permission(self.view.tool, ruling.place if ruling.run == "ask" else "")

    # What is shown --------------------------------------------------------------------------------------------------

    def prompt(self) -> Prompt:
        """Return what a person is shown."""
        poll, edits, arguments = self.poll, self.edits, self.arguments
        subject = call_subject(self.view.call, arguments, edits, poll)
        shown = replace(self._shown(subject, may_remember=poll is None), arguments=arguments, refusals=self.refusals)
        shown = replace(shown, scopes=self.scopes, definition=self._definition)
        foretold = None if subject.original is not UNSET or self.foretold is None else self.foretold.question
        context = call_context(subject, edits, shown.refusals, foretold.context if foretold else self._why)
        return replace(shown, question=replace(shown.question, context=context or None))

    @property
    def _text(self) -> str:
        """What is asked: what the tool has foretold, unless an edit has changed the arguments that it was foretold for."""
        if self.foretold is None or not json_equal(self.arguments, self.view.call.arguments):
            return super()._text
        return self.foretold.question.text

    def _as_foretold(self) -> dict[str, Any]:
        """Return what a person who decides has seen, for the record."""
        return {} if self.foretold is None else self.foretold.fields()

    @property
    def _why(self) -> str | None:
        """The reason why a rule has a person asked: that of the proposal, of the record, or of the rule."""
        waiting, proposal = self.waiting, self.edits.proposal
        return proposal.reason if proposal else waiting.reason if waiting else self._reason

    # What is recorded -----------------------------------------------------------------------------------------------

    @property
    def _ruler(self) -> AnsweredBy:
        """Who decides where a rule does."""
        by, place = self.ruling.by, self.ruling.place
        return AnsweredBy(by, name=place) if by == "policy" else AnsweredBy(by, origin=place)

    def _record(self, state: ApprovalState, **fields: Any) -> Approval:
        """Return a record; what a person is asked, and says, is under the rule that had them asked."""
        who: AnsweredBy | None = fields.get("answered_by")
        is_asked = who is None or who.was_asked
        rule: str = fields.pop("rule", self._rule)
        return super()._record(state, **fields, rule=rule if is_asked else "")

    @property
    def _rule(self) -> str:
        waiting, proposal = self.waiting, self.edits.proposal
        if proposal is not None:
            return proposal.rule
        return waiting.rule if waiting else self.ruling.place if self.ruling.run == "ask" else ""

    # What a reply leads to ------------------------------------------------------------------------------------------

    def take(self, reply: decisions.Spoken, who: AnsweredBy) -> decisions.Taken:
        """Run, run with other arguments, or skip."""
        poll = self.poll
        if poll is not None and (why := poll.barred(who)):
            return decisions.Misfit.barring(why)
        who = poll.named(who) if poll is not None else who
        match reply:
            case Edited(value):
                return self._edited(value, who)
            case Answered(value=True) if self.edits.unchecked is not None:  # nobody knows yet who may say yes to it
                return decisions.Misfit.because(NOT_CHECKED)
            case Answered(scope=scope) if scope is not None:
                return self._allowed(reply, who)
            case Answered(value=True | False as is_yes, reason=reason, remember=remember):
                return self._said(bool(is_yes), who, reason, poll, remember=remember)
            case Answered() | WentBack() | Replied() | Submitted():
                return NOT_AN_APPROVAL
            case _ as other:
                assert_never(other)

    def _said(self, is_yes: bool, who: AnsweredBy, reason: str | None, poll: Poll | None, *, remember: bool | str) -> decisions.Taken:  # noqa: FBT001  what was said
        if poll is None:
            return self._approve(who, reason, remember=remember) if is_yes else self._skip(who, reason, remember=remember)
        closing = self._approved_as_shown(who, reason) if is_yes else self._skip(who, reason)
        if poll.needed == 1:
            return closing
        if is_yes and (why := poll.why_no_vote(who)):
            return decisions.Misfit.barring(why)
        vote = Vote(id=self.id, answer=is_yes, reason=reason, answered_by=who, sha256=self.digest)
        return decisions.counted(poll, vote, closing)

    def _allowed(self, reply: Answered, who: AnsweredBy) -> decisions.Closing | decisions.Misfit:
        """Take a yes that counts for later calls, too."""
        scope = reply.scope or "conversation"
        if why := standing.refusal(scope, self.scopes, self._rule, has_people=self.poll is not None):
            return decisions.Misfit.because(why)
        event = standing.permission_event(self.id, self.view.tool, self.view.call.arguments, reply, self._definition, who)
        if isinstance(event, str):
            return decisions.Misfit.because(event)
        closing = self._approve(who, reply.reason)
        return replace(closing, records=(*closing.records, event))

    def _edited(self, arguments: Json, who: AnsweredBy) -> decisions.Taken:
        """Take an edit: check it, or record it for the process that can."""
        if not isinstance(arguments, dict):
            return decisions.Misfit.because("Arguments are a JSON object.")
        if self.view.policy.is_program and (problem := control_problem(arguments)):
            return decisions.Misfit.because(f"{problem}. Only line ends and tabs are allowed in what a program is given.")
        schema = self._arguments_schema
        if schema is not None and not check_schema(schema):
            if problems := misfits(schema, arguments):
                return decisions.Misfit(problems)
            arguments = dict(members(whole_numbers(schema, arguments)))
        if (ruling := self.view.ruling_on_edit(arguments)) is not None:
            return self.judge(arguments, who, ruling)
        if (waiting := self.waiting) is not None and waiting.any_arguments:  # the rules say the same about the edited call
            return self.judge(arguments, who, Ruling("ask", waiting.rule, waiting.reason, people=waiting.people))
        return decisions.Proposed(self._proposal("unchecked", arguments, who))

    def judge(self, arguments: Json, who: AnsweredBy, ruling: Ruling) -> decisions.Taken:
        """Say what an edit leads to, given the ruling on the edited call: as if the model had made that call.

        Args:
            arguments: The new arguments, a JSON object.
            who: The editor, who may decide what waits.
            ruling: What the rules say about the new arguments.
        """
        people = self._people(ruling)
        if why := self._why_not_edited(ruling, people):
            return decisions.Misfit.because(why)
        rule = ruling.place if ruling.run == "ask" else ""
        if people is None:
            return self._ran_edited(arguments, who, rule)
        poll = self.poll
        same = poll if poll is not None and poll.people == people else None
        result = same or self._poll_for(people, ruling)
        if result.needed == 1 and not result.barred(who):
            return self._ran_edited(arguments, who, rule)
        vote = None if result.barred(who) else Vote(id=self.id, answered_by=result.named(who), sha256=arguments_sha256(arguments))
        if same is not None and vote is not None:
            return decisions.counted(same, replace(vote, arguments=arguments), self._ran_edited(arguments, who, self._rule))
        return decisions.Proposed(self._proposal("open", arguments, who, people, ruling), vote)

    @property
    def _arguments_schema(self) -> JsonObject | None:
        """The schema that an edit has to fit: the one on record, which a process that only answers knows as well."""
        waiting = self.waiting
        return waiting.arguments_schema if waiting else self.view.policy.schema_for(self.view.call.arguments)

    def _poll_for(self, people: People, ruling: Ruling) -> Poll:
        known, configured = self.view.settings.known_people, self._is_configured(ruling)
        return Poll(self.id, people, needed=people.approvals, directory=known, configured=configured)

    def _why_not_edited(self, ruling: Ruling, people: People | None) -> str:
        """Say why the edited call could not run, whoever says yes; empty if it could."""
        if ruling.run == "skip":
            return _refused(ruling)
        if people is not None:
            why = self._poll_for(people, ruling).why_never
            return f"The edited call could not be decided: {why}." if why else ""
        is_refused = self._remembered(ruling) == "n"
        return "A no to every call of this tool is remembered for this turn." if is_refused else ""

    def refuse_edit(self, edit: Proposal, why: str) -> Proposal:
        """Return the record that an edit was refused."""
        return Proposal(id=edit.id, state="refused", arguments=edit.arguments, answered_by=edit.answered_by, reason=why, requires=PROPOSALS)

    def _proposal(
        self, state: str, arguments: Json, who: AnsweredBy, people: People | None = None, ruling: Ruling | None = None
    ) -> Proposal:
        place, reason = (ruling.place, ruling.reason) if ruling else ("", None)
        return Proposal(
            id=self.id,
            state=state,
            arguments=arguments,
            answered_by=who,
            people=people,
            configured=ruling is not None and self._is_configured(ruling),
            rule=place,
            reason=reason,
            requires=PROPOSALS,
        )

    def _approved_as_shown(self, who: AnsweredBy, reason: str | None) -> decisions.Closing:
        """Approve the call with the arguments that are decided on."""
        arguments = self.arguments
        if json_equal(arguments, self.view.call.arguments):
            return self._approve(who, reason)
        return self._ran_edited(arguments, who, self._rule, reason)

    def _ran_edited(self, arguments: Json, who: AnsweredBy, rule: str, reason: str | None = None) -> decisions.Closing:
        return decisions.Closing(decisions.Run(), (self._record("edited", answered_by=who, arguments=arguments, rule=rule, reason=reason),))

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


def _refused(ruling: Ruling) -> str:
    """Say that a rule refuses the edited call, with its place and reason."""
    place = f" ({ruling.place})" if ruling.place else ""
    reason = f": {ruling.reason.rstrip('.')}" if ruling.reason else ""
    return f"A rule does not allow such a call{place}{reason}."
