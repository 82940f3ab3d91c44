"""The people of an open request: who is asked, who may answer, and who has voted. Computed from the
request and its notes.

A decision uses its `Poll` twice: before it is shown, to check whether the attached person may
decide it, and for each reply, to check whether the responder may decide and whether more votes are
needed. All interfaces follow these rules.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Final, TypeVar, assert_never

from msgspec import UNSET, Struct, UnsetType
from msgspec.structs import replace

from midturn.errors import NotAllowed
from midturn.events.open_question import Address, AssignedTo, asked_text
from midturn.events.types import (
    AnsweredBy,
    Approval,
    Escalated,
    Event,
    InquiryRequest,
    Note,
    Notified,
    Proposal,
    Reassigned,
    Reminded,
    Vote,
)
from midturn.question.answer_type import BooleanType
from midturn.question.json_value import Json, shown
from midturn.question.people import MOST_REMINDERS, Directory, People, is_among
from midturn.question.text import is_same_name
from midturn.turn.edits import read_edits
from midturn.turn.record import TurnRecord
from midturn.turn.view import TurnView, why_closed

COMMAND_LINE: Final = frozenset({"terminal", "inbox"})
"""Values of `AnsweredBy.via` for the command line. In a local store, all answers from the command
line count as answers from one person, whatever name is given.
"""
OWNER: Final = "owner"
"""Value of `AnsweredBy.by` if the operating-system user who owns the local store ended the turn,
and only as its owner was allowed to.
"""
TOLD_ABOUT: Final = ("asked", "reassigned", "reminded", "escalated", "sent")
"""Values of `Notified.about`."""
_ADD_LOGIN: Final = (
    "add the login to its person: `[people.NAME] logins`, or `logins` of `People` in a program."
)
_UNKNOWN: Final = (
    "This interface does not identify users, and {what}. Answer in an interface that does."
)


class Poll(Struct, frozen=True):
    """The people assigned to a request, and their votes so far.

    Args:
        request: The id of the request or approval.
        people: The people whom the request names.
        notes: The notes on the request.
        needed: Number of people who must approve.
        directory: The configured people of the process that receives the answer, or None.
        configured: Whether the configuration names the people. They must be in `directory` when
            they answer.
    """

    request: str
    people: People
    notes: tuple[Note, ...] = ()
    needed: int = 1
    directory: Directory | None = None
    configured: bool = False
    proposed: Json | UnsetType = UNSET
    """The arguments of the proposal that people must decide, or UNSET."""

    @property
    def asked(self) -> tuple[str, ...]:
        """The people and groups who are asked now: the people of the question or of the last
        reassignment, and the people of escalations.
        """
        asked = self.people.ask
        for note in self.notes:
            if isinstance(note, Reassigned):
                asked = note.to
            elif isinstance(note, Escalated):
                asked = (
                    *asked,
                    *(name for name in self.escalated_to(note) if not is_among(name, asked)),
                )
        return asked

    def escalated_to(self, note: Escalated) -> tuple[str, ...]:
        """Return the people of an escalation, as defined by the question. The people in the note
        are ignored.
        """
        escalations = self.people.escalate
        return escalations[note.number - 1].to if 1 <= note.number <= len(escalations) else ()

    @property
    def eligible(self) -> frozenset[str] | None:
        """The people who may decide. None if anybody may decide.

        An escalation adds people to this set; a reassignment does not.
        """
        if not self.people.only:
            return None
        escalated = (
            name
            for note in self.notes
            if isinstance(note, Escalated)
            for name in self.escalated_to(note)
        )
        return self.people.people_of((*self.people.ask, *escalated))

    @property
    def why_never(self) -> str:
        """The message that there can never be enough yes votes, because too few people may answer.
        Empty if enough people may answer.
        """
        if not self.people.only:
            return ""
        able = sorted(self.people.people_of(self.people.named))
        return (
            ""
            if len(able) >= self.needed
            else f"{self.needed} different people must say yes, but only {listed(able)} may answer"
        )

    @property
    def votes(self) -> tuple[Vote, ...]:
        """The valid yes votes for the current subject, at most one from each person."""
        standing: list[Vote] = []
        for note in self.notes:
            if not isinstance(note, Vote) or note.answered_by is None:
                continue
            own = next(
                (vote for vote in standing if self._is_same(vote.answered_by, note.answered_by)),
                None,
            )
            if own is not None:
                standing = (
                    []
                    if note.withdrawn and own.arguments is not UNSET
                    else [vote for vote in standing if vote is not own]
                )
            if not note.withdrawn and note.answer:
                standing = [note] if note.arguments is not UNSET else [*standing, note]
        return tuple(standing)

    @property
    def arguments(self) -> Json | UnsetType:
        """The edited arguments that people vote on. UNSET if the arguments were not edited."""
        return next(
            (vote.arguments for vote in self.votes if vote.arguments is not UNSET), self.proposed
        )

    @property
    def editor(self) -> AnsweredBy | None:
        """The voter who edited the arguments that people vote on, or None."""
        return next((vote.answered_by for vote in self.votes if vote.arguments is not UNSET), None)

    @property
    def tally(self) -> str:
        """The number of yes votes so far and the number needed, such as `1 of 2`. Empty if one vote
        is enough.
        """
        return f"{len(self.votes)} of {self.needed}" if self.needed > 1 else ""

    @property
    def whose(self) -> AssignedTo:
        """The people and votes, as interfaces show them."""
        voters = tuple(vote.answered_by.user or "" for vote in self.votes if vote.answered_by)
        failed = _failed_notice(self.notes)
        return AssignedTo(
            self.people,
            self.asked,
            self.eligible,
            self.needed,
            voters,
            not_notified(failed) if failed else "",
        )

    def named(self, who: AnsweredBy) -> AnsweredBy:
        """Return a responder with the person's name, and with the login if it differs from the
        name.
        """
        if not who.user:
            return who
        person = self.person(who.user)
        login = None if person == who.user else who.login or who.user
        return who if login is None else replace(who, user=person, login=login)

    def person(self, login: str) -> str:
        """Return the person with a login, according to the question or the directory, or else the
        login itself.
        """
        if self.directory is None:
            return self.people.person(login)
        configured = self.directory.person(login)
        if self.configured:
            return (
                configured if self.directory.has_person(configured) else self.people.person(login)
            )
        return self.people.person(login) if self.people.identifies(login) else configured

    def why_unknown(self, who: AnsweredBy) -> str:
        """Return why a responder is not a known person who may decide. Empty if the responder is
        one, or if anybody may decide.

        An unknown login is accepted only if anybody may decide and one approval is enough. A person
        who was removed from the configuration may no longer decide questions asked earlier.
        """
        person, directory = self.person(who.user or ""), self.directory
        if self.configured and directory is not None and directory.people:
            if directory.has_person(person):
                return ""
            if self.people.identifies(person):
                return (
                    f"{person} is not in the configuration any more, and cannot decide this. Ask"
                    f" somebody else, or add `[people.{person}]`."
                )
            return self._not_known(person) if self.people.only or self.needed > 1 else ""
        is_named = bool(self.people.named or self.people.members or self.people.logins)
        if self.needed == 1 or self.people.only or not is_named or self.people.identifies(person):
            return ""
        return self._not_known(person)

    def _not_known(self, login: str) -> str:
        """Return the message that a login does not belong to a known person."""
        if self.eligible is None:
            return (
                f"{login} is not a known person, and {self.needed} different people have to say"
                f" yes. To fix this, {_ADD_LOGIN}"
            )
        return (
            f"{login} may not answer this: only {listed(sorted(self.eligible))} may. If this is a"
            f" login of one of them, {_ADD_LOGIN}"
        )

    def voted(self, who: AnsweredBy) -> Vote | None:
        """Return the valid yes vote of a person, or None."""
        return next((vote for vote in self.votes if self._is_same(vote.answered_by, who)), None)

    def barred(self, who: AnsweredBy) -> str:
        """Return why a responder may not decide. Empty if the responder may."""
        if who.by != "user":
            return "Only people may decide this, not a policy of a program."
        eligible, told_apart = self.eligible, bool(who.user)
        if eligible is not None and not told_apart:
            return _UNKNOWN.format(what=f"only {listed(sorted(eligible))} may answer this")
        if self.needed > 1 and not told_apart:
            return _UNKNOWN.format(what=f"{self.needed} different people have to say yes")
        person = self.person(who.user or "")
        if told_apart and (self.configured or self.needed > 1) and (why := self.why_unknown(who)):
            return why
        if eligible is not None and not is_among(person, eligible):
            return f"{person} may not answer this: only {listed(sorted(eligible))} may."
        return ""

    def why_no_vote(self, who: AnsweredBy) -> str:
        """Return why a further yes vote of a responder does not count. Empty if it counts."""
        if self.needed == 1 or (vote := self.voted(who)) is None:
            return ""
        name = vote.answered_by.user if vote.answered_by else None
        is_own = is_same_name(name or "", self.person(who.user or ""))
        whose = f"{name}" if is_own else "The command line counts as one person and"
        return f"{whose} has said yes already: {self.tally}. Another person has to say yes."

    def check(self, who: AnsweredBy) -> None:
        """Check that a responder may decide.

        Raises:
            NotAllowed: The responder may not decide.
        """
        if why := self.barred(who):
            raise NotAllowed(why)

    def check_noting(self, note: Vote | Reassigned) -> None:
        """Check that all people of a reassignment may answer, and that a withdrawn vote exists.

        Raises:
            NotAllowed: One of the people may not answer, or there is no such vote.
        """
        if isinstance(note, Vote):
            if (
                note.answered_by is None
                or not note.withdrawn
                or self.voted(note.answered_by) is None
            ):
                raise NotAllowed("You have no vote to withdraw.")
            return
        eligible, directory = self.eligible, self.directory
        if self.configured and directory is not None and directory.people:
            for name in note.to:
                if not directory.knows(name):
                    raise NotAllowed(
                        f"There is no person or group `{name}` in the"
                        f" configuration.{directory.did_you_mean(name)}"
                    )
        for name in note.to if eligible is not None else ():
            if eligible is not None and not all(
                is_among(person, eligible) for person in self.people.people_of((name,))
            ):
                raise NotAllowed(
                    f"{name} may not answer this: only {listed(sorted(eligible))} may."
                )

    def accepted(self, note: Note) -> Note:
        """Check a note, and return it as it must be recorded.

        An escalation goes only to the people whom the question names for it.

        Raises:
            NotAllowed: This person may not add the note, the note is already recorded, or the
                question has no such reminder or escalation.
        """
        match note:
            case Vote() | Reassigned():
                if note.answered_by is None:
                    raise NotAllowed("Only a person can withdraw a vote or reassign a question.")
                self.check(note.answered_by)
                note = replace(note, answered_by=self.named(note.answered_by))
                self.check_noting(note)
            case Reminded() | Escalated() | Notified():
                if _is_recorded(self.notes, note):
                    raise NotAllowed("The same note is already recorded: another process sent it.")
                note = self._system_event(note)
            case Proposal():
                raise NotAllowed(
                    "An edit is an answer: submit it with `store.answer(id, arguments=…)`."
                )
            case _ as other:
                assert_never(other)
        return replace(note, id=self.request)

    def _system_event(self, note: Reminded | Escalated | Notified) -> Note:
        match note:
            case Escalated(number=number):
                if not (to := self.escalated_to(note)):
                    raise NotAllowed(
                        f"The question has no escalation {number}. Only an escalation that the"
                        " question defines can be recorded."
                    )
                return replace(note, to=to)
            case Reminded(number=number):
                if self.people.remind_after is None or not 1 <= number <= MOST_REMINDERS:
                    raise NotAllowed(
                        f"The question has no reminder {number}. `remind_after` determines whether"
                        " there are any."
                    )
                return note
            case Notified(about=about):
                if about not in TOLD_ABOUT:
                    raise NotAllowed(
                        f"Unknown kind of notification: {about!r}. `about` must be one of"
                        f" {', '.join(TOLD_ABOUT)}."
                    )
                return note

    def _is_same(self, one: AnsweredBy | None, other: AnsweredBy) -> bool:
        """Return whether two votes are from the same person, who may use several devices. All votes
        from the command line count as votes from one person.
        """
        if one is None or not one.user:
            return False
        if one.via in COMMAND_LINE and other.via in COMMAND_LINE:
            return True
        return is_same_name(self.person(one.user), self.person(other.user or ""))


def needs_digest(poll: Poll | None, *, was_changed: bool) -> bool:
    """Return whether an approval needs the digest of the subject that the person saw: if several
    people must approve, or after an edit.
    """
    return was_changed or (poll is not None and poll.needed > 1)


def ending_barred(
    turns: Iterable[TurnRecord], who: AnsweredBy, directory: Directory | None = None
) -> str:
    """Return why a person may not end these turns, which can only end together. Empty if the person
    may.

    A person who may not decide an open question may not close it by ending the turn. The owner of
    the store may always end turns.
    """
    if who.by == OWNER:
        return ""
    for turn in turns:
        for call in turn.open_calls() if turn.ended is None else ():
            for asked in (
                *(thread.last.request for thread in call.open_threads),
                *call.open_approvals,
            ):
                poll = open_poll(asked, turn.notes, directory)
                if poll is not None and (why := poll.barred(who)):
                    what = (
                        asked_text(asked, call.request.name)
                        if isinstance(asked, Approval)
                        else asked.question.text
                    )
                    return (
                        f"The turn also waits for other people ({shown(what)}), so you cannot end"
                        f" it without them. {why}"
                    )
    return ""


def is_for_certain_people(turn: Iterable[Event]) -> bool:
    """Return whether only certain people may decide some question or approval in a turn, because
    its request names them, or because it was edited or reassigned.
    """
    asked = (
        event
        for event in turn
        if isinstance(event, InquiryRequest | Approval | Proposal | Reassigned)
    )
    return any(isinstance(event, Reassigned) or event.people for event in asked)


def poll_of(
    request: InquiryRequest | Approval,
    notes: Sequence[Note],
    *,
    is_yes_or_no: bool,
    directory: Directory | None = None,
) -> Poll | None:
    """Return the poll for a request. None if anybody may decide."""
    # fast path: no people are named, and there are no votes or reassignments
    if not notes and request.people is None:
        return None
    edits = read_edits(notes)
    notes = notes[edits.first_note :]
    people = request.people if edits.proposal is None else edits.proposal.people
    if (
        people is None
        and edits.proposal is None
        and not any(isinstance(note, Reassigned) for note in notes)
    ):
        return None
    people = people or People()
    proposed = UNSET if edits.proposal is None else edits.proposal.arguments
    configured = request.configured if edits.proposal is None else edits.proposal.configured
    needed = people.approvals if is_yes_or_no else 1
    return Poll(request.id, people, tuple(notes), needed, directory, configured, proposed)


def open_poll(
    request: InquiryRequest | Approval,
    notes: Mapping[str, Sequence[Note]],
    directory: Directory | None = None,
) -> Poll | None:
    """Return the poll for a request, given the notes of its turn. None if anybody may decide."""
    is_yes_or_no = isinstance(request, Approval) or isinstance(
        request.question.answer_type, BooleanType
    )
    return poll_of(
        request, notes.get(request.id, ()), is_yes_or_no=is_yes_or_no, directory=directory
    )


def poll_about(
    request: InquiryRequest | Approval, turn: Sequence[Event], directory: Directory | None = None
) -> Poll | None:
    """Return the poll for a request, given the events of its turn. None if anybody may decide."""
    return open_poll(request, TurnView.last(turn).record.notes, directory)


def notes_on(events: Iterable[Event], id: str) -> tuple[Note, ...]:
    """Return the notes on a request, in order."""
    return tuple(event for event in events if isinstance(event, Note) and event.id == id)


# Notes that other processes submitted
# --------------------------------------------------------------------------------------------------

HANDED: Final = "handed"
"""Metadata key of a vote or note that was queued. The value is the key of the queued answer."""


E = TypeVar("E", bound=Event)


def under_key(event: E, key: str) -> E:
    """Add the key of the queued answer to a vote or a note. Other events are returned unchanged."""
    is_note = isinstance(event, Note)
    return replace(event, metadata={**(event.metadata or {}), HANDED: key}) if is_note else event


def handed_as(events: Iterable[Event]) -> frozenset[str]:
    """Return the keys of the votes and notes among these events that were queued."""
    return frozenset(
        str(event.metadata[HANDED])
        for event in events
        if event.metadata and HANDED in event.metadata
    )


def poll_in(turn: Sequence[Event], at: Address, directory: Directory | None = None) -> Poll:
    """Return the poll for the open question at an address.

    Raises:
        NotOpen: No question is open at this address.
        AlreadyAnswered: The question was already answered.
    """
    view = TurnView.last(turn)
    request = next(
        (
            each
            for each in view.events
            if each.event_id == at.event_id and at.event_id in view.open_ids
        ),
        None,
    )
    if not isinstance(request, InquiryRequest | Approval):
        raise why_closed(turn, at)
    poll = open_poll(request, view.record.notes, directory)
    return poll or Poll(request.id, People(), directory=directory)


def note_batch(
    turn: Sequence[Event],
    at: Address,
    note: Note,
    ids: Iterator[str],
    directory: Directory | None = None,
) -> tuple[Event, ...]:
    """Return the batch to append for a note. The note gets the id of its request.

    Raises:
        NotOpen: The question is not open.
        NotAllowed: This person may not add the note.
    """
    return (replace(poll_in(turn, at, directory).accepted(note), event_id=next(ids)),)


def not_notified(notice: Notified) -> str:
    """Return the message that people could not be notified, with the reason."""
    return (
        f"{listed(notice.to) or 'The people who are asked'} could not be notified:"
        f" {notice.error or 'no reason is known'}"
    )


def listed(names: Sequence[str]) -> str:
    """Return names as part of a sentence: `ana, bo and carl`."""
    return " and ".join(filter(None, (", ".join(names[:-1]), *names[-1:])))


def _failed_notice(notes: Sequence[Note]) -> Notified | None:
    """Return the last notification that failed, unless a later one reached the people."""
    failed: dict[tuple[str, ...], Notified] = {}
    for note in notes:
        if isinstance(note, Notified):
            failed.pop(note.to, None)
            if note.error is not None:
                failed[note.to] = note
    return next(reversed(failed.values()), None)


def _is_recorded(notes: Sequence[Note], note: Note) -> bool:
    """Return whether a note that may be recorded only once is already recorded."""
    match note:
        case Reminded(number=number) | Escalated(number=number):
            return any(
                type(other) is type(note) and getattr(other, "number", 0) == number
                for other in notes
            )
        case Notified(error=None, about=about, number=number) if about == "asked" or number:
            return any(_is_success(other, about, number) for other in notes)
        case _:
            return False


def _is_success(note: Note, about: str, number: int) -> bool:
    return (
        isinstance(note, Notified)
        and note.error is None
        and (note.about, note.number) == (about, number)
    )
