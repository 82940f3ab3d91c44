"""A decision that waits for an answer, as a value: who is asked, what is shown, and what a reply leads to.

A decision never changes anything. `going` says who decides, `prompt` what a person sees, and `take` what a reply leads to: a `Closing`
with the records to write and what the call does **then**. `Docket` takes the decision off the desk and writes, `Call.follow` does the rest.
Replay (`turn/walk.py`) reads the same `Then` out of the record, so a live reply and a recorded one cannot come to differ.

| decision | what comes back | recorded | then |
| --- | --- | --- | --- |
| `Inquiry` | a valid answer, from whatever source | answered or redacted | `Give` |
| | Back; Reply | cancelled `back`, `reply` | `GoBack`, `Leave` |
| | a model's "no" that a person reviews | answered by assistant | `Escalate` |
| | failure of the model or prompter, a refusing route, a limit | cancelled, with the reason | `Refuse`, `Escalate` |
| `Permission` | yes or remembered; edit; no | approved, edited, skipped | `Run`, `Run`, `Respond` |
| `Delivery` | yes; edit; no | approved, edited, skipped | `Respond` |
| `ReviewStep` | send; Back; Reply | approved where it had waited | `Send`, `GoBack`, `Leave` |
| any | a misfit, or a person who may not decide it | nothing | shown again; the third one fails |
| any with people | a yes, while more are needed | vote | waits for the next person |
| `Permission` | an edit that its editor may not decide alone | proposal | waits for others, or `CheckEdit` |

End Turn is the turn's business (`turn/state.py`). Where no one is attached after all, the same decision is routed again (`unattended`).
So is one that a person leaves for later (`left_open`).
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
from midturn.turn.people import Poll, needs_digest
from midturn.turn.record import CallRecord, TurnRecord
from midturn.turn.step import TurnSettings

BY_DEFAULT = AnsweredBy("default")
Spoken: TypeAlias = Answered | WentBack | Replied | Edited | Submitted
"""What a decision can be told. Ending the turn is the turn's business, and that no one was there is a matter of the route."""


class View(Struct, frozen=True):
    """What a decision looks at, and never changes."""

    settings: TurnSettings
    turn: TurnRecord
    call: CallRecord
    policy: ToolPolicy

    @property
    def rules_are_fixed(self) -> bool:
        """Whether the rules of the tool are the same for all arguments, and known here."""
        depend = (rule for origin in self.policy.rules for rule in origin.rules if rule.when)
        return self.knows_rules and next(depend, None) is None

    @property
    def knows_rules(self) -> bool:
        """Whether the rules for other arguments can be read at once: a rule that is a function of the program has to be called."""
        return self.settings.knows_rules and self.tool not in self.settings.own_rules

    def ruling_on_edit(self, arguments: Json) -> Ruling | None:
        """Return what the rules say about an edit; None if they cannot be read at once, or are not known here."""
        if self.knows_rules:
            return self.policy.ruling(arguments)
        return None if self.settings.rules_of_edits is None else self.settings.rules_of_edits(arguments)

    @property
    def tool(self) -> str:
        """The name of the tool that is called."""
        return self.call.request.name


# What a call does when a decision has closed -----------------------------------------------------------------------------


class Give(Struct, frozen=True):
    """Walk on with an answer, as the question's check has returned it; `inquiry` is the one that it came from, `by` who gave it."""

    question_id: str
    answered: Answered
    inquiry: str
    by: str


class GoBack(Struct, frozen=True):
    """Walk back to the previous answered question."""


class Leave(Struct, frozen=True):
    """Cancel the form: the person says something to the model instead."""

    replied: Replied


class Send(Struct, frozen=True):
    """Complete a form whose answers were reviewed."""


class Refuse(Struct, frozen=True):
    """Go without the answer: a coroutine that wants to know hears `reason`, every other call fails with `message`.

    `reply` is what the person said instead, `on_record` the event that says so where it is not said just now.
    """

    reason: str
    message: str = ""
    reply: str | None = None
    on_record: str | None = None


class Escalate(Struct, frozen=True):
    """Ask a person in place of the model: record `question` as the next link, and answer it with `default` where there is one.

    `error` is what the model failed with, if it did.
    """

    ask: Ask
    previous: InquiryRequest
    question: Question[Any]
    default: Json | UnsetType = UNSET
    error: str | None = None


class CheckEdit(Struct, frozen=True):
    """Read the rules for the last edit of the call that `permission` is about, and say what it leads to."""

    permission: Decision


class Run(Struct, frozen=True):
    """Run the tool."""


class Respond(Struct, frozen=True):
    """Give the call its response."""

    content: str
    is_error: bool = True
    images: tuple[Image, ...] = ()


Then: TypeAlias = Give | GoBack | Leave | Send | Refuse | Escalate | CheckEdit | Run | Respond


# What becomes of a decision ----------------------------------------------------------------------------------------------


class AwaitPerson(Struct, frozen=True):
    """A person decides, at a prompt or later. `record` is written first, `warning` told once."""

    whom: Literal["person", "inbox"]
    record: Event | None = None
    warning: str | None = None


class Consult(Struct, frozen=True):
    """A model decides, on the side."""

    request: InquiryRequest
    warning: str | None = None


class Closing(Struct, frozen=True):
    """The decision has closed: the records to write, and what its call does then. `vote` is the last that was needed, written first."""

    then: Then
    records: tuple[Event, ...] = ()
    warning: str | None = None
    vote: Vote | None = None


