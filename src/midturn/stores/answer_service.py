"""Records an answer that was submitted outside the run of a turn, or queues it for the process that
has the lock.
"""

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
from midturn.events.open_question import Address, AskingAgent, asker_of, parse_address
from midturn.events.window import parent_of
from midturn.ports import OBSERVERS
from midturn.question.json_value import Limits
from midturn.question.people import Directory, People
from midturn.question.reply import Answered, Edited, EndedTurn
from midturn.question.text import is_same_name, name_key
from midturn.security.authorization import refuse_asking_agent, require_human
from midturn.stores.authorization import Authorizer, as_decided
from midturn.stores.batch import encode_batch, event_ids, stamped
from midturn.stores.decisions import answer_batch, check_no_secret
from midturn.stores.ending import check_ending
from midturn.stores.lock import mark
from midturn.stores.nested_conversations import end_family
from midturn.stores.port import CommittedBatch, LastTurn, LockedBy, StorePort
from midturn.stores.queued_answer import QueuedAnswer, SubmittedAnswer
from midturn.turn.view import (
    TurnView,
    answered_before,
    expired_requests,
    no_question,
    past_deadline,
    why_closed,
)
from midturn.turn.votes import COMMAND_LINE, Poll, handed_as, note_batch, poll_in

_POLL_INTERVAL = 0.05  # seconds between two checks whether an answer was recorded
_MAX_POLLS = 20
_TRIES = 100


class Receipt(Struct, frozen=True):
    """Receipt for an answer that is recorded, or durably queued for the process that runs the
    turn.

    `id` is the question's address. `held` is true if a process is running the turn, so you need not
    resume it. `votes` is the count of approvals (`1 of 2`) if the question still waits for other
    people, and empty otherwise. `standing` says where a permission for later calls was written, or
    why it was not written. `proposed` is true if the answer is an edit that is recorded but not
    decided. In that case other people decide, or the process that runs the turn first checks the
    rules for the edit.

    Args:
        conversation: ID of the conversation.
    """

    conversation: str
    id: str
    held: bool = False
    votes: str = ""
    standing: str = ""
    proposed: bool = False

    def to_json(self) -> dict[str, str | bool]:
        """Return the receipt as JSON, for a web service."""
        more = {
            key: said for key, said in (("votes", self.votes), ("standing", self.standing)) if said
        }
        proposed = {"proposed": True} if self.proposed else {}
        return {
            "conversation": self.conversation,
            "id": self.id,
            "held": self.held,
            **more,
            **proposed,
        }


IncomingAnswer: TypeAlias = "SubmittedAnswer | ev.Note"
"""Input for a question from outside the run of its turn: an answer, or a note on the question."""


