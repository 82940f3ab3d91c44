"""Runs an application: connections that are bounded, heads of requests that arrive in time, no log of requests, an end that loses nothing.

A server of ours takes connections itself, before anything is read from them. Until a user has signed in over it, a connection is a
stranger's. Strangers are few: when one too many comes, the oldest of those who have the most makes room, one whose request is whole
last, so that a user's next connection always gets through; those over which a user is signed in are never counted.
"""

from __future__ import annotations

import asyncio
import errno
import logging
import signal
import socket
from collections import Counter
from collections.abc import AsyncGenerator, Awaitable, Callable, Generator
from contextlib import asynccontextmanager, contextmanager, suppress
from typing import Any, Final, cast

import h11
import uvicorn
from starlette.applications import Starlette
from starlette.responses import PlainTextResponse
from starlette.types import ASGIApp, Receive, Scope, Send
from uvicorn.protocols.http.h11_impl import H11Protocol

from midturn.clock import Outage
from midturn.errors import StoreError
from midturn.http import Listening, bound
from midturn.security.peer_credentials import Doubt, Peer, doubt_about, find_peer

_LOG = logging.getLogger(__name__)
HEAD_SECONDS: Final = 10.0
"""Seconds that the head of a request may take, including a TLS handshake."""
MOST_STRANGERS: Final = 256
READY_SECONDS: Final = 2.0
"""Seconds that a store may take to answer a probe."""
_UNKEPT: Final = {"Cache-Control": "no-store", "X-Content-Type-Options": "nosniff"}
_SIGNALS: Final = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
_PATIENCE: Final = 3  # seconds that a response may take when the server ends
_MOMENT: Final = 0.01
_FULL: Final = frozenset({errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM})
_STATE: Final = "midturn.connection"


class Connection:
    """One connection: who is at its other end, and whether it is still a stranger's."""

    def __init__(self, opened: socket.socket, doorway: Doorway) -> None:
        self.begun = asyncio.get_running_loop().time()
        self.peer = _peer(opened)
        self.origin = (_host(opened), self.peer.uid if self.peer else -1)
        self._socket = opened
        self._doorway = doorway
        self._doubt: asyncio.Task[Doubt | None] | None = None
        self.transport: asyncio.BaseTransport | None = None
        self.spoken: h11.Connection | None = None
        """The HTTP connection over it, once it is open."""

    @property
    def is_asking(self) -> bool:
        """Whether its request is whole, and not answered yet."""
        return self.spoken is not None and self.spoken.their_state in (h11.DONE, h11.MUST_CLOSE)

    async def doubt(self) -> Doubt | None:
        """Say why it is not its user's own, where the system tells; found out once."""
        if self.peer is None:
            return None
        if self._doubt is None:
            self._doubt = asyncio.create_task(self._doorway.doubt(self.peer))
        return await asyncio.shield(self._doubt)

    def release(self) -> None:
        """Count it no more among strangers: a user is signed in over it, or it is closed."""
        self._doorway.forget(self)

    def drop(self) -> None:
        """End it now."""
        if isinstance(self.transport, asyncio.WriteTransport):
            self.transport.abort()
        else:
            with suppress(OSError):  # the other end has gone already
                self._socket.shutdown(socket.SHUT_RDWR)  # what opens it finds it at its end, and closes what it has made of it


def connection_of(scope: Scope) -> Connection | None:
    """Return the connection of a request; None where the server is not ours."""
    return cast("Connection | None", scope.get("state", {}).get(_STATE))


class Doorway:
    """Counts the connections over which no user is signed in."""

    def __init__(self, most: int = MOST_STRANGERS) -> None:
        self._most = most
        self._strangers: dict[Connection, None] = {}  # the oldest first
        self._looking = asyncio.Lock()

    def admit(self, connection: Connection) -> None:
        """Count one more; where there are too many, drop the oldest of those who have the most, one that asks nothing yet first."""
        self._strangers[connection] = None
        if len(self._strangers) <= self._most:
            return
        ((most, _),) = Counter(one.origin for one in self._strangers).most_common(1)
        theirs = [one for one in self._strangers if one.origin == most]
        dropped = next((one for one in theirs if not (one.is_asking or one is connection)), theirs[0])
        self.forget(dropped)
        dropped.drop()

    def forget(self, connection: Connection) -> None:
        """Count one no more: it is closed, or a user is signed in."""
        self._strangers.pop(connection, None)

    async def doubt(self, peer: Peer) -> Doubt | None:
        """Look one peer up; one at a time, so that a crowd holds up nothing else."""
        async with self._looking:
            return await asyncio.to_thread(doubt_about, peer)


