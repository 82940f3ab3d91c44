"""A real server, in a thread or as a process of its own, for clients that speak to sockets."""

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

_GIVEN_TO_NONE = range(10_000, 32_768)
_CHANCE = random.SystemRandom()  # the other one draws the same in all processes that are forked


class Server(uvicorn.Server):
    """A server that leaves no connection open: the library's forgets those that come in the moment in which it ends."""

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """End, and every connection with it."""
        await super().shutdown(sockets)
        for connection in list(self.server_state.connections):
            connection.transport.abort()
        await asyncio.sleep(0)  # in which they are closed


@contextmanager
def running(config: uvicorn.Config, listener: socket.socket) -> Generator[None]:
    """Run a server in a thread; what is asked before it has begun waits for it."""
    server = Server(config)
    thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]}, daemon=True)
    thread.start()
    try:
        yield
    finally:
        server.should_exit = True
        thread.join(10)


@contextmanager
def serving(app: ASGIApp, port: int = 0) -> Generator[str]:
    """Serve an application on this machine, at any port or at this one; yield its address."""
    config = uvicorn.Config(app, log_config=None, access_log=False, timeout_graceful_shutdown=1)
    with socket.create_server(("127.0.0.1", port)) as listener, running(config, listener):
        yield f"http://127.0.0.1:{listener.getsockname()[1]}"


def serve_here(app: ASGIApp) -> None:
    """Serve an application on this machine until the process is ended; print the port, so that whoever began the process can read it."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        print(listener.getsockname()[1], flush=True)  # noqa: T201
        uvicorn.Server(uvicorn.Config(app, log_level="warning")).run([listener])


def asked_here(address: str) -> tuple[str, dict[str, str]]:
    """Return where a client asks that does not resolve the page's own name, and with which header."""
    parts = urlsplit(address)
    return parts._replace(netloc=f"127.0.0.1:{parts.port}").geturl(), {"Host": parts.netloc}


def enter(client: httpx2.Client, entrance: str) -> httpx2.Response:
    """Send the code of an address as the button on its page does; return the response."""
    address, _, code = entrance.partition("?code=")
    headers = {"Sec-Fetch-Site": "same-origin", "Origin": "null"}
    return client.post(address, data={"code": code}, headers=headers)


def free_port() -> int:
    """Return a port that nobody has, to be taken later: none of those that the system gives to connections and servers meanwhile."""
    while True:
        port = _CHANCE.choice(_GIVEN_TO_NONE)
        with suppress(OSError), socket.create_server(("127.0.0.1", port)):
            return port


def wait_until_taken(port: int) -> None:
    """Wait until somebody listens at a port of this machine."""
    deadline = time.monotonic() + 60
    while True:
        try:
            socket.create_connection(("127.0.0.1", port), timeout=5).close()
        except ConnectionRefusedError:
            assert time.monotonic() < deadline, f"nobody listens at port {port}"
            time.sleep(0.02)
        else:
            return
