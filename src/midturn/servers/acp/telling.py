"""What an editor is told of one session, one thing after the other."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager

from acp import Client

from midturn.servers.acp.updates import Update


class Telling:
    """What was `told` waits here until somebody sends it, or drops it."""

    def __init__(self, connection: Client, session: str) -> None:
        self._connection = connection
        self._session = session
        self._waiting: asyncio.Queue[Update] = asyncio.Queue()

    def tell(self, update: Update) -> None:
        """Have the editor told something."""
        self._waiting.put_nowait(update)

    async def told(self) -> None:
        """Return when everything has been sent, or dropped."""
        await self._waiting.join()

    @asynccontextmanager
    async def sending(self) -> AsyncGenerator[None]:
        """Send what is told in the block, in its order, and all of it before the block is left."""
        async with self._taking(self._send):
            yield

    @asynccontextmanager
    async def dropping(self) -> AsyncGenerator[None]:
        """Send nothing of what is told in the block: the editor shows it already."""
        async with self._taking(_drop):
            yield

    @asynccontextmanager
    async def _taking(self, take: Callable[[Update], Awaitable[None]]) -> AsyncGenerator[None]:
        taking = asyncio.create_task(self._take_all(take))
        try:
            yield
            await self.told()
        finally:
            taking.cancel()
            await asyncio.gather(taking, return_exceptions=True)

    async def _take_all(self, take: Callable[[Update], Awaitable[None]]) -> None:
        while True:
            update = await self._waiting.get()
            try:
                await take(update)
            except ConnectionError:
                take = _drop  # nobody is there any more
            finally:
                self._waiting.task_done()

    async def _send(self, update: Update) -> None:
        await self._connection.session_update(self._session, update)


async def _drop(update: Update) -> None:
    del update
