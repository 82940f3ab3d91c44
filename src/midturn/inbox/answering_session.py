"""A person who answers in an open turn, run by a process or not: each reply is durable before the next question is shown."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, assert_never

from msgspec.structs import replace

from midturn.clock import SYSTEM, SYSTEM_TIME, now, pause
from midturn.errors import AnswerError, Problem
from midturn.events.open_question import Address, OpenQuestion
from midturn.events.prompt import Prompt
from midturn.events.types import AnsweredBy, Event
from midturn.question.reply import Answered, Deferred, Edited, EndedTurn, Replied, Reply, Submitted, Unavailable, WentBack
from midturn.stores.answer_service import check_that_it_lasts
from midturn.stores.batch import event_ids, stamped
from midturn.stores.ending import check_ending
from midturn.stores.nested_conversations import end_family
from midturn.stores.port import HeldBy, LastTurn
from midturn.stores.store import ConversationStore
from midturn.turn.pending import pending
from midturn.turn.view import went_on
from midturn.turn.visit import Visit

_STEP = 0.05  # seconds between two looks at whether a reply that was handed over is on record


class StoredVisit:
    """One visit of a stored conversation, from an open question to the end of its form.

    The conversation is held for one append at a time. Where another process has written meanwhile, the visit catches up by replaying. To a
    process that holds the conversation, one reply at a time is handed over, and the visit goes on with what that process asks next.

    Args:
        store: Where the conversation is.
        question: The open question.
        turn: The last turn of its conversation.
        who: Who answers, and how; recorded.

    Raises:
        NotOpen: No such question waits.
        AlreadyAnswered: Another answer came first.
        PersonNeeded: The store is a workspace's or the user's own, and this process was started by a tool.
    """

    def __init__(self, store: ConversationStore, question: OpenQuestion, turn: Sequence[Event], who: AnsweredBy) -> None:
        store.require_person()
        self._store = store
        self._question = question
        self._conversation = question.conversation
        self._who = who
        self._visit = Visit(turn, question.request.event_id, event_ids(), question.conversation, store.admission.people_of(turn))
        self._is_over = False
        self._turn = turn
        self._seen = turn[-1].event_id

    def prompt(self) -> Prompt | None:
        """Return what to show next; None when the form is done."""
        prompt = None if self._is_over else self._visit.prompt()
        asked = next((event for event in self._turn if prompt and event.event_id == prompt.event), None)
        return prompt and prompt.timed(asked.timestamp if asked else "", now)

    async def take(self, reply: Reply) -> None:
        """Record what the person did.

        Raises:
            AnswerError: It does not fit; the same prompt is to be shown again.
            NotAllowed: It is not for this person to answer, or not theirs alone to end.
            NotOpen: The turn has gone on meanwhile, and waits for something else.
            AlreadyAnswered: It was answered meanwhile, perhaps at the terminal of the process that holds the conversation.
            StoreError: It cannot be written.
        """
        await self._store.taken_over(self._conversation)
        if isinstance(reply, EndedTurn):
            await check_ending(self._store.port, self._store.admission, self._conversation, self._who)
        at = Address(self._conversation, self._question.request.event_id)
        prompt = self._visit.prompt()
        digest = prompt.digest if prompt else ""  # of what was shown, which may be another thing by now
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

        if isinstance(await self._store.port.settle(self._conversation, decide), HeldBy):
            await self._hand_over(reply, digest)
            return
        self._seen = taken[-1].event_id
        if isinstance(reply, EndedTurn):
            await end_family(self._store.port, SYSTEM, self._turn)

    async def _hand_over(self, reply: Reply, digest: str) -> None:
        """Give a reply to the process that holds the conversation, and see what it asks next."""
        how = _as_given(reply, self._question.kind)
        await self._store.answer(self._question.id, via=self._who.via or "api", user=self._who.user, digest=digest, **how)
        last = await self._store.port.look(self._conversation)
        while isinstance(last, HeldBy) and any(one.event_id == self._question.request.event_id for one in last.turn.handed):
            await pause(_STEP)
            last = await self._store.port.look(self._conversation)
        asked = _asked_next(last.turn.events, self._question)
        if asked is None:
            self._is_over = True
            return
        self._question = asked
        people = self._store.admission.people_of(last.turn.events)
        self._visit = Visit(last.turn.events, asked.request.event_id, event_ids(), self._conversation, people)
        self._seen = last.turn.events[-1].event_id


def _asked_next(turn: Sequence[Event], answered: OpenQuestion) -> OpenQuestion | None:
    """Return the question of the same form that waits now, or its review; None where the form is done."""
    if answered.form is None:
        return None
    asked = [question for question in pending(turn, answered.conversation) if question.request.call == answered.request.call]
    asked = [question for question in asked if question.request.event_id != answered.request.event_id]  # a yes of one of several people
    same = (question for question in asked if question.kind == "review" or question.form == answered.form)
    return next((replace(question, form=answered.form) for question in same), None)


def _as_given(reply: Reply, kind: str) -> dict[str, Any]:
    """Return what `store.answer` takes for a reply at a prompt."""
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
            raise AnswerError([Problem("", "The question was left open, so there is nothing to record.")])
        case Unavailable():
            raise AnswerError([Problem("", "No one was there to answer.")])
        case _ as other:
            assert_never(other)
