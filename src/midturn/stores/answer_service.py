"""One answer, from outside into a conversation: recorded at once, or handed over to the holder."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from typing import TypeAlias

from msgspec import UNSET, Struct
from msgspec.structs import replace

from midturn import errors
from midturn.clock import SYSTEM, TimeOfDay, pause, stamp, trusted
from midturn.events import types as ev
from midturn.events.open_question import Address, Asker, asker_of, parse_address
from midturn.events.window import parent_of
from midturn.ports import OBSERVERS
from midturn.question.json_value import Limits
from midturn.question.people import Directory, People
from midturn.question.reply import Answered, Edited, EndedTurn
from midturn.question.text import is_same_name, name_key
from midturn.security.authorization import for_people_only, not_for_its_own_agent
from midturn.stores.authorization import Admission, as_decided
from midturn.stores.batch import encode_batch, event_ids, stamped
from midturn.stores.decisions import answer_batch, check_no_secret
from midturn.stores.ending import check_ending
from midturn.stores.lock import mark
from midturn.stores.nested_conversations import end_family
from midturn.stores.port import HeldBy, LastTurn, Settled, StorePort
from midturn.stores.queued_answer import HandedOver, Submission
from midturn.turn.people import COMMAND_LINE, Poll, handed_as, note_batch, poll_in
from midturn.turn.view import TurnView, answered_before, expired_requests, no_question, past_deadline, why_closed

_STEP = 0.05  # seconds between two looks at what became of an answer
_STEPS = 20
_TRIES = 100


class Receipt(Struct, frozen=True):
    """An answer that is safe: recorded, or durably with the process that runs the turn.

    `id` is the question's address. `held` says whether a process runs the turn now, so that you need not resume it. `votes` says how many
    have said yes, of how many (`1 of 2`), where the question still waits for others; else it is empty. `standing` says where a permission
    for later calls was written, or why it was not. `proposed` says that an edit is recorded and decides nothing yet:
    other people decide about it, or the process that runs the turn reads its rules first.

    Args:
        conversation: The id of the conversation.
    """

    conversation: str
    id: str
    held: bool = False
    votes: str = ""
    standing: str = ""
    proposed: bool = False

    def to_json(self) -> dict[str, str | bool]:
        """Return the receipt as JSON, for a web service."""
        more = {key: said for key, said in (("votes", self.votes), ("standing", self.standing)) if said}
        proposed = {"proposed": True} if self.proposed else {}
        return {"conversation": self.conversation, "id": self.id, "held": self.held, **more, **proposed}


Given: TypeAlias = "Submission | ev.Note"
"""Input from outside to a question: an answer, or a note on it."""


class OutsideAnswers:
    """Answers questions in a store. `take_over` records what was handed over to a holder that is gone."""

    def __init__(self, port: StorePort, admission: Admission, clock: TimeOfDay, take_over: Callable[[str], Awaitable[None]]) -> None:
        self._port = port
        self._admission = admission
        self._clock = clock
        self._take_over = take_over

    async def expire(self) -> None:
        """Record the end of every question in the store whose deadline has passed."""
        for conversation in await self._port.overdue(stamp(self._clock)):
            await record_expiry(self._port, conversation, self._clock)

    async def answer(self, id: str, submission: Given) -> Receipt:
        """Answer the open question at an address, or note something on it.

        Raises:
            AnswerError: The answer does not fit its question, or is one to a secret question.
            NotAllowed: This user may not answer it.
            AlreadyAnswered: Another answer was first; `answered_by` says who.
            NotOpen: There is no such question, or it is closed.
            PersonNeeded: The store is the user's own, and this process was started by a tool, or by the agent that asks.
            Busy: Others write the conversation again and again.
            StoreError: The conversation cannot be read or written.
        """
        at = parse_address(id)
        try:
            if at is None:
                message = f"{id!r} names no question: an id is `<conversation>-<event id>`, as `pending()` lists it."
                raise errors.NoSuchQuestion(message, id=id)
            if isinstance(submission, Submission):
                submission.as_reply()
            return await self._taken(at, submission)
        except errors.MidturnError as error:
            for observer in OBSERVERS:
                observer.refused(error)
            if isinstance(error, errors.TooLarge):
                raise errors.AnswerError([errors.Problem("", f"the answer is too large. {error}")]) from error
            raise

    async def _taken(self, at: Address, submission: Given) -> Receipt:
        try:
            await self._check_admission(at, submission)
            if isinstance(submission, Submission) and submission.cancel:
                await check_ending(self._port, self._admission, at.conversation, submission.by)
            return await self._answered(at, submission)
        except errors.DeadlinePassed as over:
            await record_expiry(self._port, at.conversation, self._clock)
            raise over from None
        except errors.NotOpen:
            raise await too_late(self._port, at, self._clock) from None
        except errors.NotAllowed as refused:  # what decides by people knows neither the address nor who it is
            refused.id, refused.user = refused.id or str(at), refused.user or (given.user if (given := _giver(submission)) else None)
            raise

    async def _check_admission(self, at: Address, submission: Given) -> None:
        who = _giver(submission)
        if not self._admission or who is None:
            return
        for question in await self._port.questions(str(at)):
            if question.id == str(at):
                await self._admission.check(as_decided(question, submission), who.user)

    async def _answered(self, at: Address, submission: Given) -> Receipt:
        for _ in range(_TRIES):
            decision = _Decision(at, submission, self._clock, self._admission)
            outcome = await self._settle(at, decision)
            if isinstance(outcome, HeldBy):
                handed = decision.checked(outcome.turn, self._port.limits)
                if await self._port.hand_over(outcome, handed):
                    return await self._acknowledged(at, submission, handed)
            elif decision.is_recorded:
                decision.show()
                if isinstance(submission, Submission) and isinstance(submission.as_reply(), EndedTurn):
                    await end_family(self._port, self._clock, outcome.turn.events)
                held = await self._is_held_around(outcome.turn.events)
                return Receipt(at.conversation, str(at), held=held, votes=decision.tally, proposed=decision.is_proposal)
            else:  # what was handed over to a holder that is gone comes first
                await self._take_over(at.conversation)
        raise errors.Busy(f"Others write conversation {at.conversation} again and again. Try again in a moment.")

    async def _is_held_around(self, turn: Sequence[ev.Event]) -> bool:
        """Say whether a process runs the turn around one inside a tool. Who is just leaving it gets a moment for that."""
        parent = parent_of(turn)
        if parent is None:
            return False
        for _ in range(_STEPS):
            if not isinstance(await self._port.look(parent.root), HeldBy):
                return False
            await pause(_STEP)
        return True

    async def _settle(self, at: Address, decision: _Decision) -> Settled | HeldBy:
        try:
            return await self._port.settle(at.conversation, decision)
        except (errors.StoreLocked, errors.Busy):
            raise
        except errors.StoreError as error:
            if at.conversation not in await self._port.ids(after=None):
                raise no_question(str(at)) from error
            raise

    async def _acknowledged(self, at: Address, submission: Given, mine: HandedOver) -> Receipt:
        """Wait a moment for what was handed over to be recorded, by the holder or, where that is gone meanwhile, by us."""
        for _ in range(_STEPS):
            outcome = await self._port.look(at.conversation)
            turn = outcome.turn
            waits = any(handed.key == mine.key for handed in turn.handed)
            if not waits or TurnView.last(turn.events).decision(at.event_id):
                if not mine.name or mine.key not in handed_as(turn.events):
                    await self._confirm(at, turn.events, submission)
                if why := _why_refused(turn.events, mine):
                    raise errors.AnswerError([errors.Problem("", why)])
                held = isinstance(outcome, HeldBy) or await self._is_held_around(turn.events)
                return Receipt(at.conversation, str(at), held, _tally(turn.events, at), proposed=_is_proposal(turn.events, at, submission))
            if isinstance(outcome, Settled):
                await self._take_over(at.conversation)
            await pause(_STEP)
        return Receipt(at.conversation, str(at), held=True)

    async def _confirm(self, at: Address, turn: Sequence[ev.Event], submission: Given) -> None:
        """Make sure that what was recorded is what was submitted: an answer at the holder's terminal may have been faster."""
        view = TurnView.last(turn)
        events = turn if view.was_asked(at.event_id) else (await self._port.read(at.conversation)).events
        view = view if events is turn else TurnView.of(events, at.event_id)
        match view.decision(at.event_id):
            case None if at.event_id in view.open_ids:
                message = "The process that runs the turn did not accept the answer; the question is still open."
                raise errors.AnswerError([errors.Problem("", message)])
            case ev.InquiryCancelled() if not isinstance(submission, Submission) or isinstance(submission.as_reply(), Answered):
                raise why_closed(events, at)
            case ev.InquiryAnswered(answered_by=by) | ev.InquiryRedacted(answered_by=by) | ev.Approval(answered_by=by) if not _is_by(
                by, submission, events, at, self._admission.people_of(events)
            ):
                raise why_closed(events, at)
            case _:
                pass


