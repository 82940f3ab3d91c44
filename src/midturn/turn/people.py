"""People of an open request: who is asked now, who may answer, which votes stand. Read from the request and the notes on it.

Nothing here answers for anyone. A decision asks its `Poll` twice: before it is put to a person who is attached (may they decide it?), and
when a reply comes (do they, and is it the last yes that was needed?). So every door has the same rules, and none of its own.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Final, TypeVar, assert_never

from msgspec import UNSET, Struct, UnsetType
from msgspec.structs import replace

from midturn.errors import NotAllowed
from midturn.events.open_question import Address, Whose, asked_text
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
"""The ways of the command line: on files it is one person, whatever name it gives."""
OWNER: Final = "owner"
"""Tag of `answered_by.by`: the user of the operating system to whom a local store belongs has ended a turn, with that right alone."""
TOLD_ABOUT: Final = ("asked", "reassigned", "reminded", "escalated", "sent")
"""What a `Notified` is about."""
_ADD_LOGIN: Final = "Add the login to its person: `[people.NAME] logins`, or `logins` of `People` in a program."
_UNKNOWN: Final = "No one can be told apart here, and {what}. Answer where people are known by name."


class Poll(Struct, frozen=True):
    """What people have said about one request so far. `needed` is how many have to say yes; `request` is the inquiry's or approval's id.

    `directory` has the people that are configured where an answer is taken, as far as that is known. Those of a `configured` question have
    to be in there when they answer.
    """

    request: str
    people: People
    notes: tuple[Note, ...] = ()
    needed: int = 1
    directory: Directory | None = None
    configured: bool = False
    proposed: Json | UnsetType = UNSET
    """The arguments of the proposal that they decide on, if there is one."""

    @property
    def asked(self) -> tuple[str, ...]:
        """The names of people and groups that it is put to now: as authored or passed on, with those it was escalated to."""
        asked = self.people.ask
        for note in self.notes:
            if isinstance(note, Reassigned):
                asked = note.to
            elif isinstance(note, Escalated):
                asked = (*asked, *(name for name in self.escalated_to(note) if not is_among(name, asked)))
        return asked

    def escalated_to(self, note: Escalated) -> tuple[str, ...]:
        """Return to whom an escalation puts the question: what the question says, whatever is on record."""
        escalations = self.people.escalate
        return escalations[note.number - 1].to if 1 <= note.number <= len(escalations) else ()

    @property
    def eligible(self) -> frozenset[str] | None:
        """The people who may decide; None where anyone may. Passing on adds no one, an escalation does."""
        if not self.people.only:
            return None
        escalated = (name for note in self.notes if isinstance(note, Escalated) for name in self.escalated_to(note))
        return self.people.people_of((*self.people.ask, *escalated))

    @property
    def why_never(self) -> str:
        """Say why the yeses that are needed can never come: too few people may answer, now or later; empty where they can."""
        if not self.people.only:
            return ""
        able = sorted(self.people.people_of(self.people.named))
        return "" if len(able) >= self.needed else f"{self.needed} different people have to say yes, and only {listed(able)} may answer"

    @property
    def votes(self) -> tuple[Vote, ...]:
        """The yeses that stand, one for each person, all of them for what is voted on now."""
        standing: list[Vote] = []
        for note in self.notes:
            if not isinstance(note, Vote) or note.answered_by is None:
                continue
            own = next((vote for vote in standing if self._is_same(vote.answered_by, note.answered_by)), None)
            if own is not None:
                standing = [] if note.withdrawn and own.arguments is not UNSET else [vote for vote in standing if vote is not own]
            if not note.withdrawn and note.answer:
                standing = [note] if note.arguments is not UNSET else [*standing, note]
        return tuple(standing)

    @property
    def arguments(self) -> Json | UnsetType:
        """The arguments that are voted on, if a person has edited them."""
        return next((vote.arguments for vote in self.votes if vote.arguments is not UNSET), self.proposed)

    @property
    def editor(self) -> AnsweredBy | None:
        """The voter who has edited the arguments that are voted on."""
        return next((vote.answered_by for vote in self.votes if vote.arguments is not UNSET), None)

    @property
    def tally(self) -> str:
        """How many have said yes, of how many: `1 of 2`; empty where one is enough."""
        return f"{len(self.votes)} of {self.needed}" if self.needed > 1 else ""

    @property
    def whose(self) -> Whose:
        """What others see of it."""
        voters = tuple(vote.answered_by.user or "" for vote in self.votes if vote.answered_by)
        failed = _failed_notice(self.notes)
        return Whose(self.people, self.asked, self.eligible, self.needed, voters, not_notified(failed) if failed else "")

    def named(self, who: AnsweredBy) -> AnsweredBy:
        """Return who answers under the person's own name, with the login that they used where that is another one."""
        if not who.user:
            return who
        person = self.person(who.user)
        login = None if person == who.user else who.login or who.user
        return who if login is None else replace(who, user=person, login=login)

    def person(self, login: str) -> str:
        """Return the name of the person behind a login, as the question or the directory knows it; else the login itself."""
        if self.directory is None:
            return self.people.person(login)
        configured = self.directory.person(login)
        if self.configured:
            return configured if self.directory.has_person(configured) else self.people.person(login)
        return self.people.person(login) if self.people.identifies(login) else configured

    def why_unknown(self, who: AnsweredBy) -> str:
        """Say why someone is not known as a person who decides this; empty where they are, or need not be.

        A login that is not known is a person of its own only where anyone may decide alone. A person who has been removed from the
        configuration decides nothing that was put to them.
        """
        person, directory = self.person(who.user or ""), self.directory
        if self.configured and directory is not None and directory.people:
            if directory.has_person(person):
                return ""
            if self.people.identifies(person):
                return f"{person} is not in the configuration any more, and decides nothing. Ask somebody else, or add `[people.{person}]`."
            return self._not_known(person) if self.people.only or self.needed > 1 else ""
        is_named = bool(self.people.named or self.people.members or self.people.logins)
        if self.needed == 1 or self.people.only or not is_named or self.people.identifies(person):
            return ""
        return self._not_known(person)

    def _not_known(self, login: str) -> str:
        """Say that a login is no person who is known, what only such people do, and what to do about it."""
        if self.eligible is None:
            return f"{login} is no known person, and {self.needed} different people have to say yes. {_ADD_LOGIN}"
        return f"{login} may not answer this: only {listed(sorted(self.eligible))} may. If it is a login of theirs: {_ADD_LOGIN}"

    def voted(self, who: AnsweredBy) -> Vote | None:
        """Return the yes of a person that stands."""
        return next((vote for vote in self.votes if self._is_same(vote.answered_by, who)), None)

    def barred(self, who: AnsweredBy) -> str:
        """Say why someone may not decide; empty where they may."""
        if who.by != "user":
            return "People decide this, and no policy of a program does."
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
        """Say why someone's yes does not count once more; empty where it counts."""
        if self.needed == 1 or (vote := self.voted(who)) is None:
            return ""
        name = vote.answered_by.user if vote.answered_by else None
        is_own = is_same_name(name or "", self.person(who.user or ""))
        whose = f"{name}" if is_own else "The command line is one person, and"
        return f"{whose} has said yes already: {self.tally}. Another person has to say yes."

    def check(self, who: AnsweredBy) -> None:
        """Let no one decide who may not.

        Raises:
            NotAllowed: They may not; it says why.
        """
        if why := self.barred(who):
            raise NotAllowed(why)

    def check_noting(self, note: Vote | Reassigned) -> None:
        """Let a question be passed on only to those who may answer it, and only a vote that stands be taken back.

        Raises:
            NotAllowed: One of them may not, or there is none.
        """
        if isinstance(note, Vote):
            if note.answered_by is None or not note.withdrawn or self.voted(note.answered_by) is None:
                raise NotAllowed("There is no vote of yours to take back.")
            return
        eligible, directory = self.eligible, self.directory
        if self.configured and directory is not None and directory.people:
            for name in note.to:
                if not directory.knows(name):
                    raise NotAllowed(f"There is no person or group `{name}` in the configuration.{directory.did_you_mean(name)}")
        for name in note.to if eligible is not None else ():
            if eligible is not None and not all(is_among(person, eligible) for person in self.people.people_of((name,))):
                raise NotAllowed(f"{name} may not answer this: only {listed(sorted(eligible))} may.")

    def accepted(self, note: Note) -> Note:
        """Return a note as it is recorded, where it may be.

        An escalation is to those that the question was asked with: it is no way to put it to anybody else.

        Raises:
            NotAllowed: It is not for this person to note, it was noted before, or the question has no such reminder or escalation.
        """
        match note:
            case Vote() | Reassigned():
                if note.answered_by is None:
                    raise NotAllowed("Only a person withdraws a vote or passes a question on.")
                self.check(note.answered_by)
                note = replace(note, answered_by=self.named(note.answered_by))
                self.check_noting(note)
            case Reminded() | Escalated() | Notified():
                if _is_recorded(self.notes, note):
                    raise NotAllowed("The same note is recorded already: another process has sent it.")
                note = self._system_event(note)
            case Proposal():
                raise NotAllowed("An edit is an answer: give it with `store.answer(id, arguments=…)`.")
            case _ as other:
                assert_never(other)
        return replace(note, id=self.request)

    def _system_event(self, note: Reminded | Escalated | Notified) -> Note:
        match note:
            case Escalated(number=number):
                if not (to := self.escalated_to(note)):
                    raise NotAllowed(f"The question has no escalation {number}: only those that it was asked with are recorded.")
                return replace(note, to=to)
            case Reminded(number=number):
                if self.people.remind_after is None or not 1 <= number <= MOST_REMINDERS:
                    raise NotAllowed(f"The question has no reminder {number}: `remind_after` says whether there are any.")
                return note
            case Notified(about=about):
                if about not in TOLD_ABOUT:
                    raise NotAllowed(f"People are not notified of {about!r}, but of {', '.join(TOLD_ABOUT)}.")
                return note

    def _is_same(self, one: AnsweredBy | None, other: AnsweredBy) -> bool:
        """Whether two votes are one person's: on two devices, or both from the command line."""
        if one is None or not one.user:
            return False
        if one.via in COMMAND_LINE and other.via in COMMAND_LINE:
            return True
        return is_same_name(self.person(one.user), self.person(other.user or ""))


