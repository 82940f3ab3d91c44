"""The open questions of a store: what is the same on disk and in memory."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence
from contextlib import AbstractContextManager

from msgspec import UNSET, UnsetType

from midturn.core.asker import asker_of
from midturn.core.events import AnsweredBy, Approval, Event, InquiryAnswered, InquiryCancelled, InquiryRedacted
from midturn.core.json_value import Json
from midturn.core.stream import OpenQuestion, open_turn, pending
from midturn.store.answering import Receipt, answer
from midturn.store.handover import Answers
from midturn.store.processes import looked_at
from midturn.store.settling import TurnWriter
from midturn.store.submission import Submission


class Inbox(ABC):
    """Lists and answers the open questions of all conversations; looks at nothing but the last turn of each."""

    @abstractmethod
    def ids(self) -> list[str]:
        """Return the ids of all conversations, oldest first."""

    @abstractmethod
    def last_turn(self, id: str) -> Sequence[Event]:
        """Return the events of the last turn of a conversation, finished or not."""

    @abstractmethod
    def unfinished_turns(self) -> Iterable[tuple[str, Sequence[Event]]]:
        """Return the last turn of each conversation, by its id; one that says that it is over may be left out."""

    @abstractmethod
    def writing(self, id: str) -> AbstractContextManager[TurnWriter]:
        """Hold a conversation for one append, or raise `StoreLocked`."""

    @abstractmethod
    def answers(self, id: str) -> AbstractContextManager[Answers]:
        """Return what is handed over to the holder of a conversation."""

    @abstractmethod
    def is_held(self, id: str) -> bool:
        """Say whether somebody writes the conversation just now."""

    def pending(self) -> list[OpenQuestion]:
        """Return the open questions of all conversations, the oldest conversation first."""
        return [looked_at(question) for conversation, turn in self.unfinished_turns() for question in pending(turn, conversation)]

    def ready(self) -> list[str]:
        """Return the conversations whose turn can go on: an open question was answered, and nobody holds them.

        The calls of other agents are not among them: those go on where they were made.
        """
        waiting = [(conversation, turn) for conversation, turn in self.unfinished_turns() if open_turn(turn) and not asker_of(turn)]
        answered = [conversation for conversation, turn in waiting if self._was_answered(conversation, turn)]
        return [conversation for conversation in answered if not self.is_held(conversation)]

    async def answer(  # noqa: PLR0913 (a public signature)
        self,
        id: str,
        value: Json | UnsetType = UNSET,
        *,
        approve: bool | None = None,
        arguments: Json | UnsetType = UNSET,
        reply: str | None = None,
        cancel: bool = False,
        reason: str | None = None,
        user: str | None = None,
        via: str = "api",
    ) -> Receipt:
        """Answer an open question; see `ConversationStore.answer`."""
        submission = Submission(
            value=value, approve=approve, arguments=arguments, reply=reply, cancel=cancel, reason=reason, user=user, via=via
        )
        return await answer(self, id, submission)

    def _was_answered(self, id: str, turn: Sequence[Event]) -> bool:
        if any(map(_is_answer, _last_batch(turn))):
            return True
        with self.answers(id) as answers:
            return bool(answers.collect())


def _last_batch(turn: Sequence[Event]) -> Sequence[Event]:
    """Return the events at the end that were written together."""
    start = len(turn) - 1
    while start > 0 and turn[start - 1].more:
        start -= 1
    return turn[max(start, 0) :]


def _is_answer(event: Event) -> bool:
    """Say whether somebody answered here. Requests that were closed for other reasons move nothing."""
    match event:
        case InquiryAnswered(answered_by=by) | InquiryRedacted(answered_by=by):
            return _is_human(by)
        case Approval(state=state, answered_by=by):
            return state != "waiting" and _is_human(by)
        case InquiryCancelled(reason=reason):
            return reason in {"user", "reply"}
        case _:
            return False


def _is_human(by: AnsweredBy | None) -> bool:
    return by is None or by.by == "user"
