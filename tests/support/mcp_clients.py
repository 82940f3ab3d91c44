"""Clients of `midturn mcp`: honest ones, and clients that answer without a person."""

from __future__ import annotations

import asyncio
import os
import re
from collections.abc import AsyncGenerator, Generator, Mapping, Sequence
from contextlib import asynccontextmanager, contextmanager, suppress
from typing import Any, ClassVar, Literal, TypeAlias

import anyio
import httpx2
from anyio.streams.memory import MemoryObjectReceiveStream, MemoryObjectSendStream
from mcp import Client, types
from mcp.client.context import ClientRequestContext
from mcp.client.extension import ClaimContext, ClientExtension, ResultClaim
from mcp.client.streamable_http import streamable_http_client
from mcp.shared.message import SessionMessage
from msgspec import Struct
from pydantic import Field

from support.cli import CommandLine
from support.warm_commands import Command, exit_status, read_whole, start_warm

LEGACY, MODERN = "legacy", "2026-07-28"
ERAS = (LEGACY, MODERN)
_LONGEST_LINE = 2**26


class Person:
    """Answers a client's dialog after a delay. `shown` are the dialogs shown so far."""

    def __init__(
        self,
        action: Any = "accept",
        content: Mapping[str, Any] | None = None,
        *,
        after: float = 0.5,
    ) -> None:
        self.action = action
        self.content = dict(content) if content is not None else None
        self.after = after
        self.shown: list[types.ElicitRequestParams] = []

    async def __call__(
        self, context: ClientRequestContext, params: types.ElicitRequestParams
    ) -> types.ElicitResult:
        """Record the form, wait, and answer."""
        del context
        self.shown.append(params)
        await asyncio.sleep(self.after)
        return types.ElicitResult(action=self.action, content=self.content)


@asynccontextmanager
async def connected(
    midturn: CommandLine,
    *options: str,
    name: str = "claude-code",
    person: Person | None = None,
    era: str = LEGACY,
    extensions: Sequence[ClientExtension] = (),
    **environment: str,
) -> AsyncGenerator[Client]:
    """Fork the server and connect a client with this name. Without `person`, the client cannot
    show forms.
    """
    info = types.Implementation(name=name, version="1")
    server = _over_pipes(midturn.command("mcp", *options, **environment))
    async with Client(
        server, mode=era, client_info=info, elicitation_callback=person, extensions=extensions
    ) as client:
        yield client


Streams: TypeAlias = tuple[
    MemoryObjectReceiveStream[SessionMessage | Exception], MemoryObjectSendStream[SessionMessage]
]


@asynccontextmanager
async def _over_pipes(command: Command) -> AsyncGenerator[Streams]:
    """Connect to a forked server that reads and writes one message per line, until its input is
    closed and it has ended.
    """
    pipes, loop = start_warm(command), asyncio.get_running_loop()
    errors = asyncio.ensure_future(asyncio.to_thread(read_whole, pipes.err))
    lines = asyncio.StreamReader(limit=_LONGEST_LINE)
    out, _ = await loop.connect_read_pipe(
        lambda: asyncio.StreamReaderProtocol(lines), os.fdopen(pipes.out, "rb", 0)
    )
    heard, incoming = anyio.create_memory_object_stream[SessionMessage | Exception]()
    outgoing, said = anyio.create_memory_object_stream[SessionMessage]()

    async def listen() -> None:
        with suppress(anyio.BrokenResourceError):
            async for line in lines:
                await heard.send(
                    SessionMessage(types.jsonrpc_message_adapter.validate_json(line, by_name=False))
                )
        heard.close()

    async def speak() -> None:
        with os.fdopen(pipes.feed, "wb", 0) as feed, suppress(BrokenPipeError):
            async for message in said:
                line = message.message.model_dump_json(by_alias=True, exclude_unset=True)
                await asyncio.to_thread(feed.write, f"{line}\n".encode())
        said.close()

    listening, speaking = asyncio.ensure_future(listen()), asyncio.ensure_future(speak())
    try:
        yield incoming, outgoing
    finally:
        incoming.close()
        outgoing.close()
        with anyio.CancelScope(shield=True):
            await asyncio.gather(
                speaking, asyncio.to_thread(exit_status, pipes.ended), errors, listening
            )
        out.close()


class HttpServer(Struct, frozen=True):
    """The address and token of a server over HTTP."""

    url: str
    token: str


@contextmanager
def served(midturn: CommandLine, *options: str) -> Generator[HttpServer]:
    server = midturn.start("mcp", "--http", "0", *options)
    assert server.stderr
    try:
        said = re.search(r"serving (\S+)\. .*Bearer (\S+)`", server.stderr.readline())
        assert said
        yield HttpServer(said[1], said[2])
    finally:
        server.terminate()
        server.communicate()


@asynccontextmanager
async def connected_to(
    server: HttpServer, name: str = "claude-code", person: Person | None = None, era: str = LEGACY
) -> AsyncGenerator[Client]:
    """Connect a client over HTTP; see `connected`."""
    info = types.Implementation(name=name, version="1")
    async with httpx2.AsyncClient(
        headers={"Authorization": f"Bearer {server.token}"}, timeout=120
    ) as http:
        transport = streamable_http_client(server.url, http_client=http)
        async with Client(
            transport, mode=era, client_info=info, elicitation_callback=person
        ) as client:
            yield client


async def in_thread(work: Any, *arguments: Any) -> Any:
    """Run a blocking function in a thread while the client continues."""
    return await asyncio.to_thread(work, *arguments)


# Calls that become tasks
# --------------------------------------------------------------------------------------------------

TASKS = "io.modelcontextprotocol/tasks"


class StartedTask(types.Result):
    """The result of a call that became a task."""

    result_type: Literal["task"] = "task"
    task_id: str
    status: str
    ttl_ms: int | None
    poll_interval_ms: int


class Task(types.Result):
    """The state of a task."""

    task_id: str = ""
    status: str = ""
    input_requests: dict[str, Any] = Field(default_factory=dict)
    result: dict[str, Any] | None = None
    error: dict[str, Any] | None = None


class TaskRequest(types.Request[dict[str, Any], str]):
    """A request about a task."""

    name_param: ClassVar[str | None] = "taskId"


class TaskExtension(ClientExtension):
    """Client extension that accepts tasks as results of calls. `begun` are the tasks that were
    started.
    """

    identifier = TASKS

    def __init__(self) -> None:
        self.begun: list[StartedTask] = []

    def claims(self) -> Sequence[ResultClaim[Any]]:
        """Claim results of type `task`."""
        return (ResultClaim(result_type="task", model=StartedTask, resolve=self._go_on),)

    async def _go_on(self, begun: StartedTask, context: ClaimContext) -> types.CallToolResult:
        del context
        self.begun.append(begun)
        return types.CallToolResult(content=[types.TextContent(type="text", text="It runs on.")])


async def send_task_request(client: Client, method: str, id: str, **params: Any) -> Task:
    """Send a request about a task."""
    return await client.session.send_request(
        TaskRequest(method=method, params={"taskId": id, **params}), Task
    )