async def serve(
    app: ASGIApp, listening: Listening, listeners: list[socket.socket], ready: Callable[[], None], ending: Callable[[], None]
) -> int:
    """Serve until a signal comes; return its number. `ready` is called when requests can be answered, `ending` when no more are."""
    server = _Server(_settings(app, listening))
    received: list[int] = []

    def end(number: int) -> None:
        server.force_exit = bool(received)  # the second request means at once
        received.append(number)
        ending()
        server.should_exit = True

    loop = asyncio.get_running_loop()
    for number in _SIGNALS:
        loop.add_signal_handler(number, end, number)
    try:
        serving = await _begun(server, listeners)
        if server.started:
            ready()
        await serving
    finally:
        for number in _SIGNALS:
            loop.remove_signal_handler(number)
    return received[0] if received else 0


@asynccontextmanager
async def serving(app: ASGIApp, listening: Listening) -> AsyncGenerator[None]:
    """Serve beside something else, for as long as the block runs; signals are the block's.

    Raises:
        ConfigError: The port is taken, or not ours to take.
    """
    settings = _settings(app, listening)
    settings.lifespan = "off"  # its end would be waited for
    server = _Server(settings)
    running = await _begun(server, bound(listening))
    try:
        yield
    finally:
        server.force_exit = server.should_exit = True
        await running


async def _begun(server: _Server, listeners: list[socket.socket]) -> asyncio.Task[None]:
    running = asyncio.create_task(server.serve(sockets=listeners))
    while not server.started and not running.done():  # noqa: ASYNC110  the library does not tell when it has begun
        await asyncio.sleep(_MOMENT)
    return running


