"""Clients with which the older version of the protocol is spoken, because a dialog of theirs can be closed from here only in that one."""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from typing import Final

import anyio
from anyio.streams.memory import MemoryObjectReceiveStream, MemoryObjectSendStream
from mcp import types
from mcp.shared.message import SessionMessage

from midturn.core.loose_json import members, text
from midturn.foreign.clients import client_of, is_alone
from midturn.servers.mcp.task import TASKS

_DISCOVER: Final = "server/discover"
_META: Final = "io.modelcontextprotocol/"
_UNKNOWN = types.ErrorData(code=types.METHOD_NOT_FOUND, message="Method not found")


def keeps_dialogs(params: object, environment: Mapping[str, str], *, tasks: bool) -> bool:
    """Say whether a client that asks for the newer version would keep its dialogs open in that one.

    A client that may leave calls to run on (`tasks`) is spoken with in the newer version all the same, which alone has that.
    """
    meta = members(members(params).get("_meta"))
    client = client_of(text(members(meta.get(f"{_META}clientInfo")).get("name")))
    extensions = members(members(meta.get(f"{_META}clientCapabilities")).get("extensions"))
    runs_on = tasks and TASKS in extensions
    return client.closes_only_pushed and not runs_on and not is_alone(client, environment, meta)


@asynccontextmanager
async def opened(
    reading: AsyncIterator[SessionMessage | Exception],
    refuse: Callable[[SessionMessage], Awaitable[None]],
    keeps: Callable[[object], bool],
) -> AsyncGenerator[MemoryObjectReceiveStream[SessionMessage | Exception]]:
    """Hand on what a client says, but for its question for the newer version where `keeps` says so of what comes with it."""
    handing, received = anyio.create_memory_object_stream[SessionMessage | Exception](0)
    async with anyio.create_task_group() as group:
        group.start_soon(_hand_on, reading, handing, refuse, keeps)
        yield received
        group.cancel_scope.cancel()


async def _hand_on(
    reading: AsyncIterator[SessionMessage | Exception],
    handing: MemoryObjectSendStream[SessionMessage | Exception],
    refuse: Callable[[SessionMessage], Awaitable[None]],
    keeps: Callable[[object], bool],
) -> None:
    async with handing:
        async for said in reading:
            asked = None if isinstance(said, Exception) else said.message
            if isinstance(asked, types.JSONRPCRequest) and asked.method == _DISCOVER and keeps(asked.params):
                await refuse(SessionMessage(types.JSONRPCError(jsonrpc="2.0", id=asked.id, error=_UNKNOWN)))
            else:
                await handing.send(said)
