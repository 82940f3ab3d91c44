"""Decides whether a call may run with its arguments. Also checks edits of the arguments (see
`turn/edits.py`).
"""

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
from midturn.question.schema_check import foreign_schema_problems
from midturn.question.whole_numbers import whole_numbers
from midturn.routing import messages
from midturn.routing.rules import Ruling
from midturn.turn import decision as decisions, standing_decisions
from midturn.turn.approvals import NOT_AN_APPROVAL, ApprovalDecision, control_problem
from midturn.turn.call_record import CallRecord
from midturn.turn.context import call_context, call_subject
from midturn.turn.edits import Edits, proposed_arguments, read_edits
from midturn.turn.votes import Poll, open_poll


class Preview(Struct, frozen=True):
    """The question that the tool of a call would ask first. The permission prompt shows it, and
    approving the call also answers it.
    """

    question_id: str
    question: PersistedQuestion

    def fields(self) -> dict[str, Any]:
        """Return the fields that record the preview in an approval event."""
        return {"question_id": self.question_id, "question": self.question}


def recorded_preview(waiting: Approval | None) -> Preview | None:
    """Return the preview that the `waiting` event recorded, or None."""
    return (
        Preview(waiting.question_id, waiting.question)
        if waiting is not None and waiting.question is not None
        else None
    )


NOT_CHECKED: Final = (
    "An edit of this call is not checked yet: the rules are evaluated when the turn continues."
    " Until then, the call can only be refused."
)


