"""Transports to a server, with bounds of ours: as a child process, and over HTTP."""

from __future__ import annotations

import asyncio
import json
import logging
import re
from asyncio.subprocess import PIPE, Process, SubprocessStreamProtocol
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, suppress
from typing import IO, Any, Final, TypeAlias, cast

import anyio
import httpx2
from anyio.streams.memory import MemoryObjectReceiveStream, MemoryObjectSendStream
from mcp import types
from mcp.os.posix.utilities import terminate_posix_process_tree
from mcp.shared.message import SessionMessage
from msgspec import Struct

from midturn.mcp.spec import ServerSpec
from midturn.question.json_value import members

# ----------------------------------------------------------------------------------------------------------------------
# Lines out of a stream, each one message, and none of them longer than can be held


LONGEST: Final = 16 * 1024 * 1024
"""Bytes of one message: pictures are in it, too."""
LIMIT: Final = f"{LONGEST // 1024 // 1024} MB"
TOO_LONG: Final = -32098
"""The code under which a call hears that its answer cannot be taken."""
TOO_MUCH: Final = f"it is longer than {LIMIT}, the most that is taken at once. Ask for less of it in one call"
_ENDLESS = 256 * 1024 * 1024
_SHOWN = 4096  # bytes at both ends of what is longer
_ID = rb'"id"\s*:\s*(-?\d{1,18}|"[^"\\]{0,200}")'
_VERSION = rb'"jsonrpc"\s*:\s*"2\.0"'
_FIRST = re.compile(rb"\s*\{\s*(?:" + _VERSION + rb"\s*,\s*)?" + _ID + rb"\s*,\s*(?:" + _VERSION + rb"\s*,\s*)?" + rb'"(?:result|error)"')
_LAST = re.compile(rb"[\]}]\s*,\s*(?:" + _VERSION + rb"\s*,\s*)?" + _ID + rb"\s*(?:,\s*" + _VERSION + rb"\s*)?\}\s*\Z")
_RESULT_FIRST = re.compile(rb"\s*\{\s*(?:" + _VERSION + rb"\s*,\s*)?" + rb'"(?:result|error)"')


class Overlong(Struct, frozen=True):
    """A line that is longer than may be: what is left of it are both ends."""

    beginning: bytes
    end: bytes

    @property
    def answers(self) -> int | str | None:
        """The request that it answers: its id stands before the result or after it. None where that is not to be seen."""
        found = _FIRST.match(self.beginning) or (_LAST.search(self.end) if _RESULT_FIRST.match(self.beginning) else None)
        return cast("int | str", json.loads(found[1])) if found else None


class Lines:
    """Takes what comes, piece by piece, in time that grows with its length only."""

    def __init__(self, longest: int = LONGEST, endless: int = _ENDLESS) -> None:
        self._longest = longest
        self._endless = endless
        self._kept = bytearray()
        self._end = b""
        self._length = 0

    @property
    def is_endless(self) -> bool:
        """Whether a line has become too long to wait for its end."""
        return self._length > self._endless

    def take(self, piece: bytes) -> Iterator[bytes | Overlong]:
        """Yield the lines that end in this piece."""
        *ended, rest = piece.split(b"\n")
        for line in ended:
            self._add(line)
            yield Overlong(bytes(self._kept), self._end) if self._length > self._longest else bytes(self._kept)
            self._kept, self._end, self._length = bytearray(), b"", 0
        self._add(rest)

    def _add(self, piece: bytes) -> None:
        self._length += len(piece)
        if self._length <= self._longest:
            self._kept += piece
            return
        before = self._end or bytes(self._kept[-_SHOWN:])
        self._end = (before + piece[-_SHOWN:])[-_SHOWN:]
        self._kept += piece[: max(0, _SHOWN - len(self._kept))]
        del self._kept[_SHOWN:]


Incoming: TypeAlias = MemoryObjectSendStream[SessionMessage | Exception]
Outgoing: TypeAlias = MemoryObjectReceiveStream[SessionMessage]
Streams: TypeAlias = tuple[MemoryObjectReceiveStream[SessionMessage | Exception], MemoryObjectSendStream[SessionMessage]]
_LOG = logging.getLogger(__name__)
_CHUNK = 64 * 1024
_FLUSH = 0.5  # seconds in which what was to be sent is sent, before the server is left
_PATIENCE = 2.0  # seconds that it has to end by itself, and then after it was told to
_LOOK = 0.01
_CLOSED = (anyio.ClosedResourceError, anyio.BrokenResourceError)


