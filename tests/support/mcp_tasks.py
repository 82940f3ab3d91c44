"""`midturn mcp` in this process, and clients that leave a call to it to run on."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from mcp import Client, types
from mcp.server.lowlevel import Server

from midturn.clock import SYSTEM
from midturn.events.types import InquiryAnswered
from midturn.integrations.mcp_server.asking import ServerWait
from midturn.integrations.mcp_server.server import make_server
from midturn.stores.opening import FileStore
from support.mcp_clients import MODERN, LeavesToRunOn, Person, Task, about_task

_LOOK = 0.05
_PATIENCE = 60.0


def server_on(folder: Path, quickest: float = 0) -> Server[Any]:
    """Return a server in this process: how fast a person can be is not to depend on how fast this machine is."""
    return make_server(FileStore(folder), {}, SYSTEM, ServerWait(slice=0.2, quickest=quickest))


@asynccontextmanager
async def client_of(server: Server[Any], tasks: LeavesToRunOn, name: str = "claude-code") -> AsyncGenerator[tuple[Client, LeavesToRunOn]]:
    """Connect a client that can leave a call to run on, with a dialog, which tests drive by hand."""
    info = types.Implementation(name=name, version="1")
    async with Client(server, mode=MODERN, client_info=info, elicitation_callback=Person(), extensions=(tasks,)) as client:
        yield client, tasks


async def begun(client: Client, tasks: LeavesToRunOn, arguments: dict[str, Any], meta: Any = None) -> str:
    """Ask something; return the id of the task that it became."""
    result = await client.call_tool("ask_user", arguments, meta=meta)
    assert result.content[0].text == "It runs on.", result  # type: ignore[union-attr]
    return tasks.begun[-1].task_id


async def until(client: Client, id: str, status: str) -> Task:
    """Look until a task stands so."""

    async def look() -> Task:
        while (task := await about_task(client, "tasks/get", id)).status != status:  # noqa: ASYNC110  it is polled, as the protocol has it
            await asyncio.sleep(_LOOK)
        return task

    return await asyncio.wait_for(look(), _PATIENCE)


async def read(client: Client, id: str) -> dict[str, Any]:
    """Call `check_answer` until it returns an outcome, as a model does.

    While another client collects the same answer, the server says that the question still waits.
    """
    async with asyncio.timeout(_PATIENCE):
        while (seen := await read_once(client, id)).get("status") == "waiting":
            pass
    return seen


async def read_once(client: Client, id: str) -> dict[str, Any]:
    """Call `check_answer` once."""
    result = await client.call_tool("check_answer", {"id": id, "ticket": 0})
    assert result.structured_content is not None
    return result.structured_content


def conversation(id: str) -> str:
    """Return the number of a task's conversation."""
    return id.partition("-")[0]


def directory(folder: Path, id: str) -> Path:
    """Return where a task is stored."""
    (found,) = folder.rglob(f"{conversation(id)}-*")
    return found


async def waiting(folder: Path) -> list[str]:
    """Return the conversations that wait for a person."""
    return [question.conversation for question in await FileStore(folder).pending()]


def accept(**content: Any) -> dict[str, Any]:
    """Return what a dialog sends for a yes."""
    return {"action": "accept", "content": content}


async def recorded(folder: Path) -> list[Any]:
    """Return what was answered."""
    store = FileStore(folder)
    return [event for id in await store.ids() for event in (await store.read(id)).events if isinstance(event, InquiryAnswered)]
