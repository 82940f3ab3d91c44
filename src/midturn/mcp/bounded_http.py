"""Streamable HTTP, of which no message is longer than can be held, and where what goes wrong with one request costs that request only."""

from __future__ import annotations

import json
import logging
import re
from collections.abc import AsyncIterator
from typing import Any, Final, cast

import httpx2
from mcp import types

from midturn.mcp.stdio import LONGEST, TOO_LONG, TOO_MUCH
from midturn.values.json_value import members

_LOG = logging.getLogger(__name__)
_BLANK_LINE = re.compile(rb"(?:\r\n|\n|\r(?!\n))(?:\r\n|\n|\r)")
_BLANK: Final = 4  # bytes of the longest blank line with the end of the line before it
_REDIRECTS: Final = range(300, 400)
_NOT_FOUND: Final = 404  # what the protocol says of a session that is gone; many servers say 400, and "session" in words
_BAD_REQUEST: Final = 400
_SESSION: Final = "mcp-session-id"
_BROKEN_OFF: Final = "it broke off before its end"


class BoundedClient(httpx2.AsyncClient):
    """Sends as its base does. Whoever waits for an answer gets one: where there is none that can be used, an error that says why.

    Nothing is taken that was compressed: how much it becomes is known only when it is in memory. `has_lost_session` is set when the server
    knows the session no more.
    """

    def __init__(self, headers: dict[str, str]) -> None:
        super().__init__(headers={**headers, "accept-encoding": "identity"}, timeout=httpx2.Timeout(30, read=None))
        self.has_lost_session = False

    async def send(self, request: httpx2.Request, **options: Any) -> httpx2.Response:
        """Send a request, and bound what comes back."""
        id, has_waiter = _waiter(request)  # noqa: A001  the wire's word
        try:
            response = await super().send(request, **options)
        except httpx2.TransportError as error:
            _LOG.debug("a request to an MCP server failed", exc_info=True)
            if request.method != "POST":
                raise
            return _answer(request, id, str(error) or type(error).__name__) if has_waiter else httpx2.Response(202, request=request)
        if request.method == "DELETE":  # the session is left, whatever the server thinks of that
            await response.aclose()
            return httpx2.Response(200, request=request)
        coding = response.headers.get("content-encoding", "identity").strip().lower()
        kind = response.headers.get("content-type", "").partition(";")[0].strip().lower()
        stream = cast("httpx2.AsyncByteStream", response.stream)
        if coding != "identity":
            del response.headers["content-encoding"]
        if response.status_code in _REDIRECTS:
            response.stream = _Nothing(stream)
        elif kind == "text/event-stream":
            response.stream = _Events(stream, id, has_waiter=has_waiter, coding=coding)
        else:
            response.stream = document = _Document(stream, id, coding)
            if has_waiter and _SESSION in request.headers and response.status_code in (_NOT_FOUND, _BAD_REQUEST):
                self.has_lost_session |= response.status_code == _NOT_FOUND or b"session" in (await document.whole()).lower()
        return response


class _Stream(httpx2.AsyncByteStream):
    def __init__(self, stream: httpx2.AsyncByteStream) -> None:
        self._stream = stream

    async def aclose(self) -> None:
        """Close what it is taken from."""
        await self._stream.aclose()


class _Nothing(_Stream):
    """Messages without a reader."""

    async def __aiter__(self) -> AsyncIterator[bytes]:
        return
        yield b""


class _Document(_Stream):
    """One message: whole, or the error in its place."""

    def __init__(self, stream: httpx2.AsyncByteStream, id: types.RequestId, coding: str) -> None:
        super().__init__(stream)
        self._id = id
        self._coding = coding
        self._read: bytes | None = None

    async def __aiter__(self) -> AsyncIterator[bytes]:
        yield await self.whole()

    async def whole(self) -> bytes:
        """Return the message; it is read once."""
        if self._read is None:
            self._read = await self._whole()
        return self._read

    async def _whole(self) -> bytes:
        if self._coding != "identity":
            return _error(self._id, TOO_LONG, _compressed(self._coding))
        kept = bytearray()
        try:
            async for piece in self._stream:
                kept += piece
                if len(kept) > LONGEST:
                    return _error(self._id, TOO_LONG, TOO_MUCH)
        except httpx2.TransportError:
            return _error(self._id, TOO_LONG, _BROKEN_OFF)
        return bytes(kept)


class _Events(_Stream):
    """Events, each passed on when it is there whole. One that is too long ends them: with the error, where a call waits for an answer."""

    def __init__(
        self,
        stream: httpx2.AsyncByteStream,
        id: types.RequestId,
        *,
        has_waiter: bool,
        coding: str,
    ) -> None:
        super().__init__(stream)
        self._id = id
        self._has_waiter = has_waiter
        self._coding = coding

    async def __aiter__(self) -> AsyncIterator[bytes]:
        if self._coding != "identity":
            yield self._given_up(_compressed(self._coding))
            return
        kept = bytearray()
        async for piece in self._stream:
            searched = max(0, len(kept) - _BLANK)
            kept += piece
            whole = max((blank.end() for blank in _BLANK_LINE.finditer(kept, searched)), default=0)
            if whole:
                yield bytes(kept[:whole])
                del kept[:whole]
            if len(kept) > LONGEST:
                yield self._given_up(TOO_MUCH)
                return
        yield bytes(kept)

    def _given_up(self, why: str) -> bytes:
        if not self._has_waiter:
            raise httpx2.SSEError(why)
        return b"event: message\ndata: " + _error(self._id, TOO_LONG, why) + b"\n\n"


def _waiter(request: httpx2.Request) -> tuple[types.RequestId, bool]:
    """Return the id of the call that waits for an answer, and whether there is one."""
    if request.method != "POST":
        return 0, False
    message = members(json.loads(request.content))
    return cast("types.RequestId", message.get("id", 0)), "id" in message and "method" in message


def _answer(request: httpx2.Request, id: types.RequestId, why: str) -> httpx2.Response:
    content = _error(id, types.CONNECTION_CLOSED, why)
    return httpx2.Response(200, headers={"content-type": "application/json"}, content=content, request=request)


def _error(id: types.RequestId, code: int, message: str) -> bytes:
    error = types.JSONRPCError(jsonrpc="2.0", id=id, error=types.ErrorData(code=code, message=message))
    return error.model_dump_json(by_alias=True, exclude_unset=True).encode()


def _compressed(coding: str) -> str:
    return f"it is compressed ({coding[:20]}), which was not asked for"
