"""Answer the questions of a stored turn one at a time. Each reply is durable before the next
question is shown.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, assert_never

from msgspec.structs import replace

from midturn.clock import SYSTEM, SYSTEM_TIME, now, pause
from midturn.errors import AnswerError, Problem
from midturn.events.open_question import Address, OpenQuestion
from midturn.events.prompt import Prompt
from midturn.events.types import AnsweredBy, Event
from midturn.question.reply import (
    Answered,
    Deferred,
    Edited,
    EndedTurn,
    Replied,
    Reply,
    Submitted,
    Unavailable,
    WentBack,
)
from midturn.stores.answer_service import check_that_it_lasts
from midturn.stores.batch import event_ids, stamped
from midturn.stores.ending import check_ending
from midturn.stores.nested_conversations import end_family
from midturn.stores.port import LastTurn, LockedBy
from midturn.stores.store import ConversationStore
from midturn.turn.pending import pending
from midturn.turn.view import went_on
from midturn.turn.visit import Visit

# seconds between checks whether a queued reply was recorded by the process that holds the lock
_POLL_INTERVAL = 0.05


class StoredVisit:
    """Answers an open question of a stored conversation, and the remaining questions of its form.

    The conversation is locked only while a reply is appended. If another process has written events
    since the last reply, the session replays these events first. If another process holds the lock,
    the session queues one reply at a time for that process, and continues with the next question of
    that process.

    Args:
        store: Store that contains the conversation.
        question: The open question.
        turn: Events of the last turn of the conversation.
        who: The person who answers, and the interface used. Recorded with each reply.

    Raises:
        NotOpen: The question is not open.
        AlreadyAnswered: The question was answered before.
        PersonNeeded: A tool started this process, and the store belongs to a workspace or to the
            user.
    """

    def __init__(
        self,
        store: ConversationStore,
        question: OpenQuestion,
        turn: Sequence[Event],
        who: AnsweredBy,
    ) -> None:
        store.require_person()
        self._store = store
        self._question = question
        self._conversation = question.conversation
        self._who = who
        self._visit = Visit(
            turn,
            question.request.event_id,
            event_ids(),
            question.conversation,
            store.admission.people_of(turn),
        )
        self._is_over = False
        self._turn = turn
        self._seen = turn[-1].event_id

    def prompt(self) -> Prompt | None:
        """Return the prompt to show next, or None when the form is complete."""
        prompt = None if self._is_over else self._visit.prompt()
        asked = next(
            (event for event in self._turn if prompt and event.event_id == prompt.event), None
        )
        return prompt and prompt.timed(asked.timestamp if asked else "", now)

    async def take(self, reply: Reply) -> None:
        """Record a reply.

        Raises:
            AnswerError: The reply is invalid. Show the same prompt again.
            NotAllowed: This person may not answer the question, or may not end the turn alone.
            NotOpen: The turn has advanced to another question.
            AlreadyAnswered: Another person answered the question, for example at the terminal of
                the process that holds the lock.
            StoreError: The reply cannot be written.
        """
        await self._store.ensure_drained(self._conversation)
        if isinstance(reply, EndedTurn):
            await check_ending(
                self._store.port, self._store.admission, self._conversation, self._who
            )
        at = Address(self._conversation, self._question.request.event_id)
        prompt = self._visit.prompt()
        digest = (
            prompt.digest if prompt else ""
        )  # fingerprint of the prompt that the person saw, because the prompt may have changed
        taken: list[Event] = []

        def decide(turn: LastTurn) -> Sequence[Event]:
            if taken:
                raise went_on(turn.events, at)
            check_that_it_lasts(turn.events, at, SYSTEM_TIME.now(turn.events))
            if turn.events[-1].event_id != self._seen:
                self._visit.catch_up(turn.events)
            taken.extend(stamped(self._visit.take(reply, self._who, digest), SYSTEM))
            self._turn = turn.events
            return taken

        if isinstance(await self._store.port.settle(self._conversation, decide), LockedBy):
            await self._queue_reply(reply, digest)
            return
        self._seen = taken[-1].event_id
        if isinstance(reply, EndedTurn):
            await end_family(self._store.port, SYSTEM, self._turn)

    async def _queue_reply(self, reply: Reply, digest: str) -> None:
        """Queue a reply for the process that holds the lock, wait until it is recorded, and load
        the next question.
        """
        how = _answer_arguments(reply, self._question.kind)
        await self._store.answer(
            self._question.id, via=self._who.via or "api", user=self._who.user, digest=digest, **how
        )
        last = await self._store.port.look(self._conversation)
        while isinstance(last, LockedBy) and any(
            one.event_id == self._question.request.event_id for one in last.turn.handed
        ):
            await pause(_POLL_INTERVAL)
            last = await self._store.port.look(self._conversation)
        asked = _asked_next(last.turn.events, self._question)
        if asked is None:
            self._is_over = True
            return
        self._question = asked
        people = self._store.admission.people_of(last.turn.events)
        self._visit = Visit(
            last.turn.events, asked.request.event_id, event_ids(), self._conversation, people
        )
        self._seen = last.turn.events[-1].event_id


def _asked_next(turn: Sequence[Event], answered: OpenQuestion) -> OpenQuestion | None:
    """Return the open question that follows in the same form, or the review of the form.

    Return None if the form is complete, or if the question is not part of a form.
    """
    if answered.form is None:
        return None
    asked = [
        question
        for question in pending(turn, answered.conversation)
        if question.request.call == answered.request.call
    ]
    asked = [
        question for question in asked if question.request.event_id != answered.request.event_id
    ]  # a question that needs more votes is still open
    same = (
        question
        for question in asked
        if question.kind == "review" or question.form == answered.form
    )
    return next((replace(question, form=answered.form) for question in same), None)


def _answer_arguments(reply: Reply, kind: str) -> dict[str, Any]:
    """Return a reply as keyword arguments of `store.answer`."""
    match reply:
        case Answered(value, reason=reason, remember=remember, scope=scope, rule=rule):
            how = {"value": value} if kind == "tool" else {"approve": value is True}
            return {**how, "reason": reason, "remember": remember, "scope": scope, "rule": rule}
        case Edited(value):
            return {"content" if kind == "deliver" else "arguments": value}
        case Replied(text):
            return {"reply": text or ""}
        case WentBack():
            return {"back": True}
        case EndedTurn():
            return {"cancel": True}
        case Submitted():
            return {"approve": True}
        case Deferred():
            raise AnswerError(
                [Problem("", "The question was left open, so there is nothing to record.")]
            )
        case Unavailable():
            raise AnswerError([Problem("", "No one was there to answer.")])
        case _ as other:
            assert_never(other)