class AnswerService:
    """Answers questions in a store.

    `drain_answer_queue` records the answers queued for a process that has ended.
    """

    def __init__(
        self,
        port: StorePort,
        admission: Authorizer,
        clock: TimeOfDay,
        take_over: Callable[[str], Awaitable[None]],
    ) -> None:
        self._port = port
        self._admission = admission
        self._clock = clock
        self._take_over = take_over

    async def expire(self) -> None:
        """Close every question in the store whose deadline has passed."""
        for conversation in await self._port.overdue(stamp(self._clock)):
            await record_expiry(self._port, conversation, self._clock)

    async def answer(self, id: str, submission: IncomingAnswer) -> Receipt:
        """Answer the open question at an address, or record a note on it.

        Raises:
            AnswerError: The answer is not valid for its question, or the question asks for a
                secret.
            NotAllowed: This user may not answer the question.
            AlreadyAnswered: Another answer came first; `answered_by` names its responder.
            NotOpen: There is no such question, or the question is closed.
            PersonNeeded: The store is in the user's data directory, and this process was started by
                a tool, or by the agent that asks.
            Busy: Other processes kept writing the conversation.
            StoreError: The conversation cannot be read or written.
        """
        at = parse_address(id)
        try:
            if at is None:
                message = (
                    f"{id!r} is not a question ID: an ID is `<conversation>-<event id>`, as"
                    " `pending()` lists it."
                )
                raise errors.NoSuchQuestion(message, id=id)
            if isinstance(submission, SubmittedAnswer):
                submission.as_reply()
            return await self._taken(at, submission)
        except errors.MidturnError as error:
            for observer in OBSERVERS:
                observer.refused(error)
            if isinstance(error, errors.TooLarge):
                raise errors.AnswerError(
                    [errors.Problem("", f"the answer is too large. {error}")]
                ) from error
            raise

    async def _taken(self, at: Address, submission: IncomingAnswer) -> Receipt:
        try:
            await self._check_admission(at, submission)
            if isinstance(submission, SubmittedAnswer) and submission.cancel:
                await check_ending(self._port, self._admission, at.conversation, submission.by)
            return await self._answered(at, submission)
        except errors.DeadlinePassed as over:
            await record_expiry(self._port, at.conversation, self._clock)
            raise over from None
        except errors.NotOpen:
            raise await too_late(self._port, at, self._clock) from None
        except (
            errors.NotAllowed
        ) as refused:  # the code that raised it may not have the address and the user
            refused.id, refused.user = (
                refused.id or str(at),
                refused.user or (given.user if (given := _giver(submission)) else None),
            )
            raise

    async def _check_admission(self, at: Address, submission: IncomingAnswer) -> None:
        who = _giver(submission)
        if not self._admission or who is None:
            return
        for question in await self._port.questions(str(at)):
            if question.id == str(at):
                await self._admission.check(as_decided(question, submission), who.user)

    async def _answered(self, at: Address, submission: IncomingAnswer) -> Receipt:
        for _ in range(_TRIES):
            decision = _Decision(at, submission, self._clock, self._admission)
            outcome = await self._settle(at, decision)
            if isinstance(outcome, LockedBy):
                handed = decision.checked(outcome.turn, self._port.limits)
                if await self._port.queue_answer(outcome, handed):
                    return await self._acknowledged(at, submission, handed)
            elif decision.is_recorded:
                decision.show()
                if isinstance(submission, SubmittedAnswer) and isinstance(
                    submission.as_reply(), EndedTurn
                ):
                    await end_family(self._port, self._clock, outcome.turn.events)
                held = await self._is_held_around(outcome.turn.events)
                return Receipt(
                    at.conversation,
                    str(at),
                    held=held,
                    votes=decision.tally,
                    proposed=decision.is_proposal,
                )
            else:  # answers that were queued for a process that has ended are recorded first
                await self._take_over(at.conversation)
        raise errors.Busy(
            f"Other processes keep writing conversation {at.conversation}. Try again in a moment."
        )

    async def _is_held_around(self, turn: Sequence[ev.Event]) -> bool:
        """Return whether a process is running the outer turn of a nested turn.

        Wait briefly, because a process may be releasing the outer turn.
        """
        parent = parent_of(turn)
        if parent is None:
            return False
        for _ in range(_MAX_POLLS):
            if not isinstance(await self._port.look(parent.root), LockedBy):
                return False
            await pause(_POLL_INTERVAL)
        return True

    async def _settle(self, at: Address, decision: _Decision) -> CommittedBatch | LockedBy:
        try:
            return await self._port.settle(at.conversation, decision)
        except (errors.StoreLocked, errors.Busy):
            raise
        except errors.StoreError as error:
            if at.conversation not in await self._port.ids(after=None):
                raise no_question(str(at)) from error
            raise

    async def _acknowledged(
        self, at: Address, submission: IncomingAnswer, mine: QueuedAnswer
    ) -> Receipt:
        """Wait briefly for the process with the lock to record the queued answer. If that process
        has ended, record the answer in this process.
        """
        for _ in range(_MAX_POLLS):
            outcome = await self._port.look(at.conversation)
            turn = outcome.turn
            waits = any(handed.key == mine.key for handed in turn.handed)
            if not waits or TurnView.last(turn.events).decision(at.event_id):
                if not mine.name or mine.key not in handed_as(turn.events):
                    await self._confirm(at, turn.events, submission)
                if why := _why_refused(turn.events, mine):
                    raise errors.AnswerError([errors.Problem("", why)])
                held = isinstance(outcome, LockedBy) or await self._is_held_around(turn.events)
                return Receipt(
                    at.conversation,
                    str(at),
                    held,
                    _tally(turn.events, at),
                    proposed=_is_proposal(turn.events, at, submission),
                )
            if isinstance(outcome, CommittedBatch):
                await self._take_over(at.conversation)
            await pause(_POLL_INTERVAL)
        return Receipt(at.conversation, str(at), held=True)

    async def _confirm(
        self, at: Address, turn: Sequence[ev.Event], submission: IncomingAnswer
    ) -> None:
        """Check that the recorded answer is the submitted one.

        An answer at the terminal of the process with the lock may have been recorded first.
        """
        view = TurnView.last(turn)
        events = (
            turn if view.was_asked(at.event_id) else (await self._port.read(at.conversation)).events
        )
        view = view if events is turn else TurnView.of(events, at.event_id)
        match view.decision(at.event_id):
            case None if at.event_id in view.open_ids:
                message = (
                    "The process that runs the turn did not accept the answer; the question is"
                    " still open."
                )
                raise errors.AnswerError([errors.Problem("", message)])
            case ev.InquiryCancelled() if not isinstance(submission, SubmittedAnswer) or isinstance(
                submission.as_reply(), Answered
            ):
                raise why_closed(events, at)
            case (
                ev.InquiryAnswered(answered_by=by)
                | ev.InquiryRedacted(answered_by=by)
                | ev.Approval(answered_by=by)
            ) if not _is_by(by, submission, events, at, self._admission.people_of(events)):
                raise why_closed(events, at)
            case _:
                pass


