"""One answer, from outside into a conversation: recorded at once, or handed over to whoever holds the conversation."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Sequence
from contextlib import AbstractContextManager, suppress
from typing import Protocol

from msgspec import Struct

from midturn.core.events import (
    Approval,
    Event,
    InquiryAnswered,
    InquiryCancelled,
    InquiryRedacted,
    InquiryRequest,
)
from midturn.core.reply import Answered
from midturn.core.stream import pending
from midturn.errors import AlreadyAnswered, AnswerError, NotOpen, Problem, StoreLocked
from midturn.store.clock import now
from midturn.store.handover import Answers, already_answered
from midturn.store.settling import TurnWriter, check, decision_about, record, take_over
from midturn.store.submission import HandedOver, Submission, describe

_LOG = logging.getLogger(__name__)
_STEP = 0.05  # seconds between two looks at what became of an answer
_STEPS = 20


class Answerable(Protocol):
    """What answering needs of a store."""

    def unfinished_turns(self) -> Iterable[tuple[str, Sequence[Event]]]:
        """Return the last turn of every conversation, by its id; one that says that it is over may be left out."""
        ...

    def last_turn(self, id: str) -> Sequence[Event]:
        """Return the last turn of a conversation, finished or not."""
        ...

    def ids(self) -> list[str]:
        """Return the ids of all conversations."""
        ...

    def writing(self, id: str) -> AbstractContextManager[TurnWriter]:
        """Hold a conversation for one append, or raise `StoreLocked`."""
        ...

    def answers(self, id: str) -> AbstractContextManager[Answers]:
        """Return what is handed over to the holder of a conversation."""
        ...


class Receipt(Struct, frozen=True):
    """What became of an answer: `event_id` is the whole id of its question. `held_by` is None where it is recorded.

    Otherwise it was handed over, durably, to the process `held_by` (0: unknown), which had not recorded it yet.
    """

    conversation: str
    event_id: str
    held_by: int | None = None


async def answer(store: Answerable, id: str, submission: Submission) -> Receipt:
    """Answer the open question whose `event_id` is, or alone begins with, `id`.

    Raises:
        AnswerError: The answer does not fit its question, or is one to a secret question.
        AlreadyAnswered: Somebody was first; `by` says who.
        NotOpen: There is no such question, or its turn is over.
        StoreError: The conversation cannot be read or written.
    """
    conversation, event_id = find(store, id)
    check(store.last_turn(conversation), conversation, event_id, submission)
    try:
        with store.writing(conversation) as writer, store.answers(conversation) as answers:
            take_over(writer, answers)
            record(writer, event_id, submission)
            return Receipt(conversation, event_id)
    except StoreLocked as held:
        return await _hand_over(store, Receipt(conversation, event_id, held.pid or 0), submission)


def find(store: Answerable, id: str) -> tuple[str, str]:
    """Return the conversation and the whole `event_id` of a question: of an open one, or else of one that was answered in a last turn.

    Raises:
        NotOpen: There is none, or several fit.
    """
    open_now = [(conversation, question.id) for conversation, turn in store.unfinished_turns() for question in pending(turn, conversation)]
    found = _fitting(open_now, id) or _fitting(_requests(store), id)
    if not found:
        raise NotOpen(f"There is no question {id!r}, or its turn is long over. `midturn inbox` lists the open ones.")
    if len(found) > 1:
        listed = ", ".join(f"{event_id} (conversation {conversation})" for conversation, event_id in found)
        raise NotOpen(f"{id!r} fits {len(found)} questions: {listed}. Give more of the id.")
    return found[0]


async def _hand_over(store: Answerable, receipt: Receipt, submission: Submission) -> Receipt:
    """Hand the answer to the holder, and wait a moment for it to be recorded, by the holder or, where that is gone meanwhile, by us."""
    from asyncio import sleep  # who lists questions need not pay for it

    conversation, event_id = receipt.conversation, receipt.event_id
    with store.answers(conversation) as answers:
        answers.put(HandedOver(event_id=event_id, at=now(), submission=submission))
        for _ in range(_STEPS):
            with suppress(StoreLocked), store.writing(conversation) as writer:
                take_over(writer, answers)
            was_taken = not answers.waits(event_id)
            turn = store.last_turn(conversation)
            if was_taken or decision_about(turn, event_id):
                try:
                    _confirm(turn, event_id, submission)
                except (AlreadyAnswered, NotOpen):
                    answers.remove(event_id)
                    raise
                return Receipt(conversation, event_id)
            await sleep(_STEP)
    return receipt


def _confirm(turn: Sequence[Event], event_id: str, submission: Submission) -> None:
    """Make sure that what was recorded is what was submitted: somebody else may have been faster, at the terminal of the holder."""
    if all(event.event_id != event_id for event in turn):
        return  # the turn is over, and another has begun
    match decision_about(turn, event_id):
        case None:
            message = "The process that holds the conversation did not accept the answer; the question is still open."
            raise AnswerError([Problem("", message)])
        case InquiryCancelled(reason=reason) if isinstance(submission.as_reply(), Answered):
            raise NotOpen(f"The question {event_id} was closed before the answer came ({reason}).")
        case InquiryAnswered(answered_by=by) | InquiryRedacted(answered_by=by) | Approval(answered_by=by) if by != submission.by:
            raise already_answered(event_id, describe(by))
        case _:
            pass


def _fitting(questions: Iterable[tuple[str, str]], id: str) -> list[tuple[str, str]]:
    fitting = [question for question in questions if id and question[1].startswith(id)]
    return [question for question in fitting if question[1] == id] or fitting


def _requests(store: Answerable) -> Iterable[tuple[str, str]]:
    for conversation in store.ids():
        for event in store.last_turn(conversation):
            if isinstance(event, InquiryRequest) or (isinstance(event, Approval) and event.state == "waiting"):
                yield conversation, event.event_id
