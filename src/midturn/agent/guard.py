"""`may_answer`: the program has the last word on who answers what."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, TypeAlias

from midturn.core.events import Event
from midturn.core.stream import OpenQuestion, pending
from midturn.errors import AnswerError, Problem
from midturn.store.answering import Receipt
from midturn.store.conversation import Conversation
from midturn.store.handover import Answers
from midturn.store.inbox import Inbox
from midturn.store.store import ConversationJournal, ConversationStore
from midturn.store.submission import HandedOver

MayAnswer: TypeAlias = Callable[[OpenQuestion, str | None], bool]
_LOG = logging.getLogger(__name__)


class GuardedStore:
    """A store in which an answer counts only if `may_answer(question, user)` says so; a question whose answer is refused stays open.

    What another program hands over while a conversation is held here is looked at, too; what it records itself is its own affair.
    """

    def __init__(self, store: ConversationStore, may_answer: MayAnswer) -> None:
        self._store = store
        self._may_answer = may_answer

    async def answer(self, id: str, *value: Any, user: str | None = None, **how: Any) -> Receipt:
        """Answer an open question, see `ConversationStore.answer`.

        Raises:
            AnswerError: It does not fit, or this user may not answer this question.
        """
        question = _fitting(self._store.pending(), id)
        if question and not self._may_answer(question, user):
            who = f"{user!r} may" if user else "Whoever gives no name may"
            raise AnswerError([Problem("", f"{who} not answer the question {question.id}; it stays open.")])
        return await self._store.answer(question.id if question else id, *value, user=user, **how)

    def create(self, first_words: str) -> ConversationJournal:
        """Begin a conversation, and hold it."""
        return GuardedJournal(self._store.create(first_words), self._may_answer)

    def open(self, id: str) -> ConversationJournal:
        """Hold a conversation; of what was handed over to a holder that died, only what is allowed is recorded."""
        if isinstance(self._store, Inbox):
            with self._store.answers(id) as answers:
                GuardedAnswers(answers, lambda: self.read(id).pending(), self._may_answer).collect()
        return GuardedJournal(self._store.open(id), self._may_answer)

    def read(self, id: str) -> Conversation:
        """Read a conversation."""
        return self._store.read(id)

    def ids(self) -> list[str]:
        """Return the ids of all conversations, oldest first."""
        return self._store.ids()

    def path(self, id: str) -> Path | None:
        """Return a conversation's directory."""
        return self._store.path(id)

    def remove(self, id: str) -> None:
        """Remove a conversation for good."""
        self._store.remove(id)

    def fork(self, id: str, turns: int | None = None) -> str:
        """Copy finished turns into a new conversation."""
        return self._store.fork(id, turns)

    def pending(self) -> list[OpenQuestion]:
        """Return the open questions of all conversations."""
        return self._store.pending()

    def ready(self) -> list[str]:
        """Return the conversations whose turn can go on."""
        return self._store.ready()


class GuardedJournal:
    """A journal that is shown only those answers that `may_answer` allows."""

    def __init__(self, journal: ConversationJournal, may_answer: MayAnswer) -> None:
        self._journal = journal
        self.answers: Answers = GuardedAnswers(journal.answers, lambda: pending(journal.events, journal.conversation), may_answer)

    @property
    def conversation(self) -> str:
        """The conversation's id."""
        return self._journal.conversation

    @property
    def events(self) -> Sequence[Event]:
        """Everything recorded so far."""
        return self._journal.events

    async def append(self, batch: Sequence[Event]) -> None:
        """Write a batch at once, durably."""
        await self._journal.append(batch)

    def close(self) -> None:
        """Release the conversation."""
        self._journal.close()


class GuardedAnswers:
    """What was handed over, without what may not count: that is removed, and whoever handed it over hears that it was not accepted."""

    def __init__(self, answers: Answers, waiting: Callable[[], Sequence[OpenQuestion]], may_answer: MayAnswer) -> None:
        self._answers = answers
        self._waiting = waiting
        self._may_answer = may_answer

    def put(self, answer: HandedOver) -> None:
        """Hand one over."""
        self._answers.put(answer)

    def collect(self) -> tuple[HandedOver, ...]:
        """Return those that may count, oldest first."""
        handed = self._answers.collect()
        questions = {question.id: question for question in self._waiting()} if handed else {}
        return tuple(answer for answer in handed if self._counts(answer, questions.get(answer.event_id)))

    def waits(self, event_id: str) -> bool:
        """Say whether there is one for this question."""
        return self._answers.waits(event_id)

    def remove(self, event_id: str) -> None:
        """Take one away."""
        self._answers.remove(event_id)

    def _counts(self, answer: HandedOver, question: OpenQuestion | None) -> bool:
        if question is None:
            return True  # whoever holds the conversation finds out that a closed question needs no answer
        try:
            if self._may_answer(question, answer.by.user):
                return True
            _LOG.warning("an answer to %r by %r is refused", answer.event_id, answer.by.user)
        except Exception:  # noqa: BLE001  it is the program's own code, and nobody who answers is here to see it fail
            _LOG.exception("an answer to %r by %r is refused: `may_answer` failed", answer.event_id, answer.by.user)
        self.remove(answer.event_id)
        return False


def _fitting(questions: Sequence[OpenQuestion], id: str) -> OpenQuestion | None:
    """Return the question that the store would find; what fits none or several is the store's to explain."""
    fitting = [question for question in questions if id and question.id.startswith(id)]
    exact = [question for question in fitting if question.id == id]
    found = exact or fitting
    return found[0] if len(found) == 1 else None