def needs_digest(poll: Poll | None, *, was_changed: bool) -> bool:
    """Whether a yes has to name what its author saw: several people have to say yes, or there was an edit since it was asked."""
    return was_changed or (poll is not None and poll.needed > 1)


def ending_barred(turns: Iterable[TurnRecord], who: AnsweredBy, directory: Directory | None = None) -> str:
    """Say why someone may not end these turns, which end together; empty where they may.

    Whoever may not decide a question that is open in one of them may not close it by ending the turn. The owner of the store may.
    """
    if who.by == OWNER:
        return ""
    for turn in turns:
        for call in turn.open_calls() if turn.ended is None else ():
            for asked in (*(chain.last.request for chain in call.open_chains), *call.open_approvals):
                poll = open_poll(asked, turn.notes, directory)
                if poll is not None and (why := poll.barred(who)):
                    what = asked_text(asked, call.request.name) if isinstance(asked, Approval) else asked.question.text
                    return f"The turn waits for others, too ({shown(what)}), and ends only with them. {why}"
    return ""


def is_for_certain_people(turn: Iterable[Event]) -> bool:
    """Whether anything in a turn was put to certain people, as it was asked or later."""
    asked = (event for event in turn if isinstance(event, InquiryRequest | Approval | Proposal | Reassigned))
    return any(isinstance(event, Reassigned) or event.people for event in asked)