class PermissionDecision(ApprovalDecision, frozen=True):
    """Decides whether a call may run with exactly these arguments.

    Args:
        preview: The question that the tool of the call would ask first.
        ruling: The result of the tool's rules for the call.
        until: The deadline of a new request (RFC 3339). Empty if there is none.
    """

    kind: ClassVar[PromptKind] = "run"

    preview: Preview | None = None
    ruling: Ruling = Ruling("ask")
    until: str = ""

    @staticmethod
    def was_given(record: CallRecord) -> bool:
        """Return whether the call was already approved with its current arguments."""
        decision = record.decided("run")
        if decision is None or record.waiting("run"):
            return False
        return decision.state == "edited" or decision.arguments_sha256 == arguments_sha256(
            record.arguments
        )

    # Subject
    # ----------------------------------------------------------------------------------------------

    @property
    def edits(self) -> Edits:
        """The edits made while the call waits for permission."""
        notes = self.context.turn.notes.get(self.id, ())
        return read_edits(notes)

    @property
    def arguments(self) -> Json:
        """The arguments to approve: those of the model, or of the last edit that other people must
        decide.
        """
        if not self.context.turn.notes.get(self.id):  # without notes there is no edit
            return self.context.call.arguments
        poll = self.poll
        return proposed_arguments(
            self.edits, UNSET if poll is None else poll.arguments, self.context.call.arguments
        )

    @property
    def digest(self) -> str:
        """Digest of the arguments to approve."""
        return arguments_sha256(self.arguments)

    @property
    def was_changed(self) -> bool:
        """Whether the arguments were edited after people were asked."""
        return self.edits.any

    @property
    def refusals(self) -> tuple[Refusal, ...]:
        """Refusals of identical calls earlier in the turn."""
        return self.context.turn.refusals_before(self.context.call, self.arguments)

    # Route
    # ----------------------------------------------------------------------------------------------

    def route(self) -> decisions.AskPerson | decisions.Resolution:
        """Apply a remembered permission or the rules. If neither decides, ask a person or apply the
        detached policy.
        """
        if (resolution := self._without_asking() or self._refused_too_often()) is not None:
            return resolution
        if (poll := self.poll) is not None:
            return self._route_to_people(poll)
        if self.attached:
            return decisions.AskPerson("person", self._waits_for_a_yes())
        match self._policy(self.context.policy.detached.run):
            case "auto" | "defaults":
                return self._approve(decisions.BY_DEFAULT)
            case "deny":
                return self._denied(messages.not_allowed(self.context.tool))
            case "defer":
                return decisions.AskPerson("inbox", self._waits_for_a_yes())
            case _ as other:
                assert_never(other)

    def _refused_too_often(self) -> decisions.Resolution | None:
        """Return the resolution if people refused identical calls too often. The limit is the same
        as for repeated questions.
        """
        refusals = self.refusals if self.waiting is None else ()
        if len(refusals) < self.context.settings.limits.repeats:
            return None
        message = messages.refused_too_often(self.context.tool, len(refusals))
        return decisions.Resolution(
            decisions.Respond(message), (self._record("skipped", answered_by=AnsweredBy("cached")),)
        )

    def _waits_for_a_yes(self) -> Approval | None:
        policy = self.context.policy
        bound = {
            "definition": policy.definition,
            "is_local": policy.is_local,
            "arguments_schema": policy.schema_for(self.context.call.arguments),
        }
        return self._waits(
            reason=self._reason, deadline=self.until, **bound, **self._preview_fields()
        )

    @property
    def _reason(self) -> str | None:
        """Why a person is asked: the reason that the rule gives, or the message that a rule no
        longer applies.
        """
        changed = "" if self.ruling.place else self.ruling.changed
        return (
            standing_decisions.changed(self.context.tool, changed)
            if changed
            else self.ruling.reason
        )

    @property
    def scopes(self) -> tuple[Scope, ...]:
        """The scopes that an approval may have. There are none if certain people decide, if a rule
        requires approval, if the tool previewed a question, or after an edit.
        """
        if self.poll is not None or self._rule or self.preview is not None or self.was_changed:
            return ()
        waiting = self.waiting
        is_local = self.context.policy.is_local or (waiting is not None and waiting.is_local)
        return standing_decisions.scopes_for(self.context.call.arguments, is_local=is_local)

    @property
    def _definition(self) -> str:
        """The fingerprint of the tool's definition. A process that only records answers reads it
        from the `waiting` event.
        """
        waiting = self.waiting
        return self.context.policy.definition or (waiting.definition if waiting else "")

    @property
    def deadline(self) -> str:
        """The deadline of the open permission (RFC 3339). Empty if there is none."""
        return waiting.deadline if (waiting := self.waiting) else ""

    def expire(self) -> decisions.Resolution:
        """Return the resolution after the deadline."""
        return decisions.Resolution(
            decisions.Respond(messages.not_allowed_in_time(self.context.tool)),
            (self._record("expired"),),
        )

    @property
    def poll(self) -> Poll | None:
        """The people who decide: those in the `waiting` event or, before it is recorded, those of
        the rule.
        """
        if self.waiting is not None or self.ruling.people is None:
            return super().poll
        asked = self._record(
            "waiting", people=self._people(self.ruling), configured=self._is_configured(self.ruling)
        )
        return open_poll(asked, {}, self.context.settings.known_people)

    def _is_configured(self, ruling: Ruling) -> bool:
        return ruling.people is not None and self.context.settings.names_people

    def _people(self, ruling: Ruling) -> People | None:
        return self.context.settings.filled_in(ruling.people) if ruling.people else None

    def _route_to_people(self, poll: Poll) -> decisions.AskPerson | decisions.Resolution:
        """Return the route to the attached person, if that person may decide, or to people who
        decide later. With the policy `deny`, the call is denied instead of waiting for people.
        """
        if why := poll.why_never:
            return replace(
                self._denied(messages.too_few(self.context.tool, self._text, why)), warning=why
            )
        if not self.attached and self._policy(self.context.policy.detached.run) == "deny":
            return self._denied(messages.not_allowed(self.context.tool))
        return decisions.ask_people(
            poll, self.context.settings, self._waits_for_a_yes(), attached=self.attached
        )

    def _waits(self, **fields: Any) -> Approval | None:
        """Return a new `waiting` event with the people who decide, or None if one is already
        recorded.
        """
        whose = {
            "people": self._people(self.ruling),
            "configured": self._is_configured(self.ruling),
        }
        return super()._waits(**fields, **whose, any_arguments=self.context.rules_are_fixed)

    def _without_asking(self) -> decisions.Resolution | None:
        """Return the resolution if nobody has to be asked, because a rule decides or a decision was
        remembered.

        If a rule names people, only a rule that skips the call can decide without them.
        """
        if self.ruling.run == "skip":
            return self._skip(self._ruler, self.ruling.reason)
        if self.poll is not None:
            return None
        remembered = self._remembered(self.ruling)
        if remembered is not None:
            return (
                self._approve(AnsweredBy("cached"))
                if remembered == "y"
                else self._skip(AnsweredBy("cached"))
            )
        if not self._rule and self.context.turn.memory.allows(
            self.context.tool, self.context.call.arguments, self._definition
        ):
            return self._approve(AnsweredBy("cached", origin="conversation"))
        return (
            self._approve(self._ruler, self.ruling.reason)
            if self.ruling.run == "unattended"
            else None
        )

    def _remembered(self, ruling: Ruling) -> str | None:
        return self.context.turn.memory.permission(
            self.context.tool, ruling.place if ruling.run == "ask" else ""
        )

    # Prompt
    # ----------------------------------------------------------------------------------------------

    def prompt(self) -> Prompt:
        """Return the prompt for a person."""
        poll, edits, arguments = self.poll, self.edits, self.arguments
        subject = call_subject(self.context.call, arguments, edits, poll)
        shown = replace(
            self._shown(subject, may_remember=poll is None),
            arguments=arguments,
            refusals=self.refusals,
        )
        shown = replace(shown, scopes=self.scopes, definition=self._definition)
        preview = (
            None if subject.original is not UNSET or self.preview is None else self.preview.question
        )
        context = call_context(
            subject, edits, shown.refusals, preview.context if preview else self._why
        )
        return replace(shown, question=replace(shown.question, context=context or None))

    @property
    def _text(self) -> str:
        """The text of the question: the previewed question, unless the arguments were edited."""
        if self.preview is None or not json_equal(self.arguments, self.context.call.arguments):
            return super()._text
        return self.preview.question.text

    def _preview_fields(self) -> dict[str, Any]:
        """Return the event fields that record the previewed question."""
        return {} if self.preview is None else self.preview.fields()

    @property
    def _why(self) -> str | None:
        """Why a person is asked, according to the proposal, the `waiting` event, or the rule."""
        waiting, proposal = self.waiting, self.edits.proposal
        return proposal.reason if proposal else waiting.reason if waiting else self._reason

    # Events
    # ----------------------------------------------------------------------------------------------

    @property
    def _ruler(self) -> AnsweredBy:
        """The responder that is recorded if a rule decides."""
        by, place = self.ruling.by, self.ruling.place
        return AnsweredBy(by, name=place) if by == "policy" else AnsweredBy(by, origin=place)

    def _record(self, state: ApprovalState, **fields: Any) -> Approval:
        """Return an event of the approval. If a person is asked or decided, the event names the
        rule that required approval.
        """
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

    # Replies
    # ----------------------------------------------------------------------------------------------

    def take(self, reply: decisions.DecisionReply, who: AnsweredBy) -> decisions.ReplyResult:
        """Evaluate a reply: run the call, run it with other arguments, or skip it."""
        poll = self.poll
        if poll is not None and (why := poll.barred(who)):
            return decisions.InvalidReply.barring(why)
        who = poll.named(who) if poll is not None else who
        match reply:
            case Edited(value):
                return self._edited(value, who)
            case Answered(value=True) if (
                self.edits.unchecked is not None
            ):  # the rules were not evaluated for the edit yet
                return decisions.InvalidReply.because(NOT_CHECKED)
            case Answered(scope=scope) if scope is not None:
                return self._allowed(reply, who)
            case Answered(value=True | False as is_yes, reason=reason, remember=remember):
                return self._said(bool(is_yes), who, reason, poll, remember=remember)
            case Answered() | WentBack() | Replied() | Submitted():
                return NOT_AN_APPROVAL
            case _ as other:
                assert_never(other)

    def _said(
        self,
        is_yes: bool,  # noqa: FBT001  the person's answer
        who: AnsweredBy,
        reason: str | None,
        poll: Poll | None,
        *,
        remember: bool | str,
    ) -> decisions.ReplyResult:
        if poll is None:
            return (
                self._approve(who, reason, remember=remember)
                if is_yes
                else self._skip(who, reason, remember=remember)
            )
        resolution = self._approved_as_shown(who, reason) if is_yes else self._skip(who, reason)
        if poll.needed == 1:
            return resolution
        if is_yes and (why := poll.why_no_vote(who)):
            return decisions.InvalidReply.barring(why)
        vote = Vote(id=self.id, answer=is_yes, reason=reason, answered_by=who, sha256=self.digest)
        return decisions.with_vote(poll, vote, resolution)

    def _allowed(
        self, reply: Answered, who: AnsweredBy
    ) -> decisions.Resolution | decisions.InvalidReply:
        """Process an approval that also applies to later calls."""
        scope = reply.scope or "conversation"
        if why := standing_decisions.refusal(
            scope, self.scopes, self._rule, has_people=self.poll is not None
        ):
            return decisions.InvalidReply.because(why)
        event = standing_decisions.permission_event(
            self.id, self.context.tool, self.context.call.arguments, reply, self._definition, who
        )
        if isinstance(event, str):
            return decisions.InvalidReply.because(event)
        resolution = self._approve(who, reply.reason)
        return replace(resolution, records=(*resolution.records, event))

    def _edited(self, arguments: Json, who: AnsweredBy) -> decisions.ReplyResult:
        """Process an edit: check it, or record it for a process that can check it."""
        if not isinstance(arguments, dict):
            return decisions.InvalidReply.because("Arguments must be a JSON object.")
        if self.context.policy.is_program and (problem := control_problem(arguments)):
            return decisions.InvalidReply.because(
                f"{problem}. Only line ends and tabs are allowed in the arguments of a program."
            )
        schema = self._arguments_schema
        if schema is not None and not check_schema(schema):
            if problems := foreign_schema_problems(schema, arguments):
                return decisions.InvalidReply(problems)
            arguments = dict(members(whole_numbers(schema, arguments)))
        if (ruling := self.context.ruling_on_edit(arguments)) is not None:
            return self.judge(arguments, who, ruling)
        if (
            waiting := self.waiting
        ) is not None and waiting.any_arguments:  # the rules are the same for all arguments
            return self.judge(
                arguments, who, Ruling("ask", waiting.rule, waiting.reason, people=waiting.people)
            )
        return decisions.ProposalRecorded(self._proposal("unchecked", arguments, who))

    def judge(self, arguments: Json, who: AnsweredBy, ruling: Ruling) -> decisions.ReplyResult:
        """Return the result of an edit, given the result of the rules. The edited call is treated
        as if the model had made it.

        Args:
            arguments: The new arguments, a JSON object.
            who: The editor, who may decide the open call.
            ruling: The result of the rules for the new arguments.
        """
        people = self._people(ruling)
        if why := self._why_not_edited(ruling, people):
            return decisions.InvalidReply.because(why)
        rule = ruling.place if ruling.run == "ask" else ""
        if people is None:
            return self._ran_edited(arguments, who, rule)
        poll = self.poll
        same = poll if poll is not None and poll.people == people else None
        result = same or self._poll_for(people, ruling)
        if result.needed == 1 and not result.barred(who):
            return self._ran_edited(arguments, who, rule)
        vote = (
            None
            if result.barred(who)
            else Vote(id=self.id, answered_by=result.named(who), sha256=arguments_sha256(arguments))
        )
        if same is not None and vote is not None:
            return decisions.with_vote(
                same,
                replace(vote, arguments=arguments),
                self._ran_edited(arguments, who, self._rule),
            )
        return decisions.ProposalRecorded(
            self._proposal("open", arguments, who, people, ruling), vote
        )

    @property
    def _arguments_schema(self) -> JsonObject | None:
        """The JSON Schema for edited arguments.

        It is read from the `waiting` event, so that a process without the tool can use it.
        """
        waiting = self.waiting
        return (
            waiting.arguments_schema
            if waiting
            else self.context.policy.schema_for(self.context.call.arguments)
        )

    def _poll_for(self, people: People, ruling: Ruling) -> Poll:
        known, configured = self.context.settings.known_people, self._is_configured(ruling)
        return Poll(
            self.id, people, needed=people.approvals, directory=known, configured=configured
        )

    def _why_not_edited(self, ruling: Ruling, people: People | None) -> str:
        """Return why nobody can approve the edited call. Empty if somebody can."""
        if ruling.run == "skip":
            return _refused(ruling)
        if people is not None:
            why = self._poll_for(people, ruling).why_never
            return f"Nobody could approve the edited call: {why}." if why else ""
        is_refused = self._remembered(ruling) == "n"
        return "All calls of this tool are refused for the rest of this turn." if is_refused else ""

    def refuse_edit(self, edit: Proposal, why: str) -> Proposal:
        """Return the event that records that an edit was refused."""
        return Proposal(
            id=edit.id,
            state="refused",
            arguments=edit.arguments,
            answered_by=edit.answered_by,
            reason=why,
            requires=PROPOSALS,
        )

    def _proposal(
        self,
        state: str,
        arguments: Json,
        who: AnsweredBy,
        people: People | None = None,
        ruling: Ruling | None = None,
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

    def _approved_as_shown(self, who: AnsweredBy, reason: str | None) -> decisions.Resolution:
        """Approve the call with the arguments that the prompt showed."""
        arguments = self.arguments
        if json_equal(arguments, self.context.call.arguments):
            return self._approve(who, reason)
        return self._ran_edited(arguments, who, self._rule, reason)

    def _ran_edited(
        self, arguments: Json, who: AnsweredBy, rule: str, reason: str | None = None
    ) -> decisions.Resolution:
        return decisions.Resolution(
            decisions.StartTool(),
            (
                self._record(
                    "edited", answered_by=who, arguments=arguments, rule=rule, reason=reason
                ),
            ),
        )

    def _approve(
        self, who: AnsweredBy, reason: str | None = None, *, remember: bool | str = False
    ) -> decisions.Resolution:
        digest = arguments_sha256(self.context.call.arguments)
        seen = self._preview_fields() if who.by == "user" else {}
        kept = {"remembered": bool(remember), "kept": remember if isinstance(remember, str) else ""}
        record = self._record(
            "approved", answered_by=who, reason=reason, arguments_sha256=digest, **kept, **seen
        )
        return decisions.Resolution(decisions.StartTool(), (record,))

    def _skip(
        self, who: AnsweredBy, reason: str | None = None, *, remember: bool | str = False
    ) -> decisions.Resolution:
        seen = self._preview_fields() if who.by == "user" else {}
        record = self._record(
            "skipped", answered_by=who, remembered=bool(remember), reason=reason, **seen
        )
        return decisions.Resolution(decisions.Respond(self._refusal(who, reason)), (record,))

    def _refusal(self, who: AnsweredBy, reason: str | None) -> str:
        """Return the message that tells the model that the call was refused."""
        match who.by:
            case "configuration":
                return messages.skipped_by_rule(self.context.tool, reason)
            case "policy":
                return messages.skipped_by_policy(self.context.tool, who.name or who.by, reason)
            case _:
                return messages.skipped(self.context.tool, reason)


def _refused(ruling: Ruling) -> str:
    """Return the message that a rule refuses the edited call, with its location and reason."""
    place = f" ({ruling.place})" if ruling.place else ""
    reason = f": {ruling.reason.rstrip('.')}" if ruling.reason else ""
    return f"A rule does not allow such a call{place}{reason}."
