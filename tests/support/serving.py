"""Runs HTTP servers on real sockets, in a thread or in this process."""

from __future__ import annotations

import asyncio
import random
import socket
import threading
import time
from collections.abc import Generator
from contextlib import contextmanager, suppress
from urllib.parse import urlsplit

import httpx2
import uvicorn
from starlette.types import ASGIApp

_UNASSIGNED_PORTS = range(10_000, 32_768)
_RANDOM = random.SystemRandom()  # forked processes share the state of the default generator


class Server(uvicorn.Server):
    """Closes all connections at the end. uvicorn's server misses connections that arrive while it
    shuts down.
    """

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        await super().shutdown(sockets)
        for connection in list(self.server_state.connections):
            connection.transport.abort()
        await asyncio.sleep(0)  # lets the connections close


@contextmanager
def running(config: uvicorn.Config, listener: socket.socket) -> Generator[None]:
    """Run a server in a thread. Requests sent before it is ready wait for it."""
    server = Server(config)
    thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]}, daemon=True)
    thread.start()
    try:
        yield
    finally:
        server.should_exit = True
        thread.join(120)


@contextmanager
def serving(app: ASGIApp, port: int = 0) -> Generator[str]:
    """Serve an application on this machine, at `port` or any free port; yield its address."""
    config = uvicorn.Config(app, log_config=None, access_log=False, timeout_graceful_shutdown=1)
    with socket.create_server(("127.0.0.1", port)) as listener, running(config, listener):
        yield f"http://127.0.0.1:{listener.getsockname()[1]}"


def serve_here(app: ASGIApp) -> None:
    """Serve an application until the process ends. Print the port for the parent process."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        print(listener.getsockname()[1], flush=True)  # noqa: T201
        uvicorn.Server(uvicorn.Config(app, log_level="warning")).run([listener])


def loopback_request(address: str) -> tuple[str, dict[str, str]]:
    """Return the loopback address and the `Host` header for a client that cannot resolve the
    page's host name.
    """
    parts = urlsplit(address)
    return parts._replace(netloc=f"127.0.0.1:{parts.port}").geturl(), {"Host": parts.netloc}


def enter(client: httpx2.Client, entrance: str) -> httpx2.Response:
    """Send the sign-in code of an address like the button on its page; return the response."""
    address, _, code = entrance.partition("?code=")
    headers = {"Sec-Fetch-Site": "same-origin", "Origin": "null"}
    return client.post(address, data={"code": code}, headers=headers)


def free_port() -> int:
    """Return an unused port for later use. It is outside the range from which the system assigns
    ports.
    """
    while True:
        port = _RANDOM.choice(_UNASSIGNED_PORTS)
        with suppress(OSError), socket.create_server(("127.0.0.1", port)):
            return port


def wait_for_listener(port: int) -> None:
    """Wait until a server listens at a port of this machine."""
    deadline = time.monotonic() + 120
    while True:
        try:
            socket.create_connection(("127.0.0.1", port), timeout=120).close()
        except ConnectionRefusedError:
            assert time.monotonic() < deadline, f"nobody listens at port {port}"
            time.sleep(0.02)
        else:
            return
