"""A worker that continues ready turns concurrently until it is cancelled."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from typing import Literal, Protocol

from midturn.clock import Outage
from midturn.errors import ConfigError, StoreError
from midturn.extras import install_command
from midturn.ports import show_claimed
from midturn.stores.locked import LockedConversation
from midturn.stores.store import ConversationStore

_LOG = logging.getLogger("midturn.worker")
_RETRY_DELAY = 1.0
"""Seconds between attempts to reach an unavailable store."""


class Worker:
    """Claims conversations with ready turns, and runs `segment` on each.

    While a conversation runs in this process, no other process can claim it. A turn that fails is
    retried after a delay that doubles each time. A turn that waits for a person is released; after
    the answer, it is ready again.
    """

    def __init__(
        self,
        store: ConversationStore,
        segment: Callable[[LockedConversation], Awaitable[object]],
        at_once: int,
    ) -> None:
        """Create a worker for `store`.

        Args:
            store: Store of the conversations.
            segment: Continues the open turn of a conversation until it ends or waits.
            at_once: Maximum number of concurrent turns.
        """
        self._store = store
        self._segment = segment
        self._at_once = at_once
        self._running: set[asyncio.Task[None]] = set()
        self._outage = Outage(_LOG, "turns can be claimed again")

    async def run(self) -> None:
        """Work until cancelled. On cancellation, release all turns immediately, so that another
        worker can continue them.
        """
        try:
            while True:
                await self._claim()
                await self._wait()
        finally:
            await self._release_all()

    async def _claim(self) -> None:
        """Claim ready conversations until `at_once` turns are running."""
        while free_slots := self._at_once - len(self._running):
            try:
                claimed = await self._store.claim(free_slots)
            except StoreError as error:
                self._outage.noticed("conversations cannot be claimed: %s", error)
                await asyncio.sleep(_RETRY_DELAY)
                return
            self._outage.over()
            for journal in claimed:
                show_claimed(journal.events)
                task = asyncio.create_task(
                    self._run_segment(journal), name=f"conversation {journal.conversation}"
                )
                self._running.add(task)
                task.add_done_callback(self._running.discard)
            if not claimed:
                return

    async def _wait(self) -> None:
        """Wait until a turn may be ready, or until a running turn has finished."""
        waiting = {*self._running}
        if len(self._running) < self._at_once:
            waiting.add(asyncio.ensure_future(self._store.port.wait_for_work()))
        work_waiters = waiting - self._running
        try:
            await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for look in work_waiters:
                look.cancel()
        for look in work_waiters:
            if look.done() and not look.cancelled() and (error := look.exception()):
                self._outage.noticed("waiting for work in the store failed: %s", error)
                await asyncio.sleep(_RETRY_DELAY)

    async def _run_segment(self, journal: LockedConversation) -> None:
        try:
            async with journal:
                await self._segment(journal)
        except Exception as error:  # noqa: BLE001  a failure must not affect other conversations; the store schedules the retry
            _LOG.warning(
                "the turn of conversation %s failed and will be retried: %r",
                journal.conversation,
                error,
            )

    async def _release_all(self) -> None:
        for task in self._running:
            task.cancel()
        if self._running:
            await asyncio.wait(self._running)


class WorkerType(Protocol):
    """Interface of the worker classes `Worker` and `DbosEngine`."""

    def __init__(
        self,
        store: ConversationStore,
        segment: Callable[[LockedConversation], Awaitable[object]],
        at_once: int,
    ) -> None: ...

    async def run(self) -> None:
        """Work until cancelled."""
        ...


def worker_class(engine: Literal["none", "dbos"]) -> type[WorkerType]:
    """Return the worker class of an engine.

    Raises:
        ConfigError: The extra of the engine is not installed.
    """
    if engine == "none":
        return Worker
    try:
        from midturn.agent.dbos import DbosEngine  # imported here, because the package is large
    except ImportError as error:
        if error.name not in {"dbos", "psycopg"}:
            raise
        raise ConfigError(
            f"The engine `dbos` needs the extra `dbos`: {install_command('dbos')}"
        ) from None
    return DbosEngine
