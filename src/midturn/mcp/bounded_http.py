"""Transports to MCP servers, over the pipes of a child process and over HTTP, with a limit on
the size of each message.
"""

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

# --------------------------------------------------------------------------------------------------
# Splitting a stream into lines. Each line is one message.


MAX_MESSAGE_SIZE: Final = 16 * 1024 * 1024
"""Maximum size of one message in bytes. A message may contain images."""
SIZE_TEXT: Final = f"{MAX_MESSAGE_SIZE // 1024 // 1024} MB"
TOO_LARGE_CODE: Final = -32098
"""JSON-RPC error code that a call receives if its answer exceeds the limit."""
TOO_LARGE_TEXT: Final = (
    f"it is longer than {SIZE_TEXT}, the most that is taken at once. Ask for less of it in one call"
)
_MAX_LINE_SIZE = 256 * 1024 * 1024
# number of bytes kept from the start and from the end of an oversized message
_EDGE_SIZE = 4096
_ID = rb'"id"\s*:\s*(-?\d{1,18}|"[^"\\]{0,200}")'
_VERSION = rb'"jsonrpc"\s*:\s*"2\.0"'
_ID_BEFORE_RESULT = re.compile(
    rb"\s*\{\s*(?:"
    + _VERSION
    + rb"\s*,\s*)?"
    + _ID
    + rb"\s*,\s*(?:"
    + _VERSION
    + rb"\s*,\s*)?"
    + rb'"(?:result|error)"'
)
_ID_AFTER_RESULT = re.compile(
    rb"[\]}]\s*,\s*(?:"
    + _VERSION
    + rb"\s*,\s*)?"
    + _ID
    + rb"\s*(?:,\s*"
    + _VERSION
    + rb"\s*)?\}\s*\Z"
)
_RESULT_BEFORE_ID = re.compile(rb"\s*\{\s*(?:" + _VERSION + rb"\s*,\s*)?" + rb'"(?:result|error)"')


class OversizedLine(Struct, frozen=True):
    """A line above the size limit. Only its start and its end are kept."""

    beginning: bytes
    end: bytes

    @property
    def answers(self) -> int | str | None:
        """ID of the request that this line answers, or None if it cannot be determined. In the
        line, the ID can come before or after the result.
        """
        found = _ID_BEFORE_RESULT.match(self.beginning) or (
            _ID_AFTER_RESULT.search(self.end) if _RESULT_BEFORE_ID.match(self.beginning) else None
        )
        return cast("int | str", json.loads(found[1])) if found else None


class LineSplitter:
    """Splits received chunks into lines. The running time is linear in the size of the input."""

    def __init__(self, longest: int = MAX_MESSAGE_SIZE, endless: int = _MAX_LINE_SIZE) -> None:
        self._longest = longest
        self._endless = endless
        self._kept = bytearray()
        self._end = b""
        self._length = 0

    @property
    def is_too_long(self) -> bool:
        """Whether the current line is too long to keep reading until the line end."""
        return self._length > self._endless

    def take(self, piece: bytes) -> Iterator[bytes | OversizedLine]:
        """Yield the lines that end in this chunk."""
        *ended, rest = piece.split(b"\n")
        for line in ended:
            self._add(line)
            yield (
                OversizedLine(bytes(self._kept), self._end)
                if self._length > self._longest
                else bytes(self._kept)
            )
            self._kept, self._end, self._length = bytearray(), b"", 0
        self._add(rest)

    def _add(self, piece: bytes) -> None:
        self._length += len(piece)
        if self._length <= self._longest:
            self._kept += piece
            return
        before = self._end or bytes(self._kept[-_EDGE_SIZE:])
        self._end = (before + piece[-_EDGE_SIZE:])[-_EDGE_SIZE:]
        self._kept += piece[: max(0, _EDGE_SIZE - len(self._kept))]
        del self._kept[_EDGE_SIZE:]


Incoming: TypeAlias = MemoryObjectSendStream[SessionMessage | Exception]
Outgoing: TypeAlias = MemoryObjectReceiveStream[SessionMessage]
Streams: TypeAlias = tuple[
    MemoryObjectReceiveStream[SessionMessage | Exception], MemoryObjectSendStream[SessionMessage]
]
_LOG = logging.getLogger(__name__)
_CHUNK_SIZE = 64 * 1024
_FLUSH_TIMEOUT = 0.5  # maximum seconds to send queued messages before the server is closed
# maximum seconds for the server to exit by itself, and again after it is terminated
_EXIT_TIMEOUT = 2.0
_POLL_INTERVAL = 0.01
_CLOSED = (anyio.ClosedResourceError, anyio.BrokenResourceError)