class Counted(Struct, frozen=True):
    """A yes counts, and more are needed: it is recorded, and the decision waits for another person."""

    vote: Vote


class Proposed(Struct, frozen=True):
    """An edit is recorded and decides nothing yet: other people decide, or its rules have to be read first. `vote` is its editor's yes."""

    proposal: Proposal
    vote: Vote | None = None


class Misfit(Struct, frozen=True):
    """The reply does not fit: nothing has happened."""

    problems: tuple[Problem, ...]
    is_barred: bool = False
    """Whether the reply would fit, and is not for this person to give."""
    digest: str = ""
    """The current digest, if the reply does not name what is decided on."""

    @classmethod
    def barring(cls, message: str) -> Misfit:
        """Return a misfit of the person."""
        return cls((Problem("", message),), is_barred=True)

    @property
    def error(self) -> AnswerError | NotAllowed:
        """The error that an interface raises for it."""
        if self.digest:
            return DigestMismatch(self.problems, digest=self.digest)
        return NotAllowed(self.problems[0].message) if self.is_barred else AnswerError(self.problems)

    @classmethod
    def because(cls, message: str) -> Misfit:
        """Return a misfit of the whole reply."""
        return cls((Problem("", message),))

    @property
    def why(self) -> str:
        """All problems, as a person reads them."""
        return str(AnswerError(self.problems))


Taken: TypeAlias = Closing | Counted | Proposed | Misfit
"""What a reply leads to."""
Going: TypeAlias = AwaitPerson | Consult | Closing


class Decision(Protocol):
    """An inquiry, a permission, a delivery, a review. No method changes anything: what is to be written stands in what it returns."""

    @property
    def id(self) -> str:
        """Its name inside the turn: the `event_id` of a question's request; an approval, which may be on no record yet, has its own."""
        ...

    @property
    def event(self) -> str:
        """The `event_id` of what says that this is waited for; empty where nothing is recorded."""
        ...

    @property
    def request_id(self) -> str:
        """The id of its inquiry, or of its approval: what notes on it, and its response, name."""
        ...

    def going(self) -> Going:
        """Say who decides, or close at once. It is asked again when a prompt's turn comes: much may have been decided meanwhile."""
        ...

    def prompt(self) -> Prompt:
        """Return what a person is shown."""
        ...

    @property
    def poll(self) -> Poll | None:
        """Whose decision it is; None where it is anyone's."""
        ...

    @property
    def digest(self) -> str:
        """Digest of what is decided on; empty if it cannot change."""
        ...

    @property
    def was_changed(self) -> bool:
        """Whether what is decided on was changed since it was put to people."""
        ...

    def take(self, reply: Spoken, who: AnsweredBy) -> Taken:
        """Say what a person's reply leads to."""
        ...

    def fail(self, error: str) -> Closing:
        """Say what it leads to that the prompter failed."""
        ...

    def unattended(self) -> Self:
        """Return the same decision as if no one was attached."""
        ...

    def left_open(self) -> Self:
        """Return the same decision as one that waits for a person, who is not attached: no detached policy closes it."""
        ...


# What is the same of every decision that belongs to people -----------------------------------------------------------------


def put_to_people(poll: Poll, settings: TurnSettings, record: Event | None = None, *, attached: bool) -> AwaitPerson:
    """Put a decision to the person who is attached, if it is theirs and they have not had their say; else to those who come by later."""
    who = settings.at_prompt
    theirs = attached and not poll.barred(who) and not poll.why_no_vote(who)
    warning = poll.barred(who) if attached and not theirs and not who.user else ""
    return AwaitPerson("person" if theirs else "inbox", record, warning or None)


def counted(poll: Poll, vote: Vote, closing: Closing) -> Closing | Counted:
    """Return what a vote comes to: the decision, where it was the last that was needed or a no; else that it counts."""
    if not vote.answer:
        return replace(closing, vote=vote)
    standing = 1 if vote.arguments is not UNSET else len(poll.votes) + 1
    return replace(closing, vote=vote) if standing >= poll.needed else Counted(vote)


def unconfirmed(decision: Decision, reply: Spoken, digest: str) -> Misfit | None:
    """Say why a yes or an edit does not count for what is decided on now; None if it does. A no counts whatever was seen.

    Args:
        decision: The open decision.
        reply: The reply.
        digest: Digest of what its sender saw; empty if the sender did not say.
    """
    is_yes = isinstance(reply, Submitted) or (isinstance(reply, Answered) and reply.value is True)
    if not (is_yes or isinstance(reply, Edited)):
        return None
    current = decision.digest
    if not current or digest == current:
        return None
    if digest:
        return Misfit((Problem("", CHANGED.format(current)),), digest=current)
    is_needed = is_yes and needs_digest(decision.poll, was_changed=decision.was_changed)
    return Misfit((Problem("", UNNAMED.format(current)),), digest=current) if is_needed else None


CHANGED: Final = (
    "What you decided on was changed since you saw it. Look at it again; a yes to what is asked now has its digest: "
    "`--digest {0}` (`digest` in a program and over HTTP)."
)
UNNAMED: Final = (
    "Others may edit or vote on this, so a yes has to name what you saw. Look at it, and answer with its digest: "
    "`--digest {0}` (`digest` in a program and over HTTP)."
)


def labelled(label: str | None, poll: Poll) -> str | None:
    """Return what stands beside who asks: a configured label, and how many have said yes."""
    return " · ".join(filter(None, (label, poll.tally))) or None
