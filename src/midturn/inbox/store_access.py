"""The store as the page uses it. Files are read in threads, so that a slow disk does not stop every page."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Coroutine, Mapping, Sequence
from typing import Any, TypeVar

from midturn.events.open_question import OpenQuestion
from midturn.events.types import AnsweredBy, Event
from midturn.stores.answer_service import Receipt
from midturn.stores.conversation import Conversation
from midturn.stores.file_conversations import FileConversations
from midturn.stores.port import Growth, HeldBy, Settled, Which, titles
from midturn.stores.store import ConversationStore

_T = TypeVar("_T")


class Port:
    """A `ConversationStore`, awaited without waiting for its disk."""

    def __init__(self, store: ConversationStore) -> None:
        self.store = store
        self._is_on_disk = isinstance(store.port, FileConversations)

    async def pending(self, conversation: str | None = None, *, after: str | None = None, limit: int | None = None) -> list[OpenQuestion]:
        """Return the open questions of one conversation, or of all, or a page of them."""
        return await self._read("pending", lambda: self.store.pending(conversation, after=after, limit=limit))

    async def ready(self) -> list[str]:
        """Return the conversations whose turn can go on."""
        return await self._read("ready", self.store.ready)

    async def open_turns(self, conversation: str | None = None) -> set[str]:
        """Return which conversations have an open turn, of all or of one."""
        return await self._read("open_turns", lambda: self.store.open_turns(conversation))

    async def ids(self, which: Which = "all") -> list[str]:
        """Return the ids of conversations, oldest first."""
        return await self._read("ids", lambda: self.store.port.ids(which=which))

    async def newest(self, limit: int, before: str = "") -> list[str]:
        """Return the newest conversations in which anything is recorded, the newest first; see `StorePort.newest`."""
        return await self._read("newest", lambda: self.store.port.newest(limit, before))

    async def read(self, id: str) -> Conversation:
        """Read a conversation."""
        return await self._read("read", lambda: self.store.read(id))

    async def apart(self, work: Callable[[ConversationStore], _T]) -> _T:
        """Return what comes of work in a thread of its own: it reads a conversation part by part, by the store's sync forms."""
        return await asyncio.to_thread(work, self.store)

    async def titles(self, ids: Collection[str]) -> dict[str, str]:
        """Return what conversations are called; see `midturn.stores.port.titles`."""
        return await self._read("titles", lambda: titles(self.store.port, ids))

    async def last_turn(self, id: str) -> Sequence[Event]:
        """Return the events of the last turn of a conversation."""
        return (await self.look(id)).turn.events

    async def look(self, id: str) -> Settled | HeldBy:
        """Return the last turn of a conversation, and whether a process holds it."""
        return await self._read("look", lambda: self.store.port.look(id))

    async def stirred(self, since: int) -> int:
        """Return when something may have happened since; see `Growing.stirred`."""
        return await self.store.port.growing.stirred(since)

    async def lengths(self, since: Growth | None = None) -> Growth:
        """Return how long conversations are; see `Growing.lengths`."""
        return await self._read("lengths", lambda: self.store.port.growing.lengths(since))

    async def events_within(self, id: str, length: int) -> int:
        """Return how many events a conversation of this length has; see `Growing.events_within`."""
        return await self._read("events_within", lambda: self.store.port.growing.events_within(id, length))

    async def kept(self, beginning: str) -> Mapping[str, bytes]:
        """Return what is kept beside the conversations under names with this beginning."""
        return await self._read("kept", lambda: self.store.port.beside.kept(beginning))

    async def keep(self, name: str, content: bytes | None) -> None:
        """Keep something beside the conversations; None: nothing any more."""
        await self._read("keep", lambda: self.store.port.beside.keep(name, content))

    async def admit(self, question: OpenQuestion, user: str | None) -> None:
        """Refuse a person who may not answer (`NotAllowed`), before anything is said about what they sent."""
        turn = () if question.whose is None else await self.last_turn(question.conversation)
        await self.store.admission.check_giver(question, AnsweredBy("user", via="web", user=user), turn)

    async def answer(self, id: str, **how: Any) -> Receipt:
        """Answer an open question; see `ConversationStore.answer`."""
        return await self.store.answer(id, **how)

    async def _read(self, name: str, work: Callable[[], Coroutine[Any, Any, _T]]) -> _T:
        return await (asyncio.to_thread(lambda: self.store.run_sync(name, work())) if self._is_on_disk else work())
