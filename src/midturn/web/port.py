"""The store as the page uses it. Files are read in threads, so that one slow disk does not stop every page."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

import msgspec

from midturn.core.events import Event
from midturn.core.stream import OpenQuestion
from midturn.store.answering import Receipt
from midturn.store.conversation import Conversation
from midturn.store.file_conversations import FileConversations
from midturn.store.store import ConversationStore


class Port:
    """A `ConversationStore`, awaited."""

    def __init__(self, store: ConversationStore) -> None:
        self.store = store
        self._is_on_disk = isinstance(store.port, FileConversations)

    async def pending(self) -> list[OpenQuestion]:
        """Return the open questions of all conversations."""
        return await (asyncio.to_thread(self.store.pending_sync) if self._is_on_disk else self.store.pending())

    async def ready(self) -> list[str]:
        """Return the conversations whose turn can go on."""
        return await (asyncio.to_thread(self.store.ready_sync) if self._is_on_disk else self.store.ready())

    async def ids(self) -> list[str]:
        """Return the ids of all conversations, oldest first."""
        return await (asyncio.to_thread(self.store.ids_sync) if self._is_on_disk else self.store.ids())

    async def read(self, id: str) -> Conversation:
        """Read a conversation."""
        return await (asyncio.to_thread(self.store.read_sync, id) if self._is_on_disk else self.store.read(id))

    async def lines(self, id: str) -> list[bytes]:
        """Return the lines of a conversation as they are; where a store keeps none, as they would be written."""
        store = self.store
        if isinstance(store, FileStore):
            return await self._run(lambda: store.lines(id))
        return [msgspec.json.encode(event.to_json()) for event in (await self.read(id)).events]

    async def last_turn(self, id: str) -> Sequence[Event]:
        """Return the events of the last turn of a conversation."""
        turns = (await self.read(id)).turns
        return turns[-1].events if turns else ()

    async def answer(self, id: str, **how: Any) -> Receipt:
        """Answer an open question; see `ConversationStore.answer`."""
        return await self.store.answer(id, **how)
