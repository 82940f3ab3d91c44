"""Open decisions, as immutable structs. Each one returns its route, its prompt, and the result of a
reply.

A decision has no side effects. `route` returns who must decide, and `prompt` returns the prompt for
a person. `take` evaluates a reply and returns a `Resolution` with the events to write and the next
action of the call. `DecisionQueue` (`turn/queue.py`) removes the decision and writes the events,
and `Call.follow` performs the action. Replay (`turn/replay.py`) computes the same actions from the
recorded events, so a new reply and a recorded reply have the same result.

| decision | reply | recorded | next action |
| --- | --- | --- | --- |
| `QuestionDecision` | a valid answer, from any source | answered or redacted | `UseAnswer` |
| | Back; words for the model | cancelled `back`, `reply` | `StepBack`, `LeaveForm` |
| | a model's "no" that a person reviews | answered by assistant | `Escalate` |
| | failure of the model or prompter, a limit, a route that denies | cancelled, with the reason | `FailQuestion`, `Escalate` |
| `PermissionDecision` | yes or remembered; edit; no | approved, edited, skipped | `StartTool`, `StartTool`, `Respond` |
| `DeliveryDecision` | yes; edit; no | approved, edited, skipped | `Respond` |
| `ReviewDecision` | send; Back; words for the model | approved if it was recorded as waiting | `SubmitForm`, `StepBack`, `LeaveForm` |
| any | an invalid reply, or a person who may not decide | nothing | shown again; fails at the third |
| any with people | a yes, while more are needed | vote | routed again, to the next person |
| `PermissionDecision` | an edit that its editor may not decide alone | proposal | routed again, or `CheckEdit` |

Ending the turn is not a reply to a decision: see `turn/queue.py`. If a prompt cannot be shown, the
decision is routed again after `unattended`. If a person postpones the decision, it is routed again
after `left_open`.
"""

from __future__ import annotations

from typing import Any, Final, Literal, Protocol, Self, TypeAlias

from msgspec import UNSET, Struct, UnsetType
from msgspec.structs import replace

from midturn.errors import AnswerError, DigestMismatch, NotAllowed, Problem
from midturn.events.prompt import Prompt
from midturn.events.types import AnsweredBy, Event, Image, InquiryRequest, Proposal, Vote
from midturn.question.json_value import Json
from midturn.question.question import Question
from midturn.question.reply import Answered, Edited, Replied, Submitted, WentBack
from midturn.question.walker import Ask
from midturn.routing.policy import ToolPolicy
from midturn.routing.rules import Ruling
from midturn.turn.call_record import CallRecord
from midturn.turn.record import TurnRecord
from midturn.turn.settings import TurnSettings
from midturn.turn.votes import Poll, needs_digest

BY_DEFAULT = AnsweredBy("default")
DecisionReply: TypeAlias = Answered | WentBack | Replied | Edited | Submitted
"""Replies that a decision accepts.

The queue handles `EndedTurn`, `Unavailable` and `Deferred`.
"""


class DecisionContext(Struct, frozen=True):
    """The settings and records that a decision reads but never changes."""

    settings: TurnSettings
    turn: TurnRecord
    call: CallRecord
    policy: ToolPolicy

    @property
    def rules_are_fixed(self) -> bool:
        """Whether this process has the rules of the tool, and the rules are the same for all
        arguments.
        """
        depend = (rule for origin in self.policy.rules for rule in origin.rules if rule.when)
        return self.knows_rules and next(depend, None) is None

    @property
    def knows_rules(self) -> bool:
        """Whether this process can evaluate the rules for other arguments without calling a rule
        that is a Python function.
        """
        return self.settings.knows_rules and self.tool not in self.settings.own_rules

    def ruling_on_edit(self, arguments: Json) -> Ruling | None:
        """Return the result of the rules for an edit. None if this process does not have the rules,
        or if a rule is a Python function.
        """
        if self.knows_rules:
            return self.policy.ruling(arguments)
        return (
            None
            if self.settings.rules_of_edits is None
            else self.settings.rules_of_edits(arguments)
        )

    @property
    def tool(self) -> str:
        """The name of the tool that is called."""
        return self.call.request.name


# Next actions of a call, after a decision has closed
# --------------------------------------------------------------------------------------------------


