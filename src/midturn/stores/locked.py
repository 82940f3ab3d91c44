"""A conversation that is held through a `ConversationStore`: what others hand over meanwhile is looked at, and never left behind."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Sequence
from types import TracebackType
from typing import Self

from midturn.clock import TimeOfDay
from midturn.errors import MidturnError, StoreError
from midturn.events.types import Event
from midturn.events.window import last_turn
from midturn.stores.authorization import Admission, AdmittedFeed
from midturn.stores.batch import stamped
from midturn.stores.decisions import handed_batch
from midturn.stores.port import PortFeed, PortJournal

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
        self._taken_over = 0
        self.answers: AdmittedFeed | PortFeed = AdmittedFeed(journal, admission) if admission else journal.answers
        self.conversation: str = journal.conversation
        """The conversation's id."""
        self.events: Sequence[Event] = journal.events
        """Everything recorded so far, oldest first."""
        self.append = journal.append
        """Writes a batch at once; when it returns, the batch is durable. Raises `StoreLocked` where another process has taken over."""

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        """Record what was handed over meanwhile, and release the conversation."""
        try:
            if error is None or isinstance(error, Exception):  # else the process is in a hurry: the next holder takes over
                await self.take_over()
                is_left_to_others = len(self.events) == self._taken_over  # nothing has gone on with what was handed over
                if error is None and (is_left_to_others or await self._is_answered_inside(self.events)):
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
        for handed in handed_over:
            window = last_turn(self.events)
            try:
                batch = handed_batch(window.events if window else (), self.conversation, handed)
            except StoreError:
                raise
            except MidturnError as error:
                _LOG.warning("an answer to %r is dropped: %r", handed.event_id, str(error))
                await self.answers.refuse(handed.key)
            else:
                await self.append(stamped(batch, self._clock))
                self._taken_over = len(self.events)
