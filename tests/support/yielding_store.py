"""A store in memory whose journal yields to the event loop during each write, so that other
things happen meanwhile.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence

from midturn.events.types import Event
from midturn.question.json_value import DEFAULT_LIMITS
from midturn.stores.memory_conversations import (
    MemoryConversation,
    MemoryConversations,
    MemoryJournal,
)
from midturn.stores.store import ConversationStore

During = Callable[[int, MemoryJournal], Awaitable[None]]
"""Runs during a write, before anything of it is recorded. The number counts the writes of the
store, from 1.
"""


class YieldingJournal(MemoryJournal):
    """A journal whose writes take `rounds` iterations of the event loop before and after the
    events are recorded.
    """

    def __init__(self, held: MemoryConversation, port: YieldingConversations) -> None:
        super().__init__(held)
        self._port = port

    async def append(self, batch: Sequence[Event]) -> None:
        if not batch:
            await super().append(batch)
            return
        self._port.writes += 1
        number = self._port.writes
        await self._yield()
        if self._port.during is not None:
            await self._port.during(number, self)
            await self._yield()
        await super().append(batch)
        await self._yield()

    async def _yield(self) -> None:
        for _ in range(self._port.rounds):
            await asyncio.sleep(0)


class YieldingConversations(MemoryConversations):
    """The port of a `YieldingStore`."""

    needs_loop = True

    def __init__(self, rounds: int, during: During | None) -> None:
        super().__init__(DEFAULT_LIMITS)
        self.rounds = rounds
        self.during = during
        self.writes = 0

    async def open(self, id: str) -> MemoryJournal:
        held = self._get(id)
        held.hold()
        return YieldingJournal(held, self)


class YieldingStore(ConversationStore):
    """Conversations of one process. Each write of a turn yields to the event loop, and `during`
    runs in the middle of it.

    Args:
        rounds: Iterations of the event loop that other tasks get before and after each write.
        during: Runs during each write; None to only yield.
    """

    def __init__(self, rounds: int = 3, during: During | None = None) -> None:
        self.conversations = YieldingConversations(rounds, during)
        """The port, whose `writes` counts the writes so far."""
        super().__init__(self.conversations)