def poll_of(
    request: InquiryRequest | Approval, notes: Sequence[Note], *, is_yes_or_no: bool, directory: Directory | None = None
) -> Poll | None:
    """Return the poll about a request; None where it is anyone's, and nothing was noted of whose it is."""
    if not notes and request.people is None:  # as usual
        return None
    edits = read_edits(notes)
    notes = notes[edits.first_note :]
    people = request.people if edits.proposal is None else edits.proposal.people
    if people is None and edits.proposal is None and not any(isinstance(note, Reassigned) for note in notes):
        return None
    people = people or People()
    proposed = UNSET if edits.proposal is None else edits.proposal.arguments
    configured = request.configured if edits.proposal is None else edits.proposal.configured
    needed = people.approvals if is_yes_or_no else 1
    return Poll(request.id, people, tuple(notes), needed, directory, configured, proposed)


def open_poll(request: InquiryRequest | Approval, notes: Mapping[str, Sequence[Note]], directory: Directory | None = None) -> Poll | None:
    """Return the poll about a request of a turn, given the turn's notes; None where it is anyone's."""
    is_yes_or_no = isinstance(request, Approval) or isinstance(request.question.answer_type, BooleanType)
    return poll_of(request, notes.get(request.id, ()), is_yes_or_no=is_yes_or_no, directory=directory)


