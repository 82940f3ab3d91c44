"""Request bodies that are too large, too slow, too many or incomplete, over real connections to
the page, its API and MCP.
"""

from __future__ import annotations

import asyncio
import logging
import socket
from collections.abc import Callable, Generator
from contextlib import contextmanager

import pytest
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Route
from starlette.types import ASGIApp, Receive, Scope, Send

import midturn as mt
from midturn.http_body import BodyLimits, BodyRefused, admit
from midturn.integrations.mcp_server.server import (
    _TokenGuard,
)
from midturn.stores.memory_conversations import MemoryStore
from midturn.web import inbox
from midturn.web.request_checks import RequestGate, body_refused
from support.pages import agent_with, asking, wait_for
from support.serving import serving
from support.waiting import until

LIMITS = BodyLimits(seconds=0.5, bytes=4_000, stranger_bytes=1_000, strangers=3)
SLOW = BodyLimits(seconds=60, bytes=4_000, stranger_bytes=1_000, strangers=3)
FORM = "application/x-www-form-urlencoded"


async def _length(request: Request) -> Response:
    """Return the length of the body. Requests with the header `x-signed-in` count as signed in."""
    if request.headers.get("x-signed-in"):
        admit(request.scope)
    return PlainTextResponse(str(len(await request.body())))


def _gated(limits: BodyLimits) -> ASGIApp:
    async def refused(request: Request, error: Exception) -> Response:
        assert isinstance(error, BodyRefused)
        return body_refused(request.scope, error)

    app = Starlette(
        routes=[Route("/", _length, methods=["POST"])], exception_handlers={BodyRefused: refused}
    )
    return RequestGate(app, None, "any", limits)


@contextmanager
def connected(address: str) -> Generator[socket.socket]:
    port = int(address.rpartition(":")[2])
    with socket.create_connection(("127.0.0.1", port), timeout=120) as connection:
        yield connection


def head(length: int, path: str = "/", **headers: str) -> bytes:
    """Return the head of a request."""
    named = {
        "Host": "x",
        "Content_Type": FORM,
        "Origin": "http://x",
        "Content_Length": str(length),
        **headers,
    }
    lines = "".join(f"{name.replace('_', '-')}: {value}\r\n" for name, value in named.items())
    return f"POST {path} HTTP/1.1\r\n{lines}\r\n".encode()


def answer(connection: socket.socket) -> bytes:
    """Read one response."""
    read = connection.makefile("rb")
    lines = [read.readline()]
    while lines[-1] not in (b"\r\n", b""):
        lines.append(read.readline())
    lengths = [
        int(line.partition(b":")[2])
        for line in lines
        if line.lower().startswith(b"content-length:")
    ]
    return b"".join(lines) + read.read(sum(lengths))


def test_incomplete_body_times_out_and_closes_the_connection() -> None:
    with serving(_gated(LIMITS)) as address, connected(address) as connection:
        connection.sendall(head(100) + b"half")
        said = answer(connection)
        assert said.startswith(b"HTTP/1.1 408")
        assert b"The request was incomplete after" in said
        assert connection.recv(100) == b""


def test_slow_body_does_not_extend_the_timeout() -> None:
    with serving(_gated(LIMITS)) as address, connected(address) as connection:
        connection.sendall(head(1_000))
        connection.settimeout(0.05)
        said = b""
        for _ in range(400):
            try:
                connection.sendall(b"x")
                said += connection.recv(65_536)
            except TimeoutError:
                continue
            except OSError:
                break
            break
        assert said.startswith(b"HTTP/1.1 408")


@pytest.mark.parametrize(
    ("headers", "size", "status"),
    [({}, 1_000, 200), ({}, 1_001, 413), ({"X_Signed_In": "1"}, 4_000, 200)],
)
def test_body_limit_is_lower_for_strangers(headers: dict[str, str], size: int, status: int) -> None:
    with serving(_gated(LIMITS)) as address, connected(address) as connection:
        connection.sendall(head(size, **headers) + b"x" * size)
        said = answer(connection)
        assert said.startswith(b"HTTP/1.1 %d" % status), said


def test_body_limit_applies_to_signed_in_users() -> None:
    with serving(_gated(LIMITS)) as address, connected(address) as connection:
        connection.sendall(head(4_001, X_Signed_In="1") + b"x" * 4_001)
        assert answer(connection).startswith(b"HTTP/1.1 413")


def test_oldest_unfinished_body_of_strangers_is_dropped_at_the_limit() -> None:
    with serving(_gated(SLOW)) as address:
        opened = [
            socket.create_connection(("127.0.0.1", int(address.rpartition(":")[2])), timeout=120)
            for _ in range(5)
        ]
        try:
            for connection in opened:
                connection.sendall(head(10) + b"x")
                if connection is not opened[-1]:
                    _settle(address)
            assert answer(opened[0]).startswith(b"HTTP/1.1 408")
            opened[-1].sendall(b"x" * 9)
            assert answer(opened[-1]).startswith(b"HTTP/1.1 200")
        finally:
            for connection in opened:
                connection.close()


def _settle(address: str) -> None:
    """Wait until the server has read everything sent before: send a complete request and wait for
    its response.
    """
    with connected(address) as connection:
        connection.sendall(head(1, X_Signed_In="1") + b"x")
        assert answer(connection).startswith(b"HTTP/1.1 200")


def _page(path: str) -> tuple[ASGIApp, str]:
    store = MemoryStore()
    waiting = wait_for(agent_with(store, asking(mt.Question.boolean("go", "Deploy?"))))
    return inbox(store, user=lambda _: "ada"), path.format(waiting.id)


async def _echo(scope: Scope, receive: Receive, send: Send) -> None:
    """Read a body like the MCP library does."""
    await PlainTextResponse(str(len(await Request(scope, receive).body())))(scope, receive, send)


def _mcp() -> tuple[ASGIApp, str]:
    return _TokenGuard(_echo, "secret", any_user=True), "/mcp"


SECRET = {"Authorization": "Bearer secret"}
SERVERS: dict[str, tuple[Callable[[], tuple[ASGIApp, str]], dict[str, str]]] = {
    "page": (lambda: _page("/q/{}"), {}),
    "API": (lambda: _page("/api/questions/{}/answer"), {"Content_Type": "application/json"}),
    "MCP": (_mcp, SECRET),
}


@pytest.mark.parametrize("name", SERVERS)
def test_client_disconnect_logs_one_line_without_traceback(
    name: str, caplog: pytest.LogCaptureFixture
) -> None:
    make, headers = SERVERS[name]
    app, path = make()
    caplog.set_level(logging.INFO)

    def lines() -> list[str]:
        return [
            record.getMessage()
            for record in caplog.records
            if "client disconnected" in record.getMessage()
        ]

    with serving(app) as address:
        with connected(address) as connection:
            connection.sendall(head(1_000, path, **headers) + b"half")
        asyncio.run(until(lines))
    assert lines() == [f"client disconnected before the end of its request: POST {path}"]
    assert not any(record.exc_info for record in caplog.records)
    assert not any(record.levelno >= logging.ERROR for record in caplog.records)


def test_mcp_body_is_read_completely_and_limited() -> None:
    app, path = _mcp()
    with serving(app) as address:
        with connected(address) as connection:
            connection.sendall(head(100_000, path, **SECRET) + b"x" * 100_000)
            assert answer(connection).endswith(b"\r\n\r\n100000")
        with connected(address) as connection:
            connection.sendall(head(2**40, path, **SECRET))
            with pytest.raises(OSError):  # noqa: PT011  the server closes the connection while the body is sent
                connection.sendall(b"x" * 65_536 * 1_000)