def _is_by(
    by: ev.AnsweredBy | None,
    given: IncomingAnswer,
    events: Sequence[ev.Event],
    at: Address,
    directory: Directory | None,
) -> bool:
    """Return whether a recorded answer is the submitted one: the same person gave it, under any
    login.
    """
    asked = next(
        (asked for asked in ev.put_to_people(events) if asked.event_id == at.event_id), None
    )
    giver = _giver(given)
    if giver is None or by is None or asked is None or not giver.user:
        return by == giver
    poll = Poll(
        asked.id, asked.people or People(), directory=directory, configured=asked.configured
    )
    return (by.by, by.via) == (giver.by, giver.via) and is_same_name(
        poll.person(by.user or ""), poll.person(giver.user)
    )


def _giver(given: IncomingAnswer) -> ev.AnsweredBy | None:
    """Return the person who gives the answer; None for a note without a person."""
    return (
        given.by
        if isinstance(given, SubmittedAnswer)
        else given.answered_by
        if isinstance(given, ev.Vote | ev.Reassigned)
        else None
    )


def _tally(events: Sequence[ev.Event], at: Address) -> str:
    """Return the count of approvals of an open question, such as `1 of 2`. Return an empty string
    if one approval is enough, or if the question is closed.
    """
    if not any(isinstance(event, ev.Vote) for event in events):  # fast path: nobody has voted
        return ""
    try:
        return poll_in(events, at).tally
    except errors.MidturnError:
        return ""


def _is_proposal(events: Sequence[ev.Event], at: Address, given: IncomingAnswer) -> bool:
    """Return whether an edit was recorded as a proposal instead of a vote, and its call is still
    open.
    """
    if not isinstance(given, SubmittedAnswer) or not isinstance(given.as_reply(), Edited):
        return False
    view = TurnView.last(events)
    asked = next(
        (
            event
            for event in view.events
            if event.event_id == at.event_id and at.event_id in view.open_ids
        ),
        None,
    )
    notes = view.record.notes.get(asked.id, ()) if isinstance(asked, ev.Approval) else ()
    edits = (
        note
        for note in reversed(notes)
        if isinstance(note, ev.Proposal | ev.Vote) and note.arguments is not UNSET
    )
    return isinstance(next(edits, None), ev.Proposal)


def _why_refused(events: Sequence[ev.Event], mine: QueuedAnswer) -> str:
    """Return why the process with the lock refused a queued edit. Return an empty string if it has
    not refused the edit.
    """
    edits = [event for event in events if isinstance(event, ev.Proposal)]
    place = next(
        (place for place, edit in enumerate(edits) if mine.key in handed_as([edit])), len(edits)
    )
    said = next((edit for edit in edits[place + 1 :] if edit.id == edits[place].id), None)
    return "" if said is None or said.state != "refused" else said.reason or "The edit was refused."


async def record_expiry(port: StorePort, conversation: str, clock: TimeOfDay) -> None:
    """Close the questions of a turn whose deadlines have passed. If a process has the lock, that
    process closes them.
    """

    def decide(turn: LastTurn) -> Sequence[ev.Event]:
        now = trusted(clock).now(turn.events)
        if turn.handed or now is None:
            return ()
        return stamped(expired_requests(TurnView.last(turn.events), now, event_ids()), clock)

    with suppress(errors.StoreError):
        await port.settle(conversation, decide)


async def too_late(
    port: StorePort, at: Address, clock: TimeOfDay = SYSTEM
) -> errors.AlreadyAnswered | errors.NotOpen:
    """Return the error for an answer to a question that is not open. The question may belong to any
    turn of the conversation.
    """
    try:
        events = (await port.read(at.conversation)).events
    except errors.StoreError:
        return no_question(str(at))
    await record_expiry(port, at.conversation, clock)
    return why_closed(events, at, trusted(clock).now(events) or "")


