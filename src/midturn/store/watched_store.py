"""A store as `Watch` looks at it."""

from __future__ import annotations

from typing import Protocol

from midturn.core.stream import OpenQuestion
from midturn.store.conversation import Conversation
from midturn.store.port import Growth, StorePort


class Store(Protocol):
    """What a store does itself."""

    async def pending(self, conversation: str | None = None) -> list[OpenQuestion]:
        """Return the open questions of one conversation, or of all."""
        ...

    async def open_turns(self, conversation: str | None = None) -> set[str]:
        """Return which conversations have an open turn, of all or of one."""
        ...

    async def read(self, id: str) -> Conversation:
        """Read a conversation."""
        ...


class WatchedStore:
    """A store and its port as one."""

    def __init__(self, store: Store, port: StorePort) -> None:
        self._store = store
        self._port = port

    async def pending(self, conversation: str | None = None) -> list[OpenQuestion]:
        """Return the open questions of one conversation, or of all."""
        return await self._store.pending(conversation)

    async def open_turns(self, conversation: str | None = None) -> set[str]:
        """Return which conversations have an open turn, of all or of one."""
        return await self._store.open_turns(conversation)

    async def read(self, id: str) -> Conversation:
        """Read a conversation."""
        return await self._store.read(id)

    async def grown(self, since: Growth | None = None) -> Growth:
        """Return how long conversations are."""
        return await self._port.grown(since)

    async def events_within(self, id: str, length: int) -> int:
        """Return how many events a conversation of this length has."""
        return await self._port.events_within(id, length)

    async def stirred(self, since: int) -> int:
        """Return when something may have happened."""
        return await self._port.stirred(since)
