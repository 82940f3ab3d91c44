"""The server of `midturn mcp` with the tools that the conformance tests of tasks demand: each asks, and somebody answers after a while."""

from __future__ import annotations

import asyncio
import socket
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import uvicorn
from mcp import types
from mcp.server.context import ServerRequestContext

from midturn.clock import SYSTEM
from midturn.servers.mcp.asking import AskingSettings
from midturn.servers.mcp.server import make_server
from midturn.store.file_store import FileStore
from midturn.store.store import ConversationStore

_GREET = types.Tool(name="greet", description="Say hello.", input_schema={"type": "object"})
_QUESTIONS = {"slow_compute": "Is it computed?", "failing_job": "Did it fail?", "confirm_delete": "Shall it be deleted?"}
_SOON = 0.1


async def list_tools(context: ServerRequestContext[Any], params: types.PaginatedRequestParams | None) -> types.ListToolsResult:
    del context, params
    return types.ListToolsResult(
        tools=[_GREET, *(types.Tool(name=name, description=name, input_schema={"type": "object"}) for name in _QUESTIONS)]
    )


async def answer_later(store: ConversationStore, text: str, seconds: float) -> None:
    """Answer a question after a while, as a person does in the inbox."""
    await asyncio.sleep(seconds)
    while not (found := [question for question in await store.pending() if question.question.text == text]):  # noqa: ASYNC110  nothing tells
        await asyncio.sleep(_SOON)
    await store.answer(found[0].id, {"confirm": True} if found[0].form else True, via="inbox")


def main(arguments: Sequence[str]) -> None:
    """Serve on loopback; the port is printed."""
    store = FileStore(Path(tempfile.mkdtemp()))
    server = make_server(store, {}, SYSTEM, AskingSettings(slice=30, quickest=0))
    ask = server.get_request_handler("tools/call")
    assert ask is not None
    answering: set[asyncio.Task[None]] = set()
    asked = 0

    async def call_tool(context: ServerRequestContext[Any], params: types.CallToolRequestParams) -> Any:
        nonlocal asked
        given = params.arguments or {}
        if params.name == "greet":
            return types.CallToolResult(content=[types.TextContent(type="text", text=f"Hello, {given.get('name')}!")])
        asked += 1
        text = f"{_QUESTIONS[params.name]} ({asked})"
        if params.name == "slow_compute":
            answering.add(asyncio.create_task(answer_later(store, text, float(given.get("seconds", 0)))))
        arguments = {"questions": [{"id": "confirm", "text": text, "answer_type": "boolean"}]}
        renamed = params.model_copy(update={"name": "ask_user", "arguments": arguments})
        return await ask.handler(context, renamed)

    server.add_request_handler("tools/call", types.CallToolRequestParams, call_tool)
    server.add_request_handler("tools/list", types.PaginatedRequestParams, list_tools)
    with socket.create_server(("127.0.0.1", int(arguments[0]) if arguments else 0)) as listening:
        print(listening.getsockname()[1], flush=True)  # noqa: T201
        uvicorn.Server(uvicorn.Config(server.streamable_http_app(host="127.0.0.1"), log_level="warning")).run([listening])


if __name__ == "__main__":
    main(sys.argv[1:])