class _Decision:
    """Computes the events to record, given the last turn.

    Returns no events while earlier answers are still queued.
    """

    def __init__(
        self, at: Address, submission: IncomingAnswer, clock: TimeOfDay, admission: Authorizer
    ) -> None:
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
        """Call the observers with the recorded events."""
        for observer in OBSERVERS:
            observer.answered(self._at.conversation, self._turn, self._recorded)

    @property
    def tally(self) -> str:
        """The count of approvals, such as `1 of 2`; empty if the answer is not a vote."""
        return _tally((*self._turn, *self._recorded), self._at)

    @property
    def is_proposal(self) -> bool:
        """Whether an edit was recorded that is not decided yet."""
        return _is_proposal((*self._turn, *self._recorded), self._at, self._submission)

    def checked(self, turn: LastTurn, limits: Limits) -> QueuedAnswer:
        """Check that the answer is valid and can be recorded; return it for the answer queue."""
        batch = self._batch(turn)
        first = next(
            (
                handed
                for handed in turn.handed
                if handed.event_id == self._at.event_id and not handed.name
            ),
            None,
        )
        if first:
            raise answered_before(self._at, first.by, first.at)
        encode_batch(stamped(batch, self._clock), limits)
        at, given = stamp(self._clock), self._submission
        if isinstance(given, SubmittedAnswer):
            vote = batch[0] if isinstance(batch[0], ev.Vote) else None
            name = _name_of(batch[0]) if isinstance(batch[0], ev.Vote | ev.Proposal) else ""
            if vote and vote.answer and vote.arguments is UNSET and not given.digest:
                given = replace(
                    given, digest=vote.sha256
                )  # the vote is void if an edit is recorded before it
            handed = QueuedAnswer(event_id=self._at.event_id, at=at, submission=given, name=name)
        else:
            handed = QueuedAnswer(
                event_id=self._at.event_id, at=at, note=given, name=_name_of(given)
            )
        if handed.name and any(other.key == handed.key for other in turn.handed):
            raise errors.NotAllowed(
                "The process that runs the turn has already received this, and will record it.",
                id=str(self._at),
            )
        return handed

    def _batch(self, turn: LastTurn) -> Sequence[ev.Event]:
        if turn.is_for_people:
            check_that_a_person_answers(asker_of(turn.events))
        check_that_it_lasts(turn.events, self._at, trusted(self._clock).now(turn.events))
        people = self._admission.people_of(turn.events)
        if not isinstance(self._submission, SubmittedAnswer):
            return note_batch(turn.events, self._at, self._submission, event_ids(), people)
        check_no_secret(turn.events, self._at.conversation, self._at.event_id, self._submission)
        self._submission = self._by_name(turn, self._submission, people)
        return answer_batch(
            turn.events, self._at.conversation, self._at.event_id, self._submission, people
        )

    def _by_name(
        self, turn: LastTurn, submission: SubmittedAnswer, people: Directory | None
    ) -> SubmittedAnswer:
        """Replace the login in the submission with the person's name, because the process that
        records the answer may not have the configuration.
        """
        if people is None or not submission.user:
            return submission
        who = poll_in(turn.events, self._at, people).named(submission.by)
        return replace(submission, user=who.user, login=who.login)


def _name_of(note: ev.Event) -> str:
    """Return the name of a vote or a note on its request.

    Votes or notes that exclude each other have the same name.
    """
    match note:
        case ev.Vote(withdrawn=False, answered_by=who):
            person = (
                ""
                if who is None
                else "the command line"
                if who.via in COMMAND_LINE
                else name_key(who.user or "")
            )
            return f"vote-{hashlib.sha256(person.encode()).hexdigest()[:16]}"
        case ev.Reminded(number=number) | ev.Escalated(number=number):
            return f"{note.type}-{number}"
        case ev.Notified(error=None, about=about, number=number) if about == "asked" or number:
            return f"notified-{about}-{number}"
        case _:
            return f"{note.type}-{os.urandom(8).hex()}"


def check_that_it_lasts(turn: Sequence[ev.Event], at: Address, now: str | None) -> None:
    """Raise an error if the asking agent's dialog has ended or the deadline of the question has
    passed, even if that is not recorded yet.

    If `now` is None, nothing is checked.

    Raises:
        NotOpen: The dialog has ended.
        DeadlinePassed: The deadline has passed.
    """
    asker = asker_of(turn)
    if now is None:
        return
    if asker and asker.has_ended(now):
        raise why_closed(turn, at)
    if (deadline := TurnView.last(turn).deadlines.get(at.event_id)) and deadline <= now:
        raise past_deadline(at, deadline)


def check_that_a_person_answers(asker: AskingAgent | None) -> None:
    """Refuse answers from a process that a tool or an agent started, except from the hook that
    reports the answer of an agent's own dialog.
    """
    if asker and asker.process and asker.process.started and asker.process == mark(os.getpid()):
        return
    require_human("answer questions")
    refuse_asking_agent(asker)
