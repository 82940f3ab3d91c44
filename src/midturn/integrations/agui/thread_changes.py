"""Streams the changes of a thread's questions, including questions from agents in its tools."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import aclosing, suppress
from typing import Final

from midturn.errors import StoreError
from midturn.events.types import Child
from midturn.stores.nested_conversations import open_family
from midturn.stores.store import ConversationStore
from midturn.stores.watching import StoreChange

_NESTED_SECONDS: Final = 2.0  # maximum wait for the ends of nested questions


async def thread_changes(
    store: ConversationStore, conversation: str
) -> AsyncGenerator[StoreChange]:
    """Yield the changes of a thread's questions, starting with the open ones, until the store
    fails.

    Args:
        store: The store.
        conversation: The conversation of the thread. Its nested conversations are followed as well.
    """
    watch = _FamilyWatch(store, conversation)
    try:
        await watch.begin()
        while (change := await watch.changes.get()) is not None:
            yield change
    finally:
        await watch.stop()


class _FamilyWatch:
    """Watches a conversation and its nested conversations, each in a task."""

    def __init__(self, store: ConversationStore, root: str) -> None:
        self.changes: asyncio.Queue[StoreChange | None] = asyncio.Queue()
        self._store = store
        self._root = root
        self._watching: dict[str, asyncio.Task[None]] = {}
        self._open_nested: set[str] = set()
        self._nested_closed = asyncio.Event()

    async def begin(self) -> None:
        for conversation in await open_family(self._store.port, self._root):
            self._watch(conversation)

    async def stop(self) -> None:
        for task in self._watching.values():
            task.cancel()
        await asyncio.gather(*self._watching.values(), return_exceptions=True)

    def _watch(self, conversation: str) -> None:
        if conversation not in self._watching:
            self._watching[conversation] = asyncio.create_task(self._follow(conversation))

    async def _follow(self, conversation: str) -> None:
        with suppress(StoreError):  # the front end reconnects and then gets the error
            async with aclosing(self._store.watch(conversation, events=True)) as changes:
                async for change in changes:
                    if change.conversation == conversation:  # nested ones have other tasks
                        await self._take(change)
        if conversation == self._root:
            self.changes.put_nowait(None)

    async def _take(self, change: StoreChange) -> None:
        if isinstance(change.event, Child):
            self._watch(change.event.conversation)
        if change.event is not None:
            return
        if change.conversation != self._root:
            self._note_nested(change)
        elif change.kind == "turn_ended":
            await self._wait_for_nested()
        if change.conversation == self._root or change.kind != "turn_ended":
            self.changes.put_nowait(change)

    def _note_nested(self, change: StoreChange) -> None:
        if change.question is not None:
            self._open_nested.add(change.id)
        else:
            self._open_nested.discard(change.id)
            self._nested_closed.set()

    async def _wait_for_nested(self) -> None:
        """Wait until the ends of nested questions are reported, so that the end of the turn is the
        last change.
        """
        with suppress(TimeoutError):
            async with asyncio.timeout(_NESTED_SECONDS):
                while self._open_nested:
                    self._nested_closed.clear()
                    await self._nested_closed.wait()
