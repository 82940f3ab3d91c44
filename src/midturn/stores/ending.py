"""Ends an open turn from outside its run, unless a question in it is assigned to other people."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence

from midturn.clock import TimeOfDay, pause, stamp
from midturn.errors import Busy, NotAllowed, NotOpen, StoreError
from midturn.events.types import AnsweredBy, Event
from midturn.events.window import open_turn
from midturn.stores.authorization import Authorizer
from midturn.stores.batch import event_ids, stamped
from midturn.stores.nested_conversations import end_family, open_family, root_of
from midturn.stores.port import LastTurn, LockedBy, StorePort
from midturn.stores.queued_answer import QueuedAnswer, SubmittedAnswer
from midturn.turn.ending import ended_by_user, ending_batch
from midturn.turn.record import TurnRecord
from midturn.turn.view import TurnView, describe
from midturn.turn.votes import OWNER, ending_barred

_MAX_TRIES = 20
_POLL_INTERVAL = 0.05
"""Seconds between two checks whether the process that runs the turn has ended it."""
_MAX_POLLS = 40


async def why_not_to_end(
    port: StorePort, admission: Authorizer, conversation: str, who: AnsweredBy
) -> str:
    """Return why a user may not end the open turn of a conversation, including its outer and nested
    turns. Return an empty string if the user may end them.
    """
    for each in await open_family(port, await root_of(port, conversation)):
        try:
            turn = (await port.look(each)).turn.events
        except StoreError:  # the conversation was removed
            continue
        if why := barred_in(turn, admission, who):
            return why
    return ""


def barred_in(turn: Sequence[Event], admission: Authorizer, who: AnsweredBy) -> str:
    """Return why a user may not end the turn with these events. Return an empty string if the user
    may end the turn, or if it has ended.
    """
    view = TurnView.last(turn)
    return (
        ending_barred((view.record,), who, admission.people_of(view.events)) if view.is_open else ""
    )


async def check_ending(
    port: StorePort, admission: Authorizer, conversation: str, who: AnsweredBy
) -> None:
    """Check that ending the turn does not decide a question that is assigned to other people.

    Raises:
        NotAllowed: This turn, or a turn that ends together with it, has a question that is assigned
            to other people. The message names the turn and the question.
    """
    if why := await why_not_to_end(port, admission, conversation, who):
        raise NotAllowed(why, user=who.user)


def as_owner(port: StorePort, who: AnsweredBy) -> AnsweredBy:
    """Return the operating-system user who owns the store, with the name that the user gave.

    Raises:
        NotAllowed: The store is in a database, or belongs to another user.
    """
    if not port.is_own:
        raise NotAllowed(
            "Only the owner of a local store can end a turn that waits for others, and this store"
            " does not belong to your user."
        )
    return AnsweredBy(OWNER, via=who.via, user=who.user)


class TurnEnder:
    """Ends the open turn of a conversation, whether or not a process runs it."""

    def __init__(
        self,
        port: StorePort,
        admission: Authorizer,
        clock: TimeOfDay,
        conversation: str,
        who: AnsweredBy,
        check: Callable[[LastTurn], None],
    ) -> None:
        self._port = port
        self._admission = admission
        self._clock = clock
        self._conversation = conversation
        self._who = who
        self._check = check
        self._is_recorded = False

    async def end(self, take_over: Callable[[str], Awaitable[None]]) -> bool:
        """End the turn. If another process is running the turn, that process ends it: return True.

        Raises:
            NotOpen: No turn is open.
            NotAllowed: Other people have to decide a question of the turn.
            Busy: Other processes kept writing the conversation.
            StoreError: The conversation cannot be read or written.
        """
        await check_ending(self._port, self._admission, self._conversation, self._who)
        for _ in range(_MAX_TRIES):
            outcome = await self._port.settle(self._conversation, self._decide)
            if isinstance(outcome, LockedBy):
                handed = self._handed(outcome.turn)
                if await self._port.queue_answer(outcome, handed):
                    await self._acknowledged(handed, take_over)
                    return True
            elif self._is_recorded:
                await end_family(self._port, self._clock, outcome.turn.events)
                return False
            else:  # answers that were queued for a process that has ended are recorded first
                await take_over(self._conversation)
        raise Busy(
            f"Other processes keep writing conversation {self._conversation}. Try again in a"
            " moment."
        )

    def _decide(self, turn: LastTurn) -> Sequence[Event]:
        record = self._open_record(turn)
        self._is_recorded = not turn.handed
        if turn.handed:
            return ()
        return stamped(
            ending_batch(turn.events, ended_by_user(record.asking_calls, self._who), event_ids()),
            self._clock,
        )

    def _open_record(self, turn: LastTurn) -> TurnRecord:
        self._check(turn)
        view = TurnView.last(turn.events)
        if not view.is_open:
            by = describe(view.record.ended.ended_by) if view.record.ended else ""
            ended = f": it was ended by {by}" if by else ""
            raise NotOpen(f"Conversation {self._conversation} has no open turn{ended}.")
        if why := barred_in(turn.events, self._admission, self._who):
            raise NotAllowed(why, user=self._who.user)
        return view.record

    def _handed(self, turn: LastTurn) -> QueuedAnswer:
        start = self._open_record(turn).start_id
        given = SubmittedAnswer(
            cancel=True,
            user=self._who.user,
            via=self._who.via or "api",
            login=self._who.login,
            answered_by=self._who.by,
        )
        return QueuedAnswer(event_id=start, at=stamp(self._clock), submission=given)

    async def _acknowledged(
        self, mine: QueuedAnswer, take_over: Callable[[str], Awaitable[None]]
    ) -> None:
        """Wait briefly for the process with the lock to end the turn.

        If that process has ended, record its queued answers.

        Raises:
            NotAllowed: The process did not end the turn.
        """
        for _ in range(_MAX_POLLS):
            last = await self._port.look(self._conversation)
            if open_turn(last.turn.events) is None:
                return
            if not any(each.key == mine.key for each in last.turn.handed):
                raise NotAllowed(
                    "The process that runs the turn did not end it, because one of its questions"
                    " is now assigned to other people."
                )
            if not isinstance(last, LockedBy):
                await take_over(self._conversation)
            await pause(_POLL_INTERVAL)