class UseAnswer(Struct, frozen=True):
    """Continue the form with a valid answer. `inquiry` is the id of the question's request, and
    `by` is the responder, as in `AnsweredBy.by`.
    """

    question_id: str
    answered: Answered
    inquiry: str
    by: str


class StepBack(Struct, frozen=True):
    """Go back to the previous question that a person answered."""


class LeaveForm(Struct, frozen=True):
    """Cancel the form, because the person replied to the model instead of answering."""

    replied: Replied


class SubmitForm(Struct, frozen=True):
    """Complete a form whose answers were reviewed."""


class FailQuestion(Struct, frozen=True):
    """Continue without an answer.

    A tool that handles missing answers receives `reason`. For other tools, the call fails with
    `message`.

    `reply` is the text that the person sent instead of an answer. `on_record` is the `event_id` of
    the refusal, if an earlier run recorded it.
    """

    reason: str
    message: str = ""
    reply: str | None = None
    on_record: str | None = None


class Escalate(Struct, frozen=True):
    """Ask a person after a model was asked: record `question` as the next attempt.

    If `default` is set, it answers the question. `error` says why the model failed.
    """

    ask: Ask
    previous: InquiryRequest
    question: Question[Any]
    default: Json | UnsetType = UNSET
    error: str | None = None


class CheckEdit(Struct, frozen=True):
    """Evaluate the permission rules for the last edit of a call. `permission` is the decision about
    the call.
    """

    permission: Decision


class StartTool(Struct, frozen=True):
    """Run the tool."""


class Respond(Struct, frozen=True):
    """End the call with this response."""

    content: str
    is_error: bool = True
    images: tuple[Image, ...] = ()


NextAction: TypeAlias = (
    UseAnswer
    | StepBack
    | LeaveForm
    | SubmitForm
    | FailQuestion
    | Escalate
    | CheckEdit
    | StartTool
    | Respond
)


# Results of routing and of a reply
# --------------------------------------------------------------------------------------------------


class AskPerson(Struct, frozen=True):
    """A person decides, at the prompt or later. `record` is written first, and `warning` is shown
    once.
    """

    whom: Literal["person", "inbox"]
    record: Event | None = None
    warning: str | None = None


class AskModel(Struct, frozen=True):
    """A model decides, in a side request."""

    request: InquiryRequest
    warning: str | None = None


class Resolution(Struct, frozen=True):
    """Closes the decision: the events to write, and the next action of the call. `vote` is the last
    required vote, which is written first.
    """

    action: NextAction
    records: tuple[Event, ...] = ()
    warning: str | None = None
    vote: Vote | None = None


class VoteRecorded(Struct, frozen=True):
    """A valid yes vote after which more votes are needed. The vote is recorded, and the decision is
    routed to another person.
    """

    vote: Vote


class ProposalRecorded(Struct, frozen=True):
    """An edit that is recorded but not yet decided, because other people must decide or because the
    rules must be evaluated for the new arguments first. `vote` is the editor's yes vote.
    """

    proposal: Proposal
    vote: Vote | None = None


class InvalidReply(Struct, frozen=True):
    """The reply was rejected, and nothing was recorded.

    Args:
        problems: Why the reply is invalid.
        is_barred: Whether the reply is valid, but this person is not allowed to give it.
        digest: The current digest, if the digest of the reply is different.
    """

    problems: tuple[Problem, ...]
    is_barred: bool = False
    digest: str = ""

    @classmethod
    def barring(cls, message: str) -> InvalidReply:
        """Return the result for a reply from a person who may not decide."""
        return cls((Problem("", message),), is_barred=True)

    @classmethod
    def because(cls, message: str) -> InvalidReply:
        """Return the result for a reply with a single problem, which applies to the reply as a
        whole.
        """
        return cls((Problem("", message),))

    @property
    def error(self) -> AnswerError | NotAllowed:
        """The exception that an interface raises for the reply."""
        if self.digest:
            return DigestMismatch(self.problems, digest=self.digest)
        return (
            NotAllowed(self.problems[0].message) if self.is_barred else AnswerError(self.problems)
        )

    @property
    def why(self) -> str:
        """All problems, as text for the user."""
        return str(AnswerError(self.problems))


ReplyResult: TypeAlias = Resolution | VoteRecorded | ProposalRecorded | InvalidReply
DecisionRoute: TypeAlias = AskPerson | AskModel | Resolution