@asynccontextmanager
async def started(spec: ServerSpec, errors: IO[bytes], broke: Callable[[str], None]) -> AsyncGenerator[Streams]:
    """Start a server, and speak with it; `broke` hears why it is spoken with no more.

    Raises:
        OSError: It cannot be started.
    """
    loop = asyncio.get_running_loop()
    transport, protocol = await loop.subprocess_exec(
        lambda: SubprocessStreamProtocol(limit=_CHUNK, loop=loop),
        *spec.command,
        stdin=PIPE,
        stdout=PIPE,
        stderr=errors,
        cwd=spec.cwd,
        env=dict(spec.environment),
        start_new_session=True,
    )
    process = Process(transport, protocol, loop)
    incoming, reading = anyio.create_memory_object_stream[SessionMessage | Exception](0)
    writing, outgoing = anyio.create_memory_object_stream[SessionMessage](0)
    reader = asyncio.create_task(_read(_of(process.stdout), incoming, broke))
    writer = asyncio.create_task(_write(_of(process.stdin), outgoing, incoming))
    try:
        yield reading, writing
    finally:
        reading.close()
        writing.close()
        leaving = asyncio.create_task(_left(process, transport, reader, writer))
        await asyncio.shield(leaving)  # a server that is not waited for any more is ended all the same


async def _read(stdout: asyncio.StreamReader, incoming: Incoming, broke: Callable[[str], None]) -> None:
    """Hand messages on; when they are taken no more, what still comes is dropped, so that the server is not stuck at its end."""
    lines = Lines()
    with suppress(*_CLOSED, ConnectionError):
        async with incoming:
            while not lines.is_endless and (piece := await stdout.read(_CHUNK)):
                for line in lines.take(piece):
                    if isinstance(line, Overlong) and line.answers is None:
                        broke(f"it sent a message of more than {LIMIT}")
                        return
                    await _hand_on(line, incoming)
            if lines.is_endless:
                broke("it sent a message without end")
                return
    with suppress(ConnectionError):
        while await stdout.read(_CHUNK):
            pass


async def _hand_on(line: bytes | Overlong, incoming: Incoming) -> None:
    if isinstance(line, Overlong):
        error = types.ErrorData(code=TOO_LONG, message=TOO_MUCH)
        await incoming.send(SessionMessage(types.JSONRPCError(jsonrpc="2.0", id=line.answers, error=error)))
        return
    if not line.strip():
        return
    try:
        message = types.jsonrpc_message_adapter.validate_json(line, by_name=False)
    except ValueError as error:
        _LOG.debug("an MCP server sent something that is not a message")
        await incoming.send(error)
        return
    await incoming.send(SessionMessage(message))


async def _write(stdin: asyncio.StreamWriter, outgoing: Outgoing, incoming: Incoming) -> None:
    """Send what is to be sent. A server that takes no more is gone, also for calls that wait for its answer."""
    try:
        async with outgoing:
            async for sent in outgoing:
                stdin.write(sent.message.model_dump_json(by_alias=True, exclude_unset=True).encode() + b"\n")
                await stdin.drain()
    except (*_CLOSED, ConnectionError):
        await incoming.aclose()


async def _left(process: Process, transport: asyncio.SubprocessTransport, reader: asyncio.Task[None], writer: asyncio.Task[None]) -> None:
    """Let a server end: first by itself, when it hears no more, then with everything that it has started."""
    await asyncio.wait({writer}, timeout=_FLUSH)
    _of(process.stdin).close()
    if not await _has_exited(process):
        await terminate_posix_process_tree(cast("Any", process), _PATIENCE)
        await _has_exited(process)
    transport.close()
    reader.cancel()
    writer.cancel()
    await asyncio.gather(reader, writer, return_exceptions=True)


async def _has_exited(process: Process) -> bool:
    """Wait a while for its end; not for that of its output, which a descendant may hold open."""
    with anyio.move_on_after(_PATIENCE):
        while process.returncode is None:  # noqa: ASYNC110  nothing else tells
            await asyncio.sleep(_LOOK)
    return process.returncode is not None


def _of(stream: Any) -> Any:
    assert stream is not None  # noqa: S101  all of them are pipes
    return stream


_BLANK_LINE = re.compile(rb"(?:\r\n|\n|\r(?!\n))(?:\r\n|\n|\r)")
_BLANK: Final = 4  # bytes of the longest blank line with the end of the line before it
_REDIRECTS: Final = range(300, 400)
_NOT_FOUND: Final = 404  # what the protocol says of a session that is gone; many servers say 400, and "session" in words
_BAD_REQUEST: Final = 400
_SESSION: Final = "mcp-session-id"
_BROKEN_OFF: Final = "it broke off before its end"


class BoundedClient(httpx2.AsyncClient):
    """Sends as its base does. A caller that waits for an answer gets one: where there is none that can be used, an error that says why.

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
