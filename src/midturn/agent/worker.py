"""A worker: goes on with turns that are due, several at once, for as long as the program likes."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from typing import Literal, Protocol

from midturn.clock import Outage
from midturn.errors import ConfigError, StoreError
from midturn.extras import install_command
from midturn.ports import show_claimed
from midturn.stores.locked import HeldConversation
from midturn.stores.store import ConversationStore

_LOG = logging.getLogger("midturn.worker")
_PAUSE = 1.0
"""Seconds between two tries to reach a store that is away."""


class Worker:
    """Claims conversations whose turn is due, and runs `segment` on each.

    No other process gets a conversation while it is here. A turn that fails is tried again after a pause that doubles; one that waits for a
    person is let go of, and is due again when it is answered.
    """

    def __init__(self, store: ConversationStore, segment: Callable[[HeldConversation], Awaitable[object]], at_once: int) -> None:
        """Work on `store`.

        Args:
            store: Where the conversations are.
            segment: Goes on with the open turn of one, until it is done or waits.
            at_once: How many turns run at the same time.
        """
        self._store = store
        self._segment = segment
        self._at_once = at_once
        self._running: set[asyncio.Task[None]] = set()
        self._away = Outage(_LOG, "turns can be claimed again")

    async def run(self) -> None:
        """Work until cancelled; then every turn is handed back at once, open, for another worker to go on with."""
        try:
            while True:
                await self._claim()
                await self._wait()
        finally:
            await self._hand_back()

    async def _claim(self) -> None:
        """Take what is due and free, as much as there is room for."""
        while room := self._at_once - len(self._running):
            try:
                claimed = await self._store.claim(room)
            except StoreError as error:
                self._away.noticed("nothing can be claimed for now: %s", error)
                await asyncio.sleep(_PAUSE)
                return
            self._away.over()
            for journal in claimed:
                show_claimed(journal.events)
                task = asyncio.create_task(self._go_on(journal), name=f"conversation {journal.conversation}")
                self._running.add(task)
                task.add_done_callback(self._running.discard)
            if not claimed:
                return

    async def _wait(self) -> None:
        """Wait until something may be due, or one of those that run is done."""
        waiting = {*self._running}
        if len(self._running) < self._at_once:
            waiting.add(asyncio.ensure_future(self._store.port.woken()))
        woken = waiting - self._running
        try:
            await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for look in woken:
                look.cancel()
        for look in woken:
            if look.done() and not look.cancelled() and (error := look.exception()):
                self._away.noticed("the store cannot be listened to for now: %s", error)
                await asyncio.sleep(_PAUSE)

    async def _go_on(self, journal: HeldConversation) -> None:
        try:
            async with journal:
                await self._segment(journal)
        except Exception as error:  # noqa: BLE001  one conversation's failure is no other's; the store says when it is tried again
            _LOG.warning("conversation %s will be tried again: %r", journal.conversation, error)

    async def _hand_back(self) -> None:
        for task in self._running:
            task.cancel()
        if self._running:
            await asyncio.wait(self._running)


class Working(Protocol):
    """Goes on with turns until it is cancelled."""

    def __init__(self, store: ConversationStore, segment: Callable[[HeldConversation], Awaitable[object]], at_once: int) -> None: ...

    async def run(self) -> None:
        """Work until cancelled."""
        ...


def worker_of(engine: Literal["none", "dbos"]) -> type[Working]:
    """Return the kind of worker that an engine wants.

    Raises:
        ConfigError: The engine's extra is not installed.
    """
    if engine == "none":
        return Worker
    try:
        from midturn.agent.dbos import DbosEngine  # loaded where it is used: it is large
    except ImportError as error:
        if error.name not in {"dbos", "psycopg"}:
            raise
        raise ConfigError(f"Working with DBOS needs the extra `dbos`: {install_command('dbos')}") from None
    return DbosEngine
