"""A conversation that is held through a `ConversationStore`: what others hand over meanwhile is looked at, and never left behind."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Sequence
from types import TracebackType
from typing import Self

from midturn.core.events import Event
from midturn.core.moments import TimeOfDay
from midturn.core.stream import last_turn
from midturn.errors import MidturnError, StoreError
from midturn.store.admission import Admission, AdmittedAnswers
from midturn.store.batch import stamped
from midturn.store.port import PortFeed, PortJournal

_LOG = logging.getLogger("midturn.store")


class HeldConversation:
    """The one writer of a conversation, until its `async with` block is left. What its journal does well by itself is the journal's."""

    def __init__(
        self,
        journal: PortJournal,
        admission: Admission,
        clock: TimeOfDay,
        is_answered_inside: Callable[[Sequence[Event]], Awaitable[bool]],
    ) -> None:
        self._journal = journal
        self._is_answered_inside = is_answered_inside
        self._clock = clock
        self.answers: AdmittedAnswers | PortFeed = AdmittedAnswers(journal, admission) if admission else journal.answers
        self.conversation: str = journal.conversation
        """The conversation's id."""
        self.events: Sequence[Event] = journal.events
        """Everything recorded so far, oldest first."""
        self.append = journal.append
        """Writes a batch at once; when it returns, the batch is durable. Raises `StoreLocked` where somebody else has taken over."""

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        """Record what was handed over meanwhile, and release the conversation."""
        try:
            if error is None or isinstance(error, Exception):  # else somebody is in a hurry: whoever holds it next takes over
                await self.take_over()
                if error is None and await self._is_answered_inside(self.events):
                    self._journal.go_on_soon()
        except StoreError as refused:
            _LOG.warning("answers wait in conversation %s: %r", self.conversation, str(refused))
        finally:
            await self._journal.__aexit__(kind, error, trace)

    async def take_over(self) -> None:
        """Record what was handed over and not taken. What does not fit any more is dropped: its question was closed."""
        handed_over = await self.answers.collect()
        if not handed_over:
            return
        from midturn.store.decisions import answer_batch  # hardly ever was anything handed over

        for handed in handed_over:
            window = last_turn(self.events)
            try:
                batch = answer_batch(window.events if window else (), self.conversation, handed.event_id, handed.submission)
            except StoreError:
                raise
            except MidturnError as error:
                _LOG.warning("an answer to %r is dropped: %r", handed.event_id, str(error))
                await self.answers.refuse(handed.event_id)
            else:
                await self.append(stamped(batch, self._clock))
