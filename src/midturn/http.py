"""Runs an application: connections that are bounded, heads of requests that arrive in time, no log of requests, an end that loses nothing.

A server of ours takes connections itself, before anything is read from them. Until somebody has signed in over it, a connection is a
stranger's. Strangers are few: when one too many comes, the oldest of those who have the most makes room, so that a user's next connection
always gets through, and those over which somebody is signed in are never counted.
"""

from __future__ import annotations

import asyncio
import errno
import logging
import signal
import socket
import stat
from collections import Counter
from collections.abc import Callable, Generator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, Final, cast

import h11
import uvicorn
from msgspec import Struct
from starlette.types import ASGIApp, Scope
from uvicorn.protocols.http.h11_impl import H11Protocol

from midturn.errors import ConfigError
from midturn.sandbox.peers import Doubt, Peer, doubt_about, find_peer

# ----------------------------------------------------------------------------------------------------------------------
# Where a server listens, and what is not safe about that


LOOPBACK: Final = ("127.0.0.1", "::1", "localhost")
BACKLOG: Final = 512
_HERE: Final = ("127.0.0.1", "::1")
_NONE_HERE: Final = frozenset({errno.EADDRNOTAVAIL, errno.EAFNOSUPPORT})
_TRIES: Final = 20  # for a port that is free at both addresses of this machine
_FOR_THE_PROXY: Final = 0o660


class Listening(Struct, frozen=True, kw_only=True):
    """Where a server listens, and with which certificate. `port` 0 is any free one; a Unix socket takes the place of host and port."""

    host: str = "127.0.0.1"
    port: int = 7478
    certificate: str | None = None
    key: str | None = None
    behind_proxy: bool = False
    unix_socket: Path | None = None

    @property
    def is_here_alone(self) -> bool:
        """Whether only this machine reaches it."""
        return self.host in LOOPBACK or self.unix_socket is not None

    @property
    def scheme(self) -> str:
        """`https` with a certificate, else `http`."""
        return "https" if self.certificate else "http"

    @property
    def refusal(self) -> str | None:
        """What is not safe about it, and what to do; None where nothing is."""
        if (self.certificate is None) != (self.key is None):
            return "A certificate and its key belong together: give both `--tls-cert` and `--tls-key`."
        if not self.is_here_alone and not self.certificate and not self.behind_proxy:
            return (
                f"At {self.host} others on the network could read questions, answers and the key to them. Give a certificate "
                "(`--tls-cert`, `--tls-key`), or put a proxy with TLS in front and say `--behind-proxy`."
            )
        return None


def bound(listening: Listening) -> list[socket.socket]:
    """Take the port: on this machine at both of its addresses, since a browser tries one and then the other.

    Raises:
        ConfigError: It is taken, or not ours to take.
    """
    if listening.unix_socket is not None:
        return [_bound_in_a_file(listening.unix_socket)]
    if listening.host not in LOOPBACK:
        return [_bound(listening.host, listening.port)]
    for last in range(1 - _TRIES, 1):
        taken: list[socket.socket] = []
        try:
            for host in _HERE:
                port = taken[0].getsockname()[1] if taken else listening.port
                with suppress(_NoSuchAddress):
                    taken.append(_bound(host, port))
        except ConfigError:
            for one in taken:
                one.close()
            if listening.port or not last:
                raise
        else:
            return taken
    raise AssertionError


class _NoSuchAddress(Exception):  # noqa: N818  it says what there is not
    """This machine does not have the address, so nothing else can listen there either."""


def _bound(host: str, port: int) -> socket.socket:
    try:
        return socket.create_server((host, port), family=socket.AF_INET6 if ":" in host else socket.AF_INET, backlog=BACKLOG)
    except OSError as error:
        if host in _HERE[1:] and error.errno in _NONE_HERE:
            raise _NoSuchAddress from None
        where = f"{host} port {port}"
        raise ConfigError(f"Nothing can listen at {where}: {error.strerror or error}. Choose another port.") from None


