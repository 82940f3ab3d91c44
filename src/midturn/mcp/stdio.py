"""A server as a child process. The SDK's own transport copies a message again for every piece of it that comes, and takes any length."""

from __future__ import annotations

import asyncio
import logging
from asyncio.subprocess import PIPE, Process, SubprocessStreamProtocol
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager, suppress
from typing import IO, Any, TypeAlias, cast

import anyio
from anyio.streams.memory import MemoryObjectReceiveStream, MemoryObjectSendStream
from mcp import types
from mcp.os.posix.utilities import terminate_posix_process_tree
from mcp.shared.message import SessionMessage

from midturn.mcp.lines import LIMIT, TOO_LONG, TOO_MUCH, Lines, Overlong
from midturn.mcp.spec import ServerSpec

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
        await asyncio.shield(leaving)  # whoever is not waited for any more is ended all the same


async def _read(stdout: asyncio.StreamReader, incoming: Incoming, broke: Callable[[str], None]) -> None:
    """Hand messages on; when nobody takes them any more, what still comes is dropped, so that the server is not stuck at its end."""
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
    """Send what is to be sent. A server that takes no more is gone, for whoever waits for an answer of it, too."""
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
