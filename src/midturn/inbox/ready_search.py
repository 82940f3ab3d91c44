"""Continues ready turns in a server for other programs, until the server stops."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Collection
from logging import Logger
from typing import Any, Final

from midturn.clock import Outage
from midturn.errors import StoreError
from midturn.stores.store import ConversationStore

_POLL_INTERVAL: Final = 1.0  # minimum seconds between two searches for ready turns
_MAX_POLL_INTERVAL: Final = 10.0
_SHARE: Final = 100  # minimum pause between two searches, as a multiple of the duration of a search
_GRACE_PERIOD: Final = 5.0  # seconds for which tasks may continue after the server is stopped


async def continue_ready_turns(
    store: ConversationStore, proceed: Callable[[str], Awaitable[None]], log: Logger
) -> None:
    """Repeatedly search for ready turns, and call `proceed` with the conversation of each.

    While the store is unavailable, the search is retried. An outage is logged only once.
    """
    outage = Outage(log, "ready turns can be found again")
    while True:
        begun = time.monotonic()
        try:
            for conversation in await store.ready(interrupted=True):
                await proceed(conversation)
        except StoreError as error:
            outage.noticed("cannot find ready turns: %r", error)
        else:
            outage.over()
        pause = (time.monotonic() - begun) * _SHARE
        await asyncio.sleep(min(max(_POLL_INTERVAL, pause), _MAX_POLL_INTERVAL))


async def stop_tasks(
    search: asyncio.Task[None] | None, turns: Collection[asyncio.Task[Any]]
) -> None:
    """Cancel the search. Wait up to `_GRACE_PERIOD` for the running turns, then cancel the rest.
    Cancelled turns stay open in the store.
    """
    if search is not None:
        search.cancel()
        await asyncio.gather(search, return_exceptions=True)
    if turns:
        await asyncio.wait(turns, timeout=_GRACE_PERIOD)
    for task in turns:
        task.cancel()
    await asyncio.gather(*turns, return_exceptions=True)
