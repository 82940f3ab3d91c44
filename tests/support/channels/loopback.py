"""A server on this machine that can be away for some time: at its port, each try to reach it is cut off, and counted."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager

from aiohttp import web


class CutLine:
    """What answers at ports of this machine while no network is there. `tries` counts who wanted something."""

    def __init__(self) -> None:
        self.tries = 0
        self._servers: list[asyncio.Server] = []

    async def cut(self, *ports: int) -> None:
        """Cut off whoever comes to these ports from now on."""
        for port in ports:
            self._servers.append(await asyncio.start_server(self._come, "127.0.0.1", port))

    async def mend(self) -> None:
        """Leave the ports."""
        for server in self._servers:
            server.close()
            await server.wait_closed()
        self._servers.clear()

    async def _come(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        del reader
        self.tries += 1
        writer.transport.abort()


class Loopback:
    """An application at one port of this machine."""

    def __init__(self, made: Callable[[], web.Application]) -> None:
        self.port = 0
        self.line = CutLine()
        self._made = made
        self._runner: web.AppRunner | None = None

    @property
    def address(self) -> str:
        """Where it is."""
        return f"http://127.0.0.1:{self.port}"

    async def begin(self) -> None:
        """Serve; after `leave`, at the same port."""
        await self.line.mend()
        self._runner = runner = web.AppRunner(self._made(), shutdown_timeout=0.1)
        await runner.setup()
        await web.TCPSite(runner, "127.0.0.1", self.port).start()
        self.port = int(runner.addresses[0][1])

    async def leave(self) -> None:
        """Break every connection, and take no other."""
        await self._end()
        await self.line.cut(self.port)

    async def remove(self) -> None:
        """End."""
        await self._end()
        await self.line.mend()

    async def _end(self) -> None:
        runner, self._runner = self._runner, None
        if runner is not None:
            await asyncio.wait_for(runner.cleanup(), 10)


@asynccontextmanager
async def on_loopback(made: Callable[[], web.Application], drop: Callable[[], Awaitable[None]] | None = None) -> AsyncGenerator[Loopback]:
    """Serve an application on this machine; at the end, `drop` breaks what it holds open itself."""
    served = Loopback(made)
    await served.begin()
    try:
        yield served
    finally:
        if drop is not None:
            await drop()
        await served.remove()
