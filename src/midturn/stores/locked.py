"""A conversation locked for writing. Answers that other processes queue while the lock is held
are recorded before the lock is released.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Sequence
from types import TracebackType
from typing import Self

from midturn.clock import TimeOfDay
from midturn.errors import MidturnError, StoreError
from midturn.events.types import Event
from midturn.events.window import last_turn
from midturn.stores.authorization import AuthorizedAnswerQueue, Authorizer
from midturn.stores.batch import stamped
from midturn.stores.decisions import handed_batch
from midturn.stores.port import PortAnswerQueue, PortJournal

_LOG = logging.getLogger("midturn.store")


class LockedConversation:
    """The only writer of a conversation, until its `async with` block exits."""

    def __init__(
        self,
        journal: PortJournal,
        admission: Authorizer,
        clock: TimeOfDay,
        is_answered_inside: Callable[[Sequence[Event]], Awaitable[bool]],
    ) -> None:
        self._journal = journal
        self._is_answered_inside = is_answered_inside
        self._clock = clock
        self._event_count_after_drain = 0
        self.answers: AuthorizedAnswerQueue | PortAnswerQueue = (
            AuthorizedAnswerQueue(journal, admission) if admission else journal.answers
        )
        self.conversation: str = journal.conversation
        """The conversation's id."""
        self.events: Sequence[Event] = journal.events
        """Everything recorded so far, oldest first."""
        self.append = journal.append
        """Writes a batch atomically; when it returns, the batch is durable. Raises `StoreLocked` if
        another process took over the conversation.
        """

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Record the queued answers, and release the conversation."""
        try:
            if (
                error is None or isinstance(error, Exception)
            ):  # otherwise this process is ending, and the next process that opens the conversation records them
                await self.drain_answer_queue()
                has_no_new_events = (
                    len(self.events) == self._event_count_after_drain
                )  # no turn has continued since the queued answers were recorded
                if error is None and (
                    has_no_new_events or await self._is_answered_inside(self.events)
                ):
                    self._journal.mark_ready()
        except StoreError as refused:
            _LOG.warning(
                "cannot record the queued answers of conversation %s: %r",
                self.conversation,
                str(refused),
            )
        finally:
            await self._journal.__aexit__(kind, error, trace)

    async def drain_answer_queue(self) -> None:
        """Record the remaining queued answers. Answers to closed questions are dropped."""
        queued_answers = await self.answers.collect()
        if not queued_answers:
            return
        for handed in queued_answers:
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
                self._event_count_after_drain = len(self.events)
