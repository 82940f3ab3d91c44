"""The server of `midturn mcp` with the tools for the conformance tests of tasks. Each tool
asks a question.

The product derives its responses from the log: an answer from the inbox, a withdrawn question, a
question removed from the store.
"""

from __future__ import annotations

import asyncio
import shutil
import sys
import tempfile
from collections.abc import Callable, Coroutine, Mapping, Sequence
from pathlib import Path
from typing import Any

from mcp import types
from mcp.server.context import ServerRequestContext

from midturn.clock import SYSTEM
from midturn.events.open_question import OpenQuestion
from midturn.integrations.hooks.external_calls import ExternalCallService
from midturn.integrations.mcp_server.asking import ServerWait
from midturn.integrations.mcp_server.client import Caller
from midturn.integrations.mcp_server.server import make_server
from midturn.integrations.mcp_server.task_calls import require_tasks
from midturn.stores.opening import FileStore
from support.serving import serve_here

_GREET = types.Tool(name="greet", description="Say hello.", input_schema={"type": "object"})
_QUESTIONS = {
    "slow_compute": "Is it computed?",
    "failing_job": "Did it fail?",
    "protocol_error_job": "Is it still there?",
    "confirm_delete": "Shall it be deleted?",
}
_NEEDS_TASKS = "failing_job"  # in one scenario, a tool that only supports tasks
_SOON = 0.1


async def list_tools(
    context: ServerRequestContext[Any], params: types.PaginatedRequestParams | None
) -> types.ListToolsResult:
    del context, params
    return types.ListToolsResult(
        tools=[
            _GREET,
            *(
                types.Tool(name=name, description=name, input_schema={"type": "object"})
                for name in _QUESTIONS
            ),
        ]
    )


class Person:
    """Handles the open questions meanwhile, each found by its text."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._store = FileStore(folder)

    async def answer(self, text: str, seconds: float) -> None:
        """Answer after some time, as in the inbox."""
        await asyncio.sleep(seconds)
        question = await self._found(text)
        await self._store.answer(
            question.id, {"confirm": True} if question.form else True, via="inbox"
        )

    async def withdraw(self, text: str) -> None:
        """Close the question, as when its agent continues without it."""
        question = await self._found(text)
        assert question.asker is not None
        calls = ExternalCallService(self._store, question.asker, SYSTEM)
        external_call = await calls.find_call(question.conversation)
        assert external_call is not None
        await calls.close(external_call, "The agent has gone on.")

    async def remove(self, text: str) -> None:
        """Remove the question from the store, as a clean-up does."""
        question = await self._found(text)
        (directory,) = self._folder.rglob(f"{question.conversation}-*")
        shutil.rmtree(directory)

    async def _found(self, text: str) -> OpenQuestion:
        while not (  # noqa: ASYNC110  nothing tells
            found := [
                question
                for question in await self._store.pending()
                if question.question.text == text
            ]
        ):
            await asyncio.sleep(_SOON)
        return found[0]


def main(arguments: Sequence[str]) -> None:
    """Serve on loopback, with a store in a given directory; print the port."""
    folder = Path(tempfile.mkdtemp(dir=arguments[0]))
    person = Person(folder)
    server = make_server(FileStore(folder), {}, SYSTEM, ServerWait(slice=30, quickest=0))
    ask = server.get_request_handler("tools/call")
    assert ask is not None
    happening: set[asyncio.Task[None]] = set()
    happens: dict[str, Callable[[str, Mapping[str, Any]], Coroutine[Any, Any, None]]] = {
        "slow_compute": lambda text, given: person.answer(text, float(given.get("seconds", 0))),
        "failing_job": lambda text, _: person.withdraw(text),
        "protocol_error_job": lambda text, _: person.remove(text),
    }
    asked = 0

    async def call_tool(
        context: ServerRequestContext[Any], params: types.CallToolRequestParams
    ) -> Any:
        nonlocal asked
        given = params.arguments or {}
        if params.name == "greet":
            return types.CallToolResult(
                content=[types.TextContent(type="text", text=f"Hello, {given.get('name')}!")]
            )
        if params.name not in _QUESTIONS:
            return types.CallToolResult(
                content=[types.TextContent(type="text", text=f"There is no tool {params.name}.")],
                is_error=True,
            )
        if params.name == _NEEDS_TASKS:
            require_tasks(Caller.of(context, {}))
        asked += 1
        text = f"{_QUESTIONS[params.name]} ({asked})"
        if params.name in happens:
            happening.add(asyncio.create_task(happens[params.name](text, given)))
        arguments = {"questions": [{"id": "confirm", "text": text, "answer_type": "boolean"}]}
        renamed = params.model_copy(update={"name": "ask_user", "arguments": arguments})
        return await ask.handler(context, renamed)

    server.add_request_handler("tools/call", types.CallToolRequestParams, call_tool)
    server.add_request_handler("tools/list", types.PaginatedRequestParams, list_tools)
    serve_here(server.streamable_http_app(host="127.0.0.1"))


if __name__ == "__main__":
    main(sys.argv[1:])
