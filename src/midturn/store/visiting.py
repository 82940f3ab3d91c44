"""A person who answers in an open turn that nobody runs now: each reply is durable before the next question is shown."""

from __future__ import annotations

from collections.abc import Sequence

from midturn.clock import SYSTEM
from midturn.core.events import AnsweredBy, Event
from midturn.core.moments import stamp
from midturn.core.prompt import Prompt
from midturn.core.reply import Reply
from midturn.core.stream import OpenQuestion
from midturn.core.turn.visit import Visit
from midturn.errors import NotOpen, StoreLocked
from midturn.store.batch import stamped
from midturn.store.ids import event_ids
from midturn.store.outside_answers import check_that_it_lasts
from midturn.store.port import HeldBy, LastTurn
from midturn.store.store import ConversationStore


class StoredVisit:
    """One visit of a stored conversation, from an open question to the end of its form.

    The conversation is held for one append at a time. Where somebody else has written meanwhile, the visit catches up by replaying.

    Args:
        store: Where the conversation is.
        question: The open question.
        turn: The last turn of its conversation.
        via: How the person answers; it is recorded.

    Raises:
        NotOpen: No such question waits.
        AlreadyAnswered: Somebody answered it first.
    """

    def __init__(self, store: ConversationStore, question: OpenQuestion, turn: Sequence[Event], via: str) -> None:
        self._store = store
        self._conversation = question.conversation
        self._who = AnsweredBy("user", via=via)
        self._visit = Visit(turn, question.request.event_id, event_ids(), question.conversation)
        self._seen = turn[-1].event_id

    def prompt(self) -> Prompt | None:
        """Return what to show next; None when the form is done."""
        return self._visit.prompt()

    async def take(self, reply: Reply) -> None:
        """Record what the person did.

        Raises:
            AnswerError: It does not fit; the same prompt is to be shown again.
            NotOpen: Somebody else went on with the turn meanwhile, and it waits for something else.
            StoreLocked: Somebody holds the conversation.
            StoreError: It cannot be written.
        """
        await self._store.taken_over(self._conversation)
        taken: list[Event] = []

        def decide(turn: LastTurn) -> Sequence[Event]:
            if taken:
                raise NotOpen("Somebody else went on with the turn meanwhile.")
            check_that_it_lasts(turn.events, stamp(SYSTEM))
            if turn.events[-1].event_id != self._seen:
                self._visit.catch_up(turn.events)
            taken.extend(stamped(self._visit.take(reply, self._who), SYSTEM))
            return taken

        held = await self._store.port.settle(self._conversation, decide)
        if isinstance(held, HeldBy):
            message = (
                f"The conversation {self._conversation} is being written by {held.holder or 'somebody else'}. Try again when it is done."
            )
            raise StoreLocked(message, held.holder, held.since)
        self._seen = taken[-1].event_id
