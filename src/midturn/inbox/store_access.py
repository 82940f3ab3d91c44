"""Asynchronous access to the store for the web page. Files are read in threads, so that a slow
disk does not block other requests.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Coroutine, Mapping, Sequence
from typing import Any, TypeVar

from midturn.events.open_question import OpenQuestion
from midturn.events.types import AnsweredBy, Event
from midturn.stores.answer_service import Receipt
from midturn.stores.conversation import Conversation
from midturn.stores.file_conversations import FileConversations
from midturn.stores.port import ChangeCursor, CommittedBatch, LockedBy, Which, titles
from midturn.stores.store import ConversationStore

_T = TypeVar("_T")


class Port:
    """A `ConversationStore` whose methods do not block the event loop on disk access."""

    def __init__(self, store: ConversationStore) -> None:
        self.store = store
        self._is_on_disk = isinstance(store.port, FileConversations)

    async def pending(
        self, conversation: str | None = None, *, after: str | None = None, limit: int | None = None
    ) -> list[OpenQuestion]:
        """Return the open questions of one conversation or of all conversations.

        The result can be limited to one page.
        """
        return await self._read(
            "pending", lambda: self.store.pending(conversation, after=after, limit=limit)
        )

    async def ready(self) -> list[str]:
        """Return the conversations whose turn is ready to continue."""
        return await self._read("ready", self.store.ready)

    async def open_turns(self, conversation: str | None = None) -> set[str]:
        """Return the conversations that have an open turn. With `conversation`, check only this
        conversation.
        """
        return await self._read("open_turns", lambda: self.store.open_turns(conversation))

    async def ids(self, which: Which = "all") -> list[str]:
        """Return the ids of conversations, oldest first."""
        return await self._read("ids", lambda: self.store.port.ids(which=which))

    async def newest(self, limit: int, before: str = "") -> list[str]:
        """Return the newest conversations that contain events, the newest first. See
        `StorePort.newest`.
        """
        return await self._read("newest", lambda: self.store.port.newest(limit, before))

    async def read(self, id: str) -> Conversation:
        """Read a conversation."""
        return await self._read("read", lambda: self.store.read(id))

    async def apart(self, work: Callable[[ConversationStore], _T]) -> _T:
        """Run `work` in a separate thread and return its result.

        `work` uses the synchronous methods of the store.
        """
        return await asyncio.to_thread(work, self.store)

    async def titles(self, ids: Collection[str]) -> dict[str, str]:
        """Return the titles of conversations. See `midturn.stores.port.titles`."""
        return await self._read("titles", lambda: titles(self.store.port, ids))

    async def last_turn(self, id: str) -> Sequence[Event]:
        """Return the events of the last turn of a conversation."""
        return (await self.look(id)).turn.events

    async def look(self, id: str) -> CommittedBatch | LockedBy:
        """Return the last turn of a conversation.

        The result is a `LockedBy` if another process holds the lock of the conversation.
        """
        return await self._read("look", lambda: self.store.port.look(id))

    async def wait_for_change(self, since: int) -> int:
        """Wait until the store may have changed since an earlier call, which returned `since`.

        See `ChangeFeed.wait_for_change`.
        """
        return await self.store.port.growing.wait_for_change(since)

    async def lengths(self, since: ChangeCursor | None = None) -> ChangeCursor:
        """Return the lengths of conversations. See `ChangeFeed.lengths`."""
        return await self._read("lengths", lambda: self.store.port.growing.lengths(since))

    async def events_within(self, id: str, length: int) -> int:
        """Return the number of events in the first `length` bytes or rows of a conversation.

        See `ChangeFeed.events_within`.
        """
        return await self._read(
            "events_within", lambda: self.store.port.growing.events_within(id, length)
        )

    async def kept(self, beginning: str) -> Mapping[str, bytes]:
        """Return the key-value entries whose key starts with `beginning`."""
        return await self._read("kept", lambda: self.store.port.beside.kept(beginning))

    async def keep(self, name: str, content: bytes | None) -> None:
        """Write a key-value entry, or delete it if `content` is None."""
        await self._read("keep", lambda: self.store.port.beside.keep(name, content))

    async def admit(self, question: OpenQuestion, user: str | None) -> None:
        """Raise `NotAllowed` if `user` may not answer the question.

        This is called before the input of the user is validated, so that errors reveal no details.
        """
        turn = () if question.whose is None else await self.last_turn(question.conversation)
        await self.store.admission.check_giver(
            question, AnsweredBy("user", via="web", user=user), turn
        )

    async def answer(self, id: str, **how: Any) -> Receipt:
        """Answer an open question. See `ConversationStore.answer`."""
        return await self.store.answer(id, **how)

    async def _read(self, name: str, work: Callable[[], Coroutine[Any, Any, _T]]) -> _T:
        return await (
            asyncio.to_thread(lambda: self.store.run_sync(name, work()))
            if self._is_on_disk
            else work()
        )
