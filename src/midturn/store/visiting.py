"""A person who answers in an open turn that nobody runs now: each reply is durable before the next question is shown."""

from __future__ import annotations

from msgspec.structs import replace

from midturn.core.events import AnsweredBy
from midturn.core.prompt import Prompt
from midturn.core.reply import Reply
from midturn.core.turn.visit import Visit
from midturn.store.answering import Answerable
from midturn.store.batch import stamped
from midturn.store.ids import event_ids
from midturn.store.settling import take_over


class Visitor:
    """One visit of a stored conversation, from an open question to the end of its form.

    The conversation is held for one append at a time. Where somebody else has written meanwhile, the visit catches up by replaying.

    Args:
        store: Where the conversation is.
        conversation: Its id.
        event_id: The open question.
        via: How the person answers; it is recorded.

    Raises:
        NotOpen: No such question waits.
        AlreadyAnswered: Somebody answered it first.
    """

    def __init__(self, store: Answerable, conversation: str, event_id: str, via: str) -> None:
        self._store = store
        self._conversation = conversation
        self._who = AnsweredBy("user", via=via)
        window = store.last_turn(conversation)
        self._visit = Visit(window, event_id, event_ids())
        self._seen = window[-1].event_id

    def prompt(self) -> Prompt | None:
        """Return what to show next; None when the form is done."""
        prompt = self._visit.prompt()
        return None if prompt is None else replace(prompt, conversation=self._conversation)

    async def take(self, reply: Reply) -> None:
        """Record what the person did.

        Raises:
            AnswerError: It does not fit; the same prompt is to be shown again.
            NotOpen: Somebody else went on with the turn meanwhile, and it waits for something else.
            StoreError: The conversation is held by another process, or cannot be written.
        """
        with self._store.writing(self._conversation) as writer, self._store.answers(self._conversation) as answers:
            take_over(writer, answers)
            window = writer.last_turn()
            if window[-1].event_id != self._seen:
                self._visit.catch_up(window)
            batch = stamped(self._visit.take(reply, self._who))
            writer.append(batch)
            self._seen = batch[-1].event_id