def _is_by(by: ev.AnsweredBy | None, given: Given, events: Sequence[ev.Event], at: Address, directory: Directory | None) -> bool:
    """Whether an answer on record is the one that was given: by that person, whatever their login is."""
    asked = next((asked for asked in ev.put_to_people(events) if asked.event_id == at.event_id), None)
    giver = _giver(given)
    if giver is None or by is None or asked is None or not giver.user:
        return by == giver
    poll = Poll(asked.id, asked.people or People(), directory=directory, configured=asked.configured)
    return (by.by, by.via) == (giver.by, giver.via) and is_same_name(poll.person(by.user or ""), poll.person(giver.user))


def _giver(given: Given) -> ev.AnsweredBy | None:
    """Return who gives it; None of a note that no person makes."""
    return given.by if isinstance(given, Submission) else given.answered_by if isinstance(given, ev.Vote | ev.Reassigned) else None


def _tally(events: Sequence[ev.Event], at: Address) -> str:
    """Return how many have said yes to what is open, of how many: `1 of 2`; empty where one is enough, or it is closed."""
    if not any(isinstance(event, ev.Vote) for event in events):  # as usual
        return ""
    try:
        return poll_in(events, at).tally
    except errors.MidturnError:
        return ""


def _is_proposal(events: Sequence[ev.Event], at: Address, given: Given) -> bool:
    """Say whether an edit was recorded as a proposal, and not as a vote, and its call still waits: it decides nothing yet."""
    if not isinstance(given, Submission) or not isinstance(given.as_reply(), Edited):
        return False
    view = TurnView.last(events)
    asked = next((event for event in view.events if event.event_id == at.event_id and at.event_id in view.open_ids), None)
    notes = view.record.notes.get(asked.id, ()) if isinstance(asked, ev.Approval) else ()
    edits = (note for note in reversed(notes) if isinstance(note, ev.Proposal | ev.Vote) and note.arguments is not UNSET)
    return isinstance(next(edits, None), ev.Proposal)


