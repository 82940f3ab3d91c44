"""Run an ASGI application with limits on connections and a clean shutdown.

This module accepts the connections itself instead of leaving this to uvicorn, so that they can be
counted before anything is read from them.

- A connection is unauthenticated until a user signs in over it. At most 256 unauthenticated
  connections are open. To accept another one, the server closes the oldest connection of the
  origin with the most connections, preferably one without a complete request. So a user can
  always connect.
- The head of a request must arrive within 10 seconds, including the TLS handshake.
- Requests are not logged.
- On shutdown, requests in progress get 3 seconds to complete.
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
from midturn.security.peer_credentials import Peer, PeerRejected, find_peer, peer_rejection

_LOG = logging.getLogger(__name__)
HEAD_SECONDS: Final = 10.0
"""Maximum seconds to receive the head of a request, including a TLS handshake."""
MAX_UNAUTHENTICATED: Final = 256
READY_SECONDS: Final = 2.0
"""Maximum seconds that a store may take to respond to a readiness probe."""
_NO_CACHE: Final = {"Cache-Control": "no-store", "X-Content-Type-Options": "nosniff"}
_SIGNALS: Final = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
_GRACE_PERIOD: Final = 3  # seconds that requests in progress get on shutdown
_POLL_INTERVAL: Final = 0.01
_OUT_OF_RESOURCES: Final = frozenset({errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM})
_STATE_KEY: Final = "midturn.connection"


class Connection:
    """An open connection and the process at its other end, if it is on this machine."""

    def __init__(self, opened: socket.socket, limiter: ConnectionLimiter) -> None:
        self.opened_at = asyncio.get_running_loop().time()
        self.peer = _peer(opened)
        self.origin = (_host(opened), self.peer.uid if self.peer else -1)
        self._socket = opened
        self._limiter = limiter
        self._doubt: asyncio.Task[PeerRejected | None] | None = None
        self.transport: asyncio.BaseTransport | None = None
        self.http: h11.Connection | None = None
        """Protocol state of the connection; None until it is open."""

    @property
    def has_request(self) -> bool:
        """Whether the connection has a complete request without a response."""
        return self.http is not None and self.http.their_state in (h11.DONE, h11.MUST_CLOSE)

    async def doubt(self) -> PeerRejected | None:
        """Return why the peer must be rejected, or None if it is a process of this user. The check
        runs once per connection.
        """
        if self.peer is None:
            return None
        if self._doubt is None:
            self._doubt = asyncio.create_task(self._limiter.doubt(self.peer))
        return await asyncio.shield(self._doubt)

    def release(self) -> None:
        """Stop counting the connection, because a user signed in over it or it was closed."""
        self._limiter.forget(self)

    def drop(self) -> None:
        """Close the connection immediately."""
        if isinstance(self.transport, asyncio.WriteTransport):
            self.transport.abort()
        else:
            with suppress(OSError):  # the peer has disconnected
                # the task that opens the connection then reads the end of the stream, and closes it
                self._socket.shutdown(socket.SHUT_RDWR)


def connection_of(scope: Scope) -> Connection | None:
    """Return the connection of a request, or None if another server runs the application."""
    return cast("Connection | None", scope.get("state", {}).get(_STATE_KEY))


class ConnectionLimiter:
    """Limits the number of unauthenticated connections."""

    def __init__(self, limit: int = MAX_UNAUTHENTICATED) -> None:
        self._limit = limit
        self._unauthenticated: dict[Connection, None] = {}  # oldest first
        self._peer_check = asyncio.Lock()

    def admit(self, connection: Connection) -> None:
        """Count a connection. Above the limit, close the oldest connection of the busiest
        origin, idle ones first.
        """
        self._unauthenticated[connection] = None
        if len(self._unauthenticated) <= self._limit:
            return
        ((busiest, _),) = Counter(other.origin for other in self._unauthenticated).most_common(1)
        candidates = [other for other in self._unauthenticated if other.origin == busiest]
        dropped = next(
            (other for other in candidates if not (other.has_request or other is connection)),
            candidates[0],
        )
        self.forget(dropped)
        dropped.drop()

    def forget(self, connection: Connection) -> None:
        """Stop counting a connection."""
        self._unauthenticated.pop(connection, None)

    async def doubt(self, peer: Peer) -> PeerRejected | None:
        """Check a peer. Checks run one at a time, so that many connections cannot occupy all
        threads.
        """
        async with self._peer_check:
            return await asyncio.to_thread(peer_rejection, peer)


async def serve(
    app: ASGIApp,
    listening: Listening,
    listeners: list[socket.socket],
    ready: Callable[[], None],
    ending: Callable[[], None],
) -> int:
    """Serve until a signal arrives, and return its number.

    `ready` is called when the server starts accepting requests, `ending` when it stops.
    """
    server = _Server(_settings(app, listening))
    received: list[int] = []

    def end(number: int) -> None:
        server.force_exit = bool(received)  # a second signal stops the server immediately
        received.append(number)
        ending()
        server.should_exit = True

    loop = asyncio.get_running_loop()
    for number in _SIGNALS:
        loop.add_signal_handler(number, end, number)
    try:
        serving = await _start(server, listeners)
        if server.started:
            ready()
        await serving
    finally:
        for number in _SIGNALS:
            loop.remove_signal_handler(number)
    return received[0] if received else 0


@asynccontextmanager
async def serving(app: ASGIApp, listening: Listening) -> AsyncGenerator[None]:
    """Serve in the background while the block runs. The block handles signals itself.

    Raises:
        ConfigError: The port is in use, or this process may not listen on it.
    """
    settings = _settings(app, listening)
    settings.lifespan = "off"  # the shutdown would wait for the application's lifespan handler
    server = _Server(settings)
    running = await _start(server, bound(listening))
    try:
        yield
    finally:
        server.force_exit = server.should_exit = True
        await running


async def _start(server: _Server, listeners: list[socket.socket]) -> asyncio.Task[None]:
    running = asyncio.create_task(server.serve(sockets=listeners))
    while not server.started and not running.done():  # noqa: ASYNC110  uvicorn has no event for it
        await asyncio.sleep(_POLL_INTERVAL)
    return running


class Health:
    """Health probes: `/healthz` reports that the process runs, `/readyz` that its store responds.

    Probes are answered before any check of the application, for every client and every host name.
    They reveal no other information.
    """

    def __init__(self, probe: Callable[[], Awaitable[object]], app: ASGIApp | None = None) -> None:
        """Wrap an application, or serve only the probes.

        Args:
            probe: Makes a small request to the store.
            app: The application for all other requests.
        """
        self._probe = probe
        self._app: ASGIApp = app or Starlette()
        self._running_probe: asyncio.Task[bool] | None = None

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a probe, or pass the request to the application."""
        path = (
            scope["path"] if scope["type"] == "http" and scope["method"] in {"GET", "HEAD"} else ""
        )
        app = self._app
        if path == "/healthz":
            app = PlainTextResponse("alive\n", headers=_NO_CACHE)
        elif path == "/readyz" and await self._is_ready():
            app = PlainTextResponse("ready\n", headers=_NO_CACHE)
        elif path == "/readyz":
            app = PlainTextResponse("not ready: the store does not answer\n", 503, _NO_CACHE)
        await app(scope, receive, send)

    async def _is_ready(self) -> bool:
        """Probe the store. Concurrent requests share one probe, so that they put no load on an
        unavailable store.
        """
        if self._running_probe is None or self._running_probe.done():
            self._running_probe = asyncio.create_task(self._store_responds())
        running = self._running_probe  # a later request may replace it
        done, _ = await asyncio.wait({running}, timeout=READY_SECONDS)
        return bool(done) and running.result()

    async def _store_responds(self) -> bool:
        try:
            await self._probe()
        except (StoreError, OSError) as error:
            _LOG.debug("readiness probe failed: %s", error)
            return False
        return True


