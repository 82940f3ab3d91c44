"""What every request passes before it reaches a page, and what every response leaves with."""

from __future__ import annotations

from collections.abc import Collection
from typing import Final
from urllib.parse import SplitResult, urlsplit

from starlette.datastructures import Headers, MutableHeaders
from starlette.responses import JSONResponse, PlainTextResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

MOST_BYTES: Final = 2 * 1024 * 1024
_READS: Final = frozenset({"GET", "HEAD"})
_POLICY: Final = (
    "default-src 'none'; style-src 'self'; script-src 'self'; connect-src 'self'; img-src 'self'; "
    "form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
)
_HEADERS: Final = {
    "Content-Security-Policy": _POLICY,
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Permissions-Policy": "camera=(), geolocation=(), microphone=()",
}


class RequestGate:
    """Refuses requests under a foreign name, writes that another site sends, and bodies that are too large.

    `hosts` are the names under which the page may be asked for, with their ports; None leaves that to the program around it.
    """

    def __init__(self, app: ASGIApp, hosts: Collection[str] | None) -> None:
        self._app = app
        self._hosts = None if hosts is None else frozenset(host.lower() for host in hosts)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Let a request through, or say why not."""
        if scope["type"] == "lifespan":
            await self._app(scope, receive, send)
            return
        if scope["type"] != "http":
            await send({"type": "websocket.close", "code": 1008})
            return
        refusal = self._refusal(scope, Headers(scope=scope)) if scope["query_string"].isascii() else _unreadable(scope)
        app = self._app if refusal is None else refusal
        await app(scope, _Limited(receive).receive, _leaving(send))

    def _refusal(self, scope: Scope, headers: Headers) -> Response | None:
        names = headers.getlist("host")
        if len(names) != 1 or (self._hosts is not None and names[0].lower() not in self._hosts):
            return _refused(scope, 421, "not_here", "This page is not here under that name: the Host is not its own.")
        if scope["method"] not in _READS and not self._comes_from_here(headers, names[0]):
            said = "Another site sent this, so nothing was done. Open the page itself, and try there."
            return _refused(scope, 403, "another_site", said)
        if _announced(headers) > MOST_BYTES:
            return too_large(scope)
        return None

    def _comes_from_here(self, headers: Headers, host: str) -> bool:
        """Say whether a write was sent by a page of ours, or by a program that is not a browser.

        A browser always says where a write comes from: in `Sec-Fetch-Site`, which no page can set, or, an older one, in `Origin`. (Under
        our referrer policy the latter is `null` for our own forms.) Only a program says neither, and no page can send JSON like one.
        """
        site, origin = headers.get("sec-fetch-site"), headers.get("origin")
        named = origin not in (None, "null")
        if named and not self._is_ours(_split(origin or ""), host) and (self._hosts is not None or site is None):
            return False
        if site is not None:
            return site == "same-origin"
        return named or (origin is None and _media_type(headers) == "application/json")

    def _is_ours(self, origin: SplitResult, host: str) -> bool:
        ours = {host.lower()} if self._hosts is None else self._hosts
        return origin.scheme in {"http", "https"} and origin.netloc.lower() in ours


def _split(origin: str) -> SplitResult:
    """Read an origin; anything else is nobody's."""
    try:
        return urlsplit(origin)
    except ValueError:
        return SplitResult("", "", "", "", "")


def _unreadable(scope: Scope) -> Response:
    """Say that an address cannot be one: whatever is not ASCII is escaped in it."""
    return _refused(scope, 400, "not_readable", "This is not a valid address.")


def too_large(scope: Scope) -> Response:
    """Say that a body is too large."""
    return _refused(scope, 413, "too_large", f"This is too much: a request holds at most {MOST_BYTES // 1024 // 1024} MiB.")


def is_for_programs(scope: Scope) -> bool:
    """Say whether a request is one of the API's, whose errors are JSON."""
    return scope["path"].removeprefix(scope.get("root_path", "")).startswith("/api/")


def _refused(scope: Scope, status: int, error: str, message: str) -> Response:
    if is_for_programs(scope):
        return JSONResponse({"error": error, "message": message}, status)
    return PlainTextResponse(f"{message}\n", status)


class TooLarge(Exception):  # noqa: N818  it says what the body is
    """A body is longer than it said, or than it may be."""


class _Limited:
    """Counts what arrives: a body need not announce its length, or tell the truth about it."""

    def __init__(self, receive: Receive) -> None:
        self._receive = receive
        self._read = 0

    async def receive(self) -> Message:
        message = await self._receive()
        self._read += len(message.get("body", b""))
        if self._read > MOST_BYTES:
            raise TooLarge
        return message


def _leaving(send: Send) -> Send:
    """Add the headers that every response has."""

    async def with_headers(message: Message) -> None:
        if message["type"] == "http.response.start":
            headers = MutableHeaders(scope=message)
            for name, value in _HEADERS.items():
                headers[name] = value
            headers.setdefault("Cache-Control", "no-store")
        await send(message)

    return with_headers


def _media_type(headers: Headers) -> str:
    return headers.get("content-type", "").partition(";")[0].strip().lower()


def _announced(headers: Headers) -> int:
    length = headers.get("content-length", "0")
    return int(length) if length.isascii() and length.isdecimal() and len(length) < len(str(MOST_BYTES)) + 3 else MOST_BYTES + 1
