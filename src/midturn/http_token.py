"""Serves an ASGI application to HTTP clients that send a token."""

from __future__ import annotations

import secrets
import socket
from collections.abc import Callable, Sequence
from typing import Final

from msgspec import Struct
from starlette.datastructures import Headers
from starlette.responses import JSONResponse, Response
from starlette.types import ASGIApp, Receive, Scope, Send

from midturn.http import LOOPBACK, Listening, bound
from midturn.http_server import connection_of, serve

MIN_TOKEN_LENGTH: Final = 16


class TokenAccess(Struct, frozen=True, kw_only=True):
    """The clients that may connect.

    Args:
        token: The token that every request must contain.
        hosts: Allowed values of the `Host` header; None for all, behind a proxy.
        any_peer: Whether other users, and processes that agents started, may connect.
        public: Paths that can be read without the token.
    """

    token: str
    hosts: frozenset[str] | None
    any_peer: bool = False
    public: frozenset[str] = frozenset()


def new_token() -> str:
    """Return a random token."""
    return secrets.token_urlsafe(24)


def hosts_of(listening: Listening, port: int) -> frozenset[str] | None:
    """Return the allowed values of the `Host` header."""
    if listening.behind_proxy:
        return None
    names = LOOPBACK if listening.host in LOOPBACK else (listening.host,)
    return frozenset(f"[{name}]:{port}" if ":" in name else f"{name}:{port}" for name in names)


class TokenGuard:
    """Rejects requests without the token, with an unknown host name, or from a rejected peer."""

    def __init__(self, app: ASGIApp, access: TokenAccess) -> None:
        self._app = app
        self._access = access
        self._expected = f"Bearer {access.token}".encode()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Forward a request, or respond with the reason for its rejection."""
        refusal = await self._refusal(scope) if scope["type"] == "http" else None
        await (refusal or self._app)(scope, receive, send)

    async def _refusal(self, scope: Scope) -> Response | None:
        connection = None if self._access.any_peer else connection_of(scope)
        doubt = await connection.doubt() if connection else None
        if doubt is not None:
            return _refused(403, "not_your_own", f"This server refuses that program: {doubt.why}.")
        headers = Headers(scope=scope)
        hosts = headers.getlist("host")
        if self._access.hosts is not None and (
            len(hosts) != 1 or hosts[0].lower() not in self._access.hosts
        ):
            return _refused(421, "not_here", "This server does not accept this host name.")
        if scope["method"] == "OPTIONS":  # a browser asks which origins may send requests
            return None
        if scope["method"] in ("GET", "HEAD") and scope["path"] in self._access.public:
            return None
        given = headers.getlist("authorization")
        if len(given) != 1 or not secrets.compare_digest(given[0].encode(), self._expected):
            response = _refused(401, "unauthorized", "The token is missing or wrong.")
            response.headers["WWW-Authenticate"] = "Bearer"
            return response
        return None


def _refused(status: int, error: str, message: str) -> Response:
    return JSONResponse({"error": error, "message": message}, status)


class TokenServer:
    """Listens on an address, and serves clients that send the token.

    Args:
        listening: The address.
        token: The token.
        public: Paths that can be read without the token.

    Raises:
        ConfigError: The port is in use, or this process may not listen on it.
    """

    def __init__(self, listening: Listening, token: str, public: Sequence[str] = ()) -> None:
        self._listening = listening
        self._listeners: Sequence[socket.socket] = bound(listening)
        port = self._listeners[0].getsockname()[1]
        self._access = TokenAccess(
            token=token,
            hosts=hosts_of(listening, port),
            any_peer=listening.behind_proxy,
            public=frozenset(public),
        )
        host = f"[{listening.host}]" if ":" in listening.host else listening.host
        self.url = f"{listening.scheme}://{host}:{port}/"
        """Address of the server, without a proxy."""

    async def serve(self, app: ASGIApp, ready: Callable[[], None]) -> int:
        """Serve an application until a signal arrives. Return the number of the signal.

        Args:
            app: The application.
            ready: Called when the server accepts requests.
        """
        guarded = TokenGuard(app, self._access)
        return await serve(guarded, self._listening, [*self._listeners], ready, lambda: None)
