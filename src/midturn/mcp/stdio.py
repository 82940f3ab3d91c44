"""A server as a child process. The SDK's own transport copies a message again for every piece of it that comes, and takes any length."""

from __future__ import annotations

import asyncio
import json
import logging
import re
from asyncio.subprocess import PIPE, Process, SubprocessStreamProtocol
from collections.abc import AsyncGenerator, Callable, Iterator
from contextlib import asynccontextmanager, suppress
from typing import IO, Any, Final, TypeAlias, cast

import anyio
from anyio.streams.memory import MemoryObjectReceiveStream, MemoryObjectSendStream
from mcp import types
from mcp.os.posix.utilities import terminate_posix_process_tree
from mcp.shared.message import SessionMessage
from msgspec import Struct

from midturn.mcp.spec import ServerSpec

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
