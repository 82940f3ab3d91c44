"""Server on loopback that can be made unreachable. Its port then aborts and counts every
connection.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager

from aiohttp import web


class UnreachableNetwork:
    """Simulates a network failure: aborts every connection to some ports. `tries` counts the
    connections.
    """

    def __init__(self) -> None:
        self.tries = 0
        self._servers: list[asyncio.Server] = []

    async def cut(self, *ports: int) -> None:
        """Abort all connections to these ports from now on."""
        for port in ports:
            self._servers.append(await asyncio.start_server(self._come, "127.0.0.1", port))

    async def restore(self) -> None:
        """Stop listening on the ports."""
        for server in self._servers:
            server.close()
            await server.wait_closed()
        self._servers.clear()

    async def _come(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        del reader
        self.tries += 1
        writer.transport.abort()


class Loopback:
    """An application on a port of the loopback interface."""

    def __init__(self, made: Callable[[], web.Application]) -> None:
        self.port = 0
        self.line = UnreachableNetwork()
        self._made = made
        self._runner: web.AppRunner | None = None

    @property
    def address(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    async def begin(self) -> None:
        """Start the server. After `leave`, it uses the same port."""
        await self.line.restore()
        self._runner = runner = web.AppRunner(self._made(), shutdown_timeout=0.1)
        await runner.setup()
        await web.TCPSite(runner, "127.0.0.1", self.port).start()
        self.port = int(runner.addresses[0][1])

    async def leave(self) -> None:
        """Close every connection and refuse new ones."""
        await self._end()
        await self.line.cut(self.port)

    async def remove(self) -> None:
        """Stop the server."""
        await self._end()
        await self.line.restore()

    async def _end(self) -> None:
        runner, self._runner = self._runner, None
        if runner is not None:
            await asyncio.wait_for(runner.cleanup(), 120)


@asynccontextmanager
async def serve_on_loopback(
    made: Callable[[], web.Application], drop: Callable[[], Awaitable[None]] | None = None
) -> AsyncGenerator[Loopback]:
    """Serve an application on loopback. `drop` closes the connections that it holds open, at
    the end.
    """
    served = Loopback(made)
    await served.begin()
    try:
        yield served
    finally:
        if drop is not None:
            await drop()
        await served.remove()