def _bound_in_a_file(path: Path) -> socket.socket:
    """Listen at a path, for the user and the group that its directory gives it."""
    listener = socket.socket(socket.AF_UNIX)
    try:
        if path.exists() and stat.S_ISSOCK(path.lstat().st_mode) and not _is_heard(path):
            path.unlink()
        listener.bind(str(path))
        path.chmod(_FOR_THE_PROXY)
        listener.listen(BACKLOG)
    except OSError as error:
        listener.close()
        raise ConfigError(f"Nothing can listen at {path}: {error.strerror or error}.") from None
    return listener


def _is_heard(path: Path) -> bool:
    with socket.socket(socket.AF_UNIX) as asking:
        try:
            asking.connect(str(path))
        except ConnectionRefusedError:
            return False
    return True


_LOG = logging.getLogger(__name__)
HEAD_SECONDS: Final = 10.0
"""How long the head of a request may take, a handshake of TLS included."""
MOST_STRANGERS: Final = 256
_SIGNALS: Final = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
_PATIENCE: Final = 3  # seconds that a response may take when the server ends
_MOMENT: Final = 0.01
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
        self.task: asyncio.Task[None] | None = None
        self.transport: asyncio.BaseTransport | None = None

    async def doubt(self) -> Doubt | None:
        """Say why it is not its user's own, where the system tells; found out once."""
        if self.peer is None:
            return None
        if self._doubt is None:
            self._doubt = asyncio.create_task(self._doorway.doubt(self.peer))
        return await asyncio.shield(self._doubt)

    def release(self) -> None:
        """Count it no more among strangers: somebody is signed in over it, or it is closed."""
        self._doorway.forget(self)

    def drop(self) -> None:
        """End it now."""
        if isinstance(self.transport, asyncio.WriteTransport):
            self.transport.abort()
        elif self.task:
            self.task.cancel()
            self._socket.close()


def connection_of(scope: Scope) -> Connection | None:
    """Return the connection of a request; None where the server is not ours."""
    return cast("Connection | None", scope.get("state", {}).get(_STATE))


class Doorway:
    """Counts the connections over which nobody is signed in."""

    def __init__(self, most: int = MOST_STRANGERS) -> None:
        self._most = most
        self._strangers: dict[Connection, None] = {}  # the oldest first
        self._looking = asyncio.Lock()

    def admit(self, connection: Connection) -> None:
        """Count one more; where there are too many, drop the oldest of those who have the most."""
        self._strangers[connection] = None
        if len(self._strangers) <= self._most:
            return
        ((most, _),) = Counter(one.origin for one in self._strangers).most_common(1)
        oldest = next(one for one in self._strangers if one.origin == most)
        self.forget(oldest)
        oldest.drop()

    def forget(self, connection: Connection) -> None:
        """Count one no more: it is closed, or somebody is signed in."""
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
        server.force_exit = bool(received)  # whoever asks twice means at once
        received.append(number)
        ending()
        server.should_exit = True

    loop = asyncio.get_running_loop()
    for number in _SIGNALS:
        loop.add_signal_handler(number, end, number)
    try:
        serving = asyncio.create_task(server.serve(sockets=listeners))
        while not server.started and not serving.done():  # noqa: ASYNC110  the library tells nobody when it has begun
            await asyncio.sleep(_MOMENT)
        if server.started:
            ready()
        await serving
    finally:
        for number in _SIGNALS:
            loop.remove_signal_handler(number)
    return received[0] if received else 0


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
        connection.transport = transport
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
        doorway = Doorway()
        for listener in sockets or ():
            listener.setblocking(False)
        self._taking = [asyncio.create_task(self._take(listener, doorway)) for listener in sockets or ()]
        self.started = True

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """Take no more connections, and let those that are there come to their end."""
        for taking in self._taking:
            taking.cancel()
        await asyncio.gather(*self._taking, return_exceptions=True)
        await super().shutdown(sockets)

    async def _take(self, listener: socket.socket, doorway: Doorway) -> None:
        loop = asyncio.get_running_loop()
        while True:
            try:
                opened, _ = await loop.sock_accept(listener)
            except OSError as error:  # too many files are open, or the other end has gone already
                _LOG.warning("a connection cannot be taken: %s", error)
                await asyncio.sleep(_MOMENT)
                continue
            connection = Connection(opened, doorway)
            connection.task = loop.create_task(self._open(opened, connection))
            doorway.admit(connection)

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
