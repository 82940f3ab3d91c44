"""`midturn mcp` in this process, with clients that accept tasks."""

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
from support.mcp_clients import MODERN, Person, Task, TaskExtension, send_task_request

_LOOK = 0.05
_PATIENCE = 120.0


def server_on(folder: Path, quickest: float = 0) -> Server[Any]:
    """Return a server in this process. By default, answers of any speed are accepted, so that the
    speed of the machine does not matter.
    """
    return make_server(FileStore(folder), {}, SYSTEM, ServerWait(slice=0.2, quickest=quickest))


@asynccontextmanager
async def client_of(
    server: Server[Any], tasks: TaskExtension, name: str = "claude-code"
) -> AsyncGenerator[tuple[Client, TaskExtension]]:
    """Connect a client that accepts tasks and can show dialogs, which tests answer by hand."""
    info = types.Implementation(name=name, version="1")
    async with Client(
        server, mode=MODERN, client_info=info, elicitation_callback=Person(), extensions=(tasks,)
    ) as client:
        yield client, tasks


async def start_task(
    client: Client, tasks: TaskExtension, arguments: dict[str, Any], meta: Any = None
) -> str:
    """Ask a question; return the ID of the task that the call became."""
    result = await client.call_tool("ask_user", arguments, meta=meta)
    assert result.content[0].text == "It runs on.", result  # type: ignore[union-attr]
    return tasks.begun[-1].task_id


async def until(client: Client, id: str, status: str) -> Task:
    """Poll a task until it has this status."""

    async def look() -> Task:
        while (task := await send_task_request(client, "tasks/get", id)).status != status:  # noqa: ASYNC110  the protocol requires polling
            await asyncio.sleep(_LOOK)
        return task

    return await asyncio.wait_for(look(), _PATIENCE)


async def read(client: Client, id: str) -> dict[str, Any]:
    """Call `check_answer` until it returns an outcome, as a model does.

    While another client fetches the same answer, the server reports the question as open.
    """
    async with asyncio.timeout(_PATIENCE):
        while (seen := await read_once(client, id)).get("status") == "waiting":
            pass
    return seen


async def read_once(client: Client, id: str) -> dict[str, Any]:
    result = await client.call_tool("check_answer", {"id": id, "ticket": 0})
    assert result.structured_content is not None
    return result.structured_content


def conversation(id: str) -> str:
    """Return the conversation number in a task ID."""
    return id.partition("-")[0]


def directory(folder: Path, id: str) -> Path:
    """Return the directory of a task's conversation."""
    (found,) = folder.rglob(f"{conversation(id)}-*")
    return found


async def waiting(folder: Path) -> list[str]:
    """Return the conversations with open questions."""
    return [question.conversation for question in await FileStore(folder).pending()]


def accept(**content: Any) -> dict[str, Any]:
    """Return the response of a dialog with an accepted form."""
    return {"action": "accept", "content": content}


async def recorded(folder: Path) -> list[Any]:
    """Return the recorded answers."""
    store = FileStore(folder)
    return [
        event
        for id in await store.ids()
        for event in (await store.read(id)).events
        if isinstance(event, InquiryAnswered)
    ]