def _settings(app: ASGIApp, listening: Listening) -> uvicorn.Config:
    return uvicorn.Config(
        app,
        http=_HttpProtocol,
        log_config=None,
        access_log=False,
        server_header=False,
        proxy_headers=False,
        ws="none",
        timeout_graceful_shutdown=_GRACE_PERIOD,
        ssl_certfile=listening.certificate,
        ssl_keyfile=listening.key,
    )


class _HttpProtocol(H11Protocol):
    """Closes a connection if the head of a request does not arrive in time."""

    _head_timeout: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:
        super().connection_made(transport)
        connection = cast("Connection", self.app_state[_STATE_KEY])
        connection.transport, connection.http = transport, self.conn
        self._head_timeout = self.loop.call_at(connection.opened_at + HEAD_SECONDS, transport.abort)

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        is_head_incomplete = self.conn.their_state is h11.IDLE and bool(self.conn.trailing_data[0])
        if not is_head_incomplete:
            self._cancel_timeout()
        elif self._head_timeout is None:
            self._head_timeout = self.loop.call_later(HEAD_SECONDS, self.transport.abort)

    def connection_lost(self, exc: Exception | None) -> None:
        self._cancel_timeout()
        super().connection_lost(exc)
        connection = cast("Connection", self.app_state[_STATE_KEY])
        connection.release()

    def _cancel_timeout(self) -> None:
        if self._head_timeout:
            self._head_timeout.cancel()
            self._head_timeout = None