def _why_refused(events: Sequence[ev.Event], mine: HandedOver) -> str:
    """Say why the holder has refused an edit that was handed over; empty if it has not, or not yet."""
    edits = [event for event in events if isinstance(event, ev.Proposal)]
    place = next((place for place, edit in enumerate(edits) if mine.key in handed_as([edit])), len(edits))
    said = next((edit for edit in edits[place + 1 :] if edit.id == edits[place].id), None)
    return "" if said is None or said.state != "refused" else said.reason or "The edit was refused."


async def record_expiry(port: StorePort, conversation: str, clock: TimeOfDay) -> None:
    """Record the end of every question of a turn whose deadline has passed; what a process holds, that process records."""

    def decide(turn: LastTurn) -> Sequence[ev.Event]:
        now = trusted(clock).now(turn.events)
        if turn.handed or now is None:
            return ()
        return stamped(expired_requests(TurnView.last(turn.events), now, event_ids()), clock)

    with suppress(errors.StoreError):
        await port.settle(conversation, decide)


async def too_late(port: StorePort, at: Address, clock: TimeOfDay = SYSTEM) -> errors.AlreadyAnswered | errors.NotOpen:
    """Return the error for an answer to a question that is not open, however long its turn is over."""
    try:
        events = (await port.read(at.conversation)).events
    except errors.StoreError:
        return no_question(str(at))
    await record_expiry(port, at.conversation, clock)
    return why_closed(events, at, trusted(clock).now(events) or "")