def poll_about(request: InquiryRequest | Approval, turn: Sequence[Event], directory: Directory | None = None) -> Poll | None:
    """Return the poll about a request of a turn as it stands in the turn's events; None where it is anyone's."""
    return open_poll(request, TurnView.last(turn).record.notes, directory)


def notes_on(events: Iterable[Event], id: str) -> tuple[Note, ...]:
    """Return what was noted on a request, in order."""
    return tuple(event for event in events if isinstance(event, Note) and event.id == id)


# Notes from outside ------------------------------------------------------------------------------------------------------

HANDED: Final = "handed"
"""Stands with a vote or a note that was handed over: its key."""


E = TypeVar("E", bound=Event)


def under_key(event: E, key: str) -> E:
    """Return a vote or a note with the key under which it was handed over; other events stay as they are."""
    is_note = isinstance(event, Note)
    return replace(event, metadata={**(event.metadata or {}), HANDED: key}) if is_note else event


def handed_as(events: Iterable[Event]) -> frozenset[str]:
    """Return the keys of the votes and notes among events that were handed over."""
    return frozenset(str(event.metadata[HANDED]) for event in events if event.metadata and HANDED in event.metadata)


def poll_in(turn: Sequence[Event], at: Address, directory: Directory | None = None) -> Poll:
    """Return the poll about what is open at an address.

    Raises:
        NotOpen: Nothing is.
        AlreadyAnswered: It was answered before.
    """
    view = TurnView.last(turn)
    request = next((each for each in view.events if each.event_id == at.event_id and at.event_id in view.open_ids), None)
    if not isinstance(request, InquiryRequest | Approval):
        raise why_closed(turn, at)
    poll = open_poll(request, view.record.notes, directory)
    return poll or Poll(request.id, People(), directory=directory)


def note_batch(turn: Sequence[Event], at: Address, note: Note, ids: Iterator[str], directory: Directory | None = None) -> tuple[Event, ...]:
    """Return the batch that a note leads to, with the id of its request.

    Raises:
        NotOpen: Its question is not open.
        NotAllowed: It is not for this person to note.
    """
    return (replace(poll_in(turn, at, directory).accepted(note), event_id=next(ids)),)


def not_notified(notice: Notified) -> str:
    """Say whom a notice did not reach, and why."""
    return f"{listed(notice.to) or 'The people who are asked'} could not be told: {notice.error or 'no reason is known'}"


def listed(names: Sequence[str]) -> str:
    """Write names as a sentence does: `ana, bo and carl`."""
    return " and ".join(filter(None, (", ".join(names[:-1]), *names[-1:])))


def _failed_notice(notes: Sequence[Note]) -> Notified | None:
    """Return the last notice that did not reach its addresses, unless the same people were told later."""
    failed: dict[tuple[str, ...], Notified] = {}
    for note in notes:
        if isinstance(note, Notified):
            failed.pop(note.to, None)
            if note.error is not None:
                failed[note.to] = note
    return next(reversed(failed.values()), None)


def _is_recorded(notes: Sequence[Note], note: Note) -> bool:
    """Return whether a note that can be recorded only once is among others."""
    match note:
        case Reminded(number=number) | Escalated(number=number):
            return any(type(other) is type(note) and getattr(other, "number", 0) == number for other in notes)
        case Notified(error=None, about=about, number=number) if about == "asked" or number:
            return any(_is_success(other, about, number) for other in notes)
        case _:
            return False


def _is_success(note: Note, about: str, number: int) -> bool:
    return isinstance(note, Notified) and note.error is None and (note.about, note.number) == (about, number)