class _Server(uvicorn.Server):
    """A uvicorn server that accepts connections itself and leaves signals to `serve`."""

    @contextmanager
    def capture_signals(self) -> Generator[None]:
        """Install no handlers: uvicorn would raise the signals again after shutdown."""
        yield

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Start to accept connections."""
        await self.lifespan.startup()
        self.servers = []
        self._opening: dict[asyncio.Task[None], Connection] = {}
        limiter = ConnectionLimiter()
        for listener in sockets or ():
            listener.setblocking(False)
        self._accepting = [
            asyncio.create_task(self._accept(listener, limiter)) for listener in sockets or ()
        ]
        self.started = True

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """Stop accepting connections, and let the open ones complete their requests.

        uvicorn does not track connections that are still being opened. They are closed here,
        because no request was read from them.
        """
        for accepting in self._accepting:
            accepting.cancel()
        await asyncio.gather(*self._accepting, return_exceptions=True)
        for connection in self._opening.values():
            connection.drop()
        await asyncio.gather(*self._opening, return_exceptions=True)
        await super().shutdown(sockets)
        for remaining in tuple(self.server_state.connections):  # the grace period is over
            remaining.transport.abort()
        await asyncio.sleep(0)  # let the event loop close them

    async def _accept(self, listener: socket.socket, limiter: ConnectionLimiter) -> None:
        loop = asyncio.get_running_loop()
        outage = Outage(_LOG, "accepting connections again")
        while True:
            try:
                opened, _ = await loop.sock_accept(listener)
            except OSError as error:
                # other errors mean that the client has disconnected
                if error.errno in _OUT_OF_RESOURCES:
                    outage.noticed("cannot accept connections: %s", error)
                await asyncio.sleep(_POLL_INTERVAL)
                continue
            outage.over()
            connection = Connection(opened, limiter)
            opening = loop.create_task(self._open(opened, connection))
            self._opening[opening] = connection
            opening.add_done_callback(self._opening.pop)
            limiter.admit(connection)
            await asyncio.sleep(
                0
            )  # during a burst of connections, let the event loop read earlier requests

    async def _open(self, opened: socket.socket, connection: Connection) -> None:
        state: dict[str, Any] = {**self.lifespan.state, _STATE_KEY: connection}
        config, loop = self.config, asyncio.get_running_loop()

        def protocol() -> asyncio.Protocol:
            return _HttpProtocol(config=config, server_state=self.server_state, app_state=state)

        timeout = HEAD_SECONDS if config.ssl else None
        try:
            await loop.connect_accepted_socket(
                protocol, opened, ssl=config.ssl, ssl_handshake_timeout=timeout
            )
        except (OSError, asyncio.CancelledError) as error:  # the TLS handshake failed or timed out
            connection.release()
            opened.close()
            _LOG.debug("connection failed to open: %s", error)


def _peer(opened: socket.socket) -> Peer | None:
    try:
        return find_peer(opened)
    except OSError:  # the client has disconnected
        return Peer(-1, 0, is_open=False)


def _host(opened: socket.socket) -> str:
    try:
        name = opened.getpeername()
    except OSError:
        return ""
    return str(cast("tuple[object, ...]", name)[0]) if isinstance(name, tuple) else ""