class Decision(Protocol):
    """A question, a permission, a delivery or a review. No method has side effects: the results
    contain the events to write.
    """

    @property
    def id(self) -> str:
        """The id of the decision in the turn: the `event_id` of a question's request, or the id of
        an approval, which may not be recorded yet.
        """
        ...

    @property
    def event(self) -> str:
        """The `event_id` of the recorded request or `waiting` event. Empty if there is none."""
        ...

    @property
    def request_id(self) -> str:
        """The id of the request or approval. Notes and responses refer to this id."""
        ...

    @property
    def context(self) -> DecisionContext:
        """The settings and records that the decision reads, including the call record."""
        ...

    def route(self) -> DecisionRoute:
        """Return who must decide, or the resolution if nobody has to be asked. Called again before
        the decision is shown, because an answer to the same question may have been remembered in
        the meantime.
        """
        ...

    def prompt(self) -> Prompt:
        """Return the prompt for a person."""
        ...

    @property
    def poll(self) -> Poll | None:
        """The people who decide. None if anybody may decide."""
        ...

    @property
    def digest(self) -> str:
        """Digest of the subject of the decision. Empty if the subject cannot change."""
        ...

    @property
    def was_changed(self) -> bool:
        """Whether the subject was changed after people were asked."""
        ...

    def take(self, reply: DecisionReply, who: AnsweredBy) -> ReplyResult:
        """Evaluate a reply."""
        ...

    def fail(self, error: str) -> Resolution:
        """Return the resolution after the prompter failed."""
        ...

    def unattended(self) -> Self:
        """Return a copy of this decision that treats nobody as attached."""
        ...

    def left_open(self) -> Self:
        """Return a copy of this decision that stays open until a person decides, whatever the
        detached policy is.
        """
        ...


# Rules for decisions that only certain people may make
# --------------------------------------------------------------------------------------------------


def ask_people(
    poll: Poll, settings: TurnSettings, record: Event | None = None, *, attached: bool
) -> AskPerson:
    """Return the route of a decision that only certain people may make: to the attached person, if
    that person may decide and has not voted yet, otherwise to the inbox.
    """
    who = settings.at_prompt
    is_theirs = attached and not poll.barred(who) and not poll.why_no_vote(who)
    warning = poll.barred(who) if attached and not is_theirs and not who.user else ""
    return AskPerson("person" if is_theirs else "inbox", record, warning or None)


def with_vote(poll: Poll, vote: Vote, resolution: Resolution) -> Resolution | VoteRecorded:
    """Return the resolution if the vote is a no, or the last yes that is needed. Otherwise return
    `VoteRecorded`.
    """
    if not vote.answer:
        return replace(resolution, vote=vote)
    standing = 1 if vote.arguments is not UNSET else len(poll.votes) + 1
    return replace(resolution, vote=vote) if standing >= poll.needed else VoteRecorded(vote)


def unconfirmed(decision: Decision, reply: DecisionReply, digest: str) -> InvalidReply | None:
    """Return why an approval or an edit is not valid for the current subject, or None if it is
    valid. A refusal is always valid.

    Args:
        decision: The open decision.
        reply: The reply.
        digest: Digest of the subject that the sender saw. Empty if the sender gave none.
    """
    is_yes = isinstance(reply, Submitted) or (isinstance(reply, Answered) and reply.value is True)
    if not (is_yes or isinstance(reply, Edited)):
        return None
    current = decision.digest
    if not current or digest == current:
        return None
    if digest:
        return InvalidReply((Problem("", CHANGED.format(current)),), digest=current)
    is_needed = is_yes and needs_digest(decision.poll, was_changed=decision.was_changed)
    return (
        InvalidReply((Problem("", UNNAMED.format(current)),), digest=current) if is_needed else None
    )


CHANGED: Final = (
    "This was changed after you saw it. Review it again; a yes to the current version needs its"
    " digest: `--digest {0}` (`digest` in a program and over HTTP)."
)
UNNAMED: Final = (
    "Others may edit or vote on this, so a yes must name the version that you saw. Review it, and"
    " answer with its digest: `--digest {0}` (`digest` in a program and over HTTP)."
)


def labelled(label: str | None, poll: Poll) -> str | None:
    """Return the configured label followed by the number of votes, or None if both are empty."""
    return " · ".join(filter(None, (label, poll.tally))) or None