class _Decision:
    """The events to record, given the last turn. Nothing is, while answers that came before wait to be recorded."""

    def __init__(self, at: Address, submission: Given, clock: TimeOfDay, admission: Admission) -> None:
        self._at = at
        self._submission = submission
        self._admission = admission
        self._clock = clock
        self.is_recorded = False
        self._recorded: Sequence[ev.Event] = ()
        self._turn: Sequence[ev.Event] = ()

    def __call__(self, turn: LastTurn) -> Sequence[ev.Event]:
        self.is_recorded = not turn.handed
        self._recorded = () if turn.handed else stamped(self._batch(turn), self._clock)
        self._turn = turn.events
        return self._recorded

    def show(self) -> None:
        """Let observers know what is recorded."""
        for observer in OBSERVERS:
            observer.answered(self._at.conversation, self._turn, self._recorded)

    @property
    def tally(self) -> str:
        """The yeses so far, of those needed; empty where that decides nothing."""
        return _tally((*self._turn, *self._recorded), self._at)

    @property
    def is_proposal(self) -> bool:
        """Whether an edit was recorded that decides nothing yet."""
        return _is_proposal((*self._turn, *self._recorded), self._at, self._submission)

    def checked(self, turn: LastTurn, limits: Limits) -> HandedOver:
        """Find out whether the answer would do, and could be recorded; return what is to be handed over."""
        batch = self._batch(turn)
        first = next((handed for handed in turn.handed if handed.event_id == self._at.event_id and not handed.name), None)
        if first:
            raise answered_before(self._at, first.by, first.at)
        encode_batch(stamped(batch, self._clock), limits)
        at, given = stamp(self._clock), self._submission
        if isinstance(given, Submission):
            vote = batch[0] if isinstance(batch[0], ev.Vote) else None
            name = _name_of(batch[0]) if isinstance(batch[0], ev.Vote | ev.Proposal) else ""
            if vote and vote.answer and vote.arguments is UNSET and not given.digest:
                given = replace(given, digest=vote.sha256)  # an edit that is recorded before it makes it void
            handed = HandedOver(event_id=self._at.event_id, at=at, submission=given, name=name)
        else:
            handed = HandedOver(event_id=self._at.event_id, at=at, note=given, name=_name_of(given))
        if handed.name and any(other.key == handed.key for other in turn.handed):
            raise errors.NotAllowed("The process that runs the turn has this already, and will record it.", id=str(self._at))
        return handed

    def _batch(self, turn: LastTurn) -> Sequence[ev.Event]:
        if turn.is_for_people:
            check_that_a_person_answers(asker_of(turn.events))
        check_that_it_lasts(turn.events, self._at, trusted(self._clock).now(turn.events))
        people = self._admission.people_of(turn.events)
        if not isinstance(self._submission, Submission):
            return note_batch(turn.events, self._at, self._submission, event_ids(), people)
        check_no_secret(turn.events, self._at.conversation, self._at.event_id, self._submission)
        self._submission = self._by_name(turn, self._submission, people)
        return answer_batch(turn.events, self._at.conversation, self._at.event_id, self._submission, people)

    def _by_name(self, turn: LastTurn, submission: Submission, people: Directory | None) -> Submission:
        """Return the submission under the name of the person behind a login: whoever records it need not know the configuration."""
        if people is None or not submission.user:
            return submission
        who = poll_in(turn.events, self._at, people).named(submission.by)
        return replace(submission, user=who.user, login=who.login)


def _name_of(note: ev.Event) -> str:
    """Return the name of a vote or a note among those on its request: a second one of what may be there once has the same."""
    match note:
        case ev.Vote(withdrawn=False, answered_by=who):
            person = "" if who is None else "the command line" if who.via in COMMAND_LINE else name_key(who.user or "")
            return f"vote-{hashlib.sha256(person.encode()).hexdigest()[:16]}"
        case ev.Reminded(number=number) | ev.Escalated(number=number):
            return f"{note.type}-{number}"
        case ev.Notified(error=None, about=about, number=number) if about == "asked" or number:
            return f"notified-{about}-{number}"
        case _:
            return f"{note.type}-{os.urandom(8).hex()}"


def check_that_it_lasts(turn: Sequence[ev.Event], at: Address, now: str | None) -> None:
    """Take no answer to what another agent asks in its own dialog by now, or whose deadline has passed, whether or not that is on record.

    Nothing is over by itself where no one knows the time.

    Raises:
        NotOpen: It does.
        DeadlinePassed: It has.
    """
    asker = asker_of(turn)
    if now is None:
        return
    if asker and asker.has_ended(now):
        raise why_closed(turn, at)
    if (deadline := TurnView.last(turn).deadlines.get(at.event_id)) and deadline <= now:
        raise past_deadline(at, deadline)


def check_that_a_person_answers(asker: Asker | None) -> None:
    """Refuse answers from a process that a tool or agent started; but one that asks for an agent brings what its dialog was told."""
    if asker and asker.process and asker.process.started and asker.process == mark(os.getpid()):
        return
    for_people_only("answer questions")
    not_for_its_own_agent(asker)