@asynccontextmanager
async def start_server(
    spec: ServerSpec, errors: IO[bytes], report_failure: Callable[[str], None]
) -> AsyncGenerator[Streams]:
    """Start a server as a child process and connect its pipes. `report_failure` is called with the
    reason if the connection fails.

    Raises:
        OSError: The process cannot be started.
    """
    loop = asyncio.get_running_loop()
    transport, protocol = await loop.subprocess_exec(
        lambda: SubprocessStreamProtocol(limit=_CHUNK_SIZE, loop=loop),
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
    reader = asyncio.create_task(_read(_pipe(process.stdout), incoming, report_failure))
    writer = asyncio.create_task(_write(_pipe(process.stdin), outgoing, incoming))
    try:
        yield reading, writing
    finally:
        reading.close()
        writing.close()
        leaving = asyncio.create_task(_stop(process, transport, reader, writer))
        await asyncio.shield(leaving)  # stop the server even if this task is cancelled


async def _read(
    stdout: asyncio.StreamReader, incoming: Incoming, report_failure: Callable[[str], None]
) -> None:
    """Forward messages until the reader closes. Then discard all output, so that the server does
    not block on a full pipe.
    """
    lines = LineSplitter()
    with suppress(*_CLOSED, ConnectionError):
        async with incoming:
            while not lines.is_too_long and (piece := await stdout.read(_CHUNK_SIZE)):
                for line in lines.take(piece):
                    if isinstance(line, OversizedLine) and line.answers is None:
                        report_failure(f"it sent a message larger than {SIZE_TEXT}")
                        return
                    await _forward(line, incoming)
            if lines.is_too_long:
                report_failure("it sent a message that does not end")
                return
    with suppress(ConnectionError):
        while await stdout.read(_CHUNK_SIZE):
            pass


async def _forward(line: bytes | OversizedLine, incoming: Incoming) -> None:
    if isinstance(line, OversizedLine):
        error = types.ErrorData(code=TOO_LARGE_CODE, message=TOO_LARGE_TEXT)
        await incoming.send(
            SessionMessage(types.JSONRPCError(jsonrpc="2.0", id=line.answers, error=error))
        )
        return
    if not line.strip():
        return
    try:
        message = types.jsonrpc_message_adapter.validate_json(line, by_name=False)
    except ValueError as error:
        _LOG.debug("an MCP server sent a line that is not a JSON-RPC message")
        await incoming.send(error)
        return
    await incoming.send(SessionMessage(message))


async def _write(stdin: asyncio.StreamWriter, outgoing: Outgoing, incoming: Incoming) -> None:
    """Send outgoing messages. If the server stops reading, close the incoming stream, so that
    open calls fail.
    """
    try:
        async with outgoing:
            async for sent in outgoing:
                stdin.write(
                    sent.message.model_dump_json(by_alias=True, exclude_unset=True).encode() + b"\n"
                )
                await stdin.drain()
    except (*_CLOSED, ConnectionError):
        await incoming.aclose()


async def _stop(
    process: Process,
    transport: asyncio.SubprocessTransport,
    reader: asyncio.Task[None],
    writer: asyncio.Task[None],
) -> None:
    """Stop a server: close its input. If the server does not exit, terminate its process tree."""
    await asyncio.wait({writer}, timeout=_FLUSH_TIMEOUT)
    _pipe(process.stdin).close()
    if not await _has_exited(process):
        await terminate_posix_process_tree(cast("Any", process), _EXIT_TIMEOUT)
        await _has_exited(process)
    transport.close()
    reader.cancel()
    writer.cancel()
    await asyncio.gather(reader, writer, return_exceptions=True)


async def _has_exited(process: Process) -> bool:
    """Wait for the process to exit. Do not wait for the end of its output, because a descendant
    may keep the pipe open.
    """
    with anyio.move_on_after(_EXIT_TIMEOUT):
        while process.returncode is None:  # noqa: ASYNC110  waiting for the exit would also wait for the pipes
            await asyncio.sleep(_POLL_INTERVAL)
    return process.returncode is not None


def _pipe(stream: Any) -> Any:
    assert stream is not None  # noqa: S101  the process is created with pipes
    return stream


_BLANK_LINE = re.compile(rb"(?:\r\n|\n|\r(?!\n))(?:\r\n|\n|\r)")
# length in bytes of the longest blank line, including the preceding line end
_MAX_BLANK_LINE_SIZE: Final = 4
_REDIRECTS: Final = range(300, 400)
# HTTP status for a lost session according to the protocol; many servers instead send 400 with
# "session" in the body
_NOT_FOUND: Final = 404
_BAD_REQUEST: Final = 400
_SESSION: Final = "mcp-session-id"
_INCOMPLETE: Final = "it broke off before its end"


class BoundedClient(httpx2.AsyncClient):
    """HTTP client that limits the size of responses. Each waiting call receives a response. If the
    server's response cannot be used, this response is an error.

    Compressed responses are refused, because their size is known only after they are in memory.
    `has_lost_session` is true after the server reported that the session does not exist.
    """

    def __init__(self, headers: dict[str, str]) -> None:
        super().__init__(
            headers={**headers, "accept-encoding": "identity"},
            timeout=httpx2.Timeout(30, read=None),
        )
        self.has_lost_session = False

    async def send(self, request: httpx2.Request, **options: Any) -> httpx2.Response:
        """Send a request. The returned response has a size limit."""
        id, has_waiter = _waiter(request)  # noqa: A001  the wire's word
        try:
            response = await super().send(request, **options)
        except httpx2.TransportError as error:
            _LOG.debug("a request to an MCP server failed", exc_info=True)
            if request.method != "POST":
                raise
            return (
                _answer(request, id, str(error) or type(error).__name__)
                if has_waiter
                else httpx2.Response(202, request=request)
            )
        if request.method == "DELETE":  # this request ends the session; a failure does not matter
            await response.aclose()
            return httpx2.Response(200, request=request)
        coding = response.headers.get("content-encoding", "identity").strip().lower()
        kind = response.headers.get("content-type", "").partition(";")[0].strip().lower()
        stream = cast("httpx2.AsyncByteStream", response.stream)
        if coding != "identity":
            del response.headers["content-encoding"]
        if response.status_code in _REDIRECTS:
            response.stream = _EmptyStream(stream)
        elif kind == "text/event-stream":
            response.stream = _EventStream(stream, id, has_waiter=has_waiter, coding=coding)
        else:
            response.stream = document = _DocumentStream(stream, id, coding)
            if (
                has_waiter
                and _SESSION in request.headers
                and response.status_code in (_NOT_FOUND, _BAD_REQUEST)
            ):
                self.has_lost_session |= (
                    response.status_code == _NOT_FOUND
                    or b"session" in (await document.whole()).lower()
                )
        return response


class _Stream(httpx2.AsyncByteStream):
    def __init__(self, stream: httpx2.AsyncByteStream) -> None:
        self._stream = stream

    async def aclose(self) -> None:
        """Close the underlying stream."""
        await self._stream.aclose()


class _EmptyStream(_Stream):
    """Empty response, for messages that no caller waits for."""

    async def __aiter__(self) -> AsyncIterator[bytes]:
        return
        yield b""


class _DocumentStream(_Stream):
    """A response with one message, or with an error if the message cannot be used."""

    def __init__(self, stream: httpx2.AsyncByteStream, id: types.RequestId, coding: str) -> None:
        super().__init__(stream)
        self._id = id
        self._coding = coding
        self._read: bytes | None = None

    async def __aiter__(self) -> AsyncIterator[bytes]:
        yield await self.whole()

    async def whole(self) -> bytes:
        """Return the message. It is read from the connection on first use."""
        if self._read is None:
            self._read = await self._whole()
        return self._read

    async def _whole(self) -> bytes:
        if self._coding != "identity":
            return _error(self._id, TOO_LARGE_CODE, _compressed(self._coding))
        kept = bytearray()
        try:
            async for piece in self._stream:
                kept += piece
                if len(kept) > MAX_MESSAGE_SIZE:
                    return _error(self._id, TOO_LARGE_CODE, TOO_LARGE_TEXT)
        except httpx2.TransportError:
            return _error(self._id, TOO_LARGE_CODE, _INCOMPLETE)
        return bytes(kept)


class _EventStream(_Stream):
    """A stream of server-sent events. Each event is forwarded when it is complete.

    An event above the size limit ends the stream. If a call is waiting for this event, the call
    receives an error.
    """

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
            yield self._final_error(_compressed(self._coding))
            return
        kept = bytearray()
        async for piece in self._stream:
            searched = max(0, len(kept) - _MAX_BLANK_LINE_SIZE)
            kept += piece
            whole = max((blank.end() for blank in _BLANK_LINE.finditer(kept, searched)), default=0)
            if whole:
                yield bytes(kept[:whole])
                del kept[:whole]
            if len(kept) > MAX_MESSAGE_SIZE:
                yield self._final_error(TOO_LARGE_TEXT)
                return
        yield bytes(kept)

    def _final_error(self, why: str) -> bytes:
        if not self._has_waiter:
            raise httpx2.SSEError(why)
        return b"event: message\ndata: " + _error(self._id, TOO_LARGE_CODE, why) + b"\n\n"


def _waiter(request: httpx2.Request) -> tuple[types.RequestId, bool]:
    """Return the request id, and whether the sender waits for an answer."""
    if request.method != "POST":
        return 0, False
    message = members(json.loads(request.content))
    return cast("types.RequestId", message.get("id", 0)), "id" in message and "method" in message


def _answer(request: httpx2.Request, id: types.RequestId, why: str) -> httpx2.Response:
    content = _error(id, types.CONNECTION_CLOSED, why)
    return httpx2.Response(
        200, headers={"content-type": "application/json"}, content=content, request=request
    )


def _error(id: types.RequestId, code: int, message: str) -> bytes:
    error = types.JSONRPCError(
        jsonrpc="2.0", id=id, error=types.ErrorData(code=code, message=message)
    )
    return error.model_dump_json(by_alias=True, exclude_unset=True).encode()


def _compressed(coding: str) -> str:
    return f"it is compressed ({coding[:20]}), which was not asked for"
