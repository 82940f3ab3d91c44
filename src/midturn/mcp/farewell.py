"""What is still said to a server of a call that nobody waits for any more."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Coroutine
from typing import Any

_LOG = logging.getLogger(__name__)
_PATIENCE = 2.0  # seconds in which a server can take it


class Farewells:
    """Says it beside everything else, and forgets what comes of it."""

    def __init__(self) -> None:
        self._tasks: set[asyncio.Task[None]] = set()

    def say(self, farewell: Coroutine[Any, Any, object]) -> None:
        """Begin to say it."""
        task = asyncio.create_task(_said(farewell))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def wait(self) -> None:
        """Wait until everything is said, or has taken too long."""
        if self._tasks:
            await asyncio.wait(self._tasks)


async def _said(farewell: Coroutine[Any, Any, object]) -> None:
    try:
        async with asyncio.timeout(_PATIENCE):
            await farewell
    except Exception:  # noqa: BLE001  nobody reads what comes of it
        _LOG.debug("an MCP server did not take that a call was left", exc_info=True)