class Health:
    """Probes of an operator: `/healthz` says that the process is alive, `/readyz` that its store answers, and neither anything else.

    So they are answered to everyone and under every name, before any other rule of the application behind them.
    """

    def __init__(self, look: Callable[[], Awaitable[object]], app: ASGIApp | None = None) -> None:
        """Stand before an application, or alone.

        Args:
            look: Asks the store for something small.
            app: What answers everything else.
        """
        self._look = look
        self._app: ASGIApp = app or Starlette()
        self._looking: asyncio.Task[bool] | None = None

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a probe; hand everything else on."""
        path = scope["path"] if scope["type"] == "http" and scope["method"] in {"GET", "HEAD"} else ""
        app = self._app
        if path == "/healthz":
            app = PlainTextResponse("alive\n", headers=_UNKEPT)
        elif path == "/readyz" and await self._is_ready():
            app = PlainTextResponse("ready\n", headers=_UNKEPT)
        elif path == "/readyz":
            app = PlainTextResponse("not ready: the store does not answer\n", 503, _UNKEPT)
        await app(scope, receive, send)

    async def _is_ready(self) -> bool:
        """Ask the store, once at a time: however many probes there are, a store that is away is not asked more often."""
        if self._looking is None or self._looking.done():
            self._looking = asyncio.create_task(self._answers())
        looking = self._looking  # a probe that comes as this one ends begins another
        done, _ = await asyncio.wait({looking}, timeout=READY_SECONDS)
        return bool(done) and looking.result()

    async def _answers(self) -> bool:
        try:
            await self._look()
        except (StoreError, OSError) as error:
            _LOG.debug("a probe finds no store: %s", error)
            return False
        return True


def _settings(app: ASGIApp, listening: Listening) -> uvicorn.Config:
    return uvicorn.Config(
        app,
        http=_HeadInTime,
        log_config=None,
        access_log=False,
        server_header=False,
        proxy_headers=False,
        ws="none",
        timeout_graceful_shutdown=_PATIENCE,
        ssl_certfile=listening.certificate,
        ssl_keyfile=listening.key,
    )


class _HeadInTime(H11Protocol):
    """Closes a connection on which the head of a request is begun, and not whole in time."""

    _late: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]  # as the library has it
        super().connection_made(transport)
        connection = cast("Connection", self.app_state[_STATE])
        connection.transport, connection.spoken = transport, self.conn
        self._late = self.loop.call_at(connection.begun + HEAD_SECONDS, transport.abort)

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        begun = self.conn.their_state is h11.IDLE and bool(self.conn.trailing_data[0])
        if not begun:
            self._in_time()
        elif self._late is None:
            self._late = self.loop.call_later(HEAD_SECONDS, self.transport.abort)

    def connection_lost(self, exc: Exception | None) -> None:
        self._in_time()
        super().connection_lost(exc)
        connection = cast("Connection", self.app_state[_STATE])
        connection.release()

    def _in_time(self) -> None:
        if self._late:
            self._late.cancel()
            self._late = None


class _Server(uvicorn.Server):
    """A server that takes connections itself, and whose signals are ours: the library would raise them again when it has ended."""

    @contextmanager
    def capture_signals(self) -> Generator[None]:
        """Leave the signals alone."""
        yield

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Begin to take connections."""
        await self.lifespan.startup()
        self.servers = []
        self._opening: dict[asyncio.Task[None], Connection] = {}
        doorway = Doorway()
        for listener in sockets or ():
            listener.setblocking(False)
        self._taking = [asyncio.create_task(self._take(listener, doorway)) for listener in sockets or ()]
        self.started = True

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """Take no more connections, and let those that are there come to their end.

        One that is being opened would come too late to be told, and be waited for in vain: nothing has been read from it, so it ends here.
        """
        for taking in self._taking:
            taking.cancel()
        await asyncio.gather(*self._taking, return_exceptions=True)
        for connection in self._opening.values():
            connection.drop()
        await asyncio.gather(*self._opening, return_exceptions=True)
        await super().shutdown(sockets)
        for left in tuple(self.server_state.connections):  # it has had its time
            left.transport.abort()
        await asyncio.sleep(0)  # in which they are closed

    async def _take(self, listener: socket.socket, doorway: Doorway) -> None:
        loop = asyncio.get_running_loop()
        full = Outage(_LOG, "connections can be taken again")
        while True:
            try:
                opened, _ = await loop.sock_accept(listener)
            except OSError as error:
                if error.errno in _FULL:  # the other end has gone already, else
                    full.noticed("no connection can be taken: %s", error)
                await asyncio.sleep(_MOMENT)
                continue
            full.over()
            connection = Connection(opened, doorway)
            opening = loop.create_task(self._open(opened, connection))
            self._opening[opening] = connection
            opening.add_done_callback(self._opening.pop)
            doorway.admit(connection)
            await asyncio.sleep(0)  # a crowd is taken without a wait: what those before it ask is read in between

    async def _open(self, opened: socket.socket, connection: Connection) -> None:
        state: dict[str, Any] = {**self.lifespan.state, _STATE: connection}
        config, loop = self.config, asyncio.get_running_loop()

        def protocol() -> asyncio.Protocol:
            return _HeadInTime(config=config, server_state=self.server_state, app_state=state)

        patience = HEAD_SECONDS if config.ssl else None
        try:
            await loop.connect_accepted_socket(protocol, opened, ssl=config.ssl, ssl_handshake_timeout=patience)
        except (OSError, asyncio.CancelledError) as error:  # what was said is no TLS, or came too late
            connection.release()
            opened.close()
            _LOG.debug("a connection is not opened: %s", error)


def _peer(opened: socket.socket) -> Peer | None:
    try:
        return find_peer(opened)
    except OSError:  # it is gone
        return Peer(-1, 0, is_open=False)


def _host(opened: socket.socket) -> str:
    try:
        name = opened.getpeername()
    except OSError:
        return ""
    return str(cast("tuple[object, ...]", name)[0]) if isinstance(name, tuple) else ""
