"""Runs the application: one socket, no log of requests (an address may hold a code), and an end that loses nothing."""

from __future__ import annotations

import asyncio
import signal
import socket
from collections.abc import Callable, Generator
from contextlib import contextmanager

import uvicorn
from msgspec import Struct
from starlette.types import ASGIApp

from midturn.errors import ConfigError
from midturn.web.site import Site

_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
_PATIENCE = 3  # seconds that a response may take when the server ends


class Listening(Struct, frozen=True, kw_only=True):
    """Where the server listens, and with which certificate."""

    host: str = "127.0.0.1"
    port: int = 7478
    certificate: str | None = None
    key: str | None = None


def bound(listening: Listening) -> socket.socket:
    """Take the port.

    Raises:
        ConfigError: It is taken, or not ours to take.
    """
    family = socket.AF_INET6 if ":" in listening.host else socket.AF_INET
    try:
        return socket.create_server((listening.host, listening.port), family=family, backlog=1024)
    except OSError as error:
        where = f"{listening.host} port {listening.port}"
        raise ConfigError(f"Nothing can listen at {where}: {error.strerror or error}. Choose another one with `--port`.") from None


async def serve(app: ASGIApp, site: Site, listening: Listening, listener: socket.socket, ready: Callable[[], None]) -> int:
    """Serve until a signal comes; return its number. `ready` is called when the first request can be answered."""
    server = _Server(_settings(app, listening))
    received: list[int] = []

    def end(number: int) -> None:
        server.force_exit = bool(received)  # whoever asks twice means at once
        received.append(number)
        site.board.feed.close()
        server.should_exit = True

    loop = asyncio.get_running_loop()
    for number in _SIGNALS:
        loop.add_signal_handler(number, end, number)
    try:
        serving = asyncio.create_task(server.serve(sockets=[listener]))
        while not server.started and not serving.done():  # noqa: ASYNC110  the library tells nobody when it has begun
            await asyncio.sleep(_MOMENT)
        if server.started:
            ready()
        await serving
    finally:
        for number in _SIGNALS:
            loop.remove_signal_handler(number)
    return received[0] if received else 0


_MOMENT = 0.01


def _settings(app: ASGIApp, listening: Listening) -> uvicorn.Config:
    return uvicorn.Config(
        app,
        log_config=None,
        access_log=False,
        server_header=False,
        proxy_headers=False,
        ws="none",
        timeout_graceful_shutdown=_PATIENCE,
        ssl_certfile=listening.certificate,
        ssl_keyfile=listening.key,
    )


class _Server(uvicorn.Server):
    """A server whose signals are ours: the library would raise them again when it has ended."""

    @contextmanager
    def capture_signals(self) -> Generator[None]:
        """Leave the signals alone."""
        yield
