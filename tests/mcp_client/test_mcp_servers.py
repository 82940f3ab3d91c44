"""Servers of the Model Context Protocol as tools: real processes, of both eras."""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from mcp import types

from midturn import Agent, MemoryStore, ScriptedModel, ScriptedPrompter, events
from midturn.core.image import Image
from midturn.core.outcome import Success
from midturn.mcp.content import outcome_of
from midturn.mcp.servers import McpServers
from midturn.mcp.spec import ServerSpec
from midturn.ports import Tool

SERVER = Path(__file__).parents[1] / "support" / "mcp_server.py"
pytestmark = pytest.mark.timeout(60)


def spec(cwd: Path, *arguments: str, asks: bool = True, name: str = "probe") -> ServerSpec:
    return ServerSpec(name=name, command=(sys.executable, str(SERVER), *arguments), environment=dict(os.environ), cwd=str(cwd), asks=asks)


@pytest.fixture(params=["modern", "legacy"])
def servers(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[McpServers]:
    with McpServers([spec(tmp_path, request.param)]) as connected:
        assert connected.problems == {}
        yield connected


def tools_of(servers: McpServers) -> list[Tool]:
    return [tool for tools in servers.tools.values() for tool in tools]


def called(servers: McpServers, tool: str, replies: dict[str, Any] | None = None, **arguments: Any) -> tuple[str, bool]:
    """Have a model call one tool; return what it read, and whether that was an error."""
    store = MemoryStore()
    calls = [{"calls": [{"name": tool, "arguments": arguments}]}, {"text": "Done."}]
    agent = Agent(model=ScriptedModel(calls), tools=tools_of(servers), prompter=ScriptedPrompter(replies or {}), store=store)
    result = agent.run_sync("Go")
    assert result.status == "completed", result.error
    response = next(event for event in store.read_sync(result.conversation).events if isinstance(event, events.ToolCallResponse))
    return response.content, response.is_error


def test_tools_are_named_after_their_server(servers: McpServers) -> None:
    names = [tool.definition.name for tool in tools_of(servers)]

    assert names[:2] == ["probe_echo", "probe_fail"]


def test_a_call_goes_there_and_back(servers: McpServers) -> None:
    assert called(servers, "probe_echo", a=1) == ("echo: {'a': 1}", False)
    assert called(servers, "probe_fail") == ("It does not work.", True)


def test_what_is_no_text_is_said_to_be_what_it_is(servers: McpServers) -> None:
    content, _ = called(servers, "probe_picture")

    assert content == "[image/png, about 3 bytes, which cannot be shown here]\n\n[file:///page]\nA page."


def test_a_picture_goes_to_the_model_with_the_result() -> None:
    dot = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
    page = types.BlobResourceContents(uri="file:///dot", mime_type="application/octet-stream", blob=dot)
    blocks: list[types.ContentBlock] = [
        types.ImageContent(type="image", data=dot, mime_type="image/x"),
        types.EmbeddedResource(type="resource", resource=page),
    ]

    outcome = outcome_of(types.CallToolResult(content=blocks))

    assert outcome == Success(
        "[image/png, about 72 bytes]\n\n[file:///dot: image/png, about 72 bytes]", (Image("image/png", dot), Image("image/png", dot))
    )


def test_what_a_server_asks_is_a_form_of_its_tool(servers: McpServers) -> None:
    replies = {"probe_ask.field_1": "us-2", "probe_ask.count": None, "probe_ask.dry": False}

    content, is_error = called(servers, "probe_ask", replies)

    assert (content, is_error) == ("accept {'re gion': 'us-2', 'dry': False}", False)


def test_what_nobody_could_be_shown_is_cancelled(servers: McpServers) -> None:
    assert called(servers, "probe_ask_nested") == ("cancel None", False)


def test_an_address_is_shown_whole_and_consent_is_asked(servers: McpServers) -> None:
    assert called(servers, "probe_ask_address", {"probe_ask_address.open_address": True})[0] == "accept None"
    assert called(servers, "probe_ask_address", {"probe_ask_address.open_address": False})[0] == "decline None"


def test_a_server_that_dies_is_a_tool_error_and_is_started_again(servers: McpServers) -> None:
    content, is_error = called(servers, "probe_die")

    assert is_error
    assert "the MCP server `probe` has gone away" in content
    assert "I am dying." in content
    assert called(servers, "probe_echo")[1] is False


def test_a_server_that_is_silent_is_given_up(tmp_path: Path) -> None:
    with McpServers([spec(tmp_path)], silence={"probe_sleep": 0.3}) as servers:
        content, is_error = called(servers, "probe_sleep", seconds=30)

    assert is_error
    assert "was silent for 0.3 seconds" in content


def test_a_call_that_is_cancelled_here_is_cancelled_there(servers: McpServers) -> None:
    tool = next(tool for tool in tools_of(servers) if tool.definition.name == "probe_sleep")

    async def work() -> None:
        from midturn.core.subject import ToolCall
        from midturn.ports import ToolRun

        async def ask(asking: Any) -> Any:
            raise AssertionError(asking)

        run = ToolRun(call=ToolCall("e", "c", "probe_sleep", {"seconds": 30}), answers={}, ask=ask)
        task = asyncio.create_task(tool.execute(run))
        await asyncio.sleep(0.2)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(work())
    assert called(servers, "probe_echo")[1] is False


def test_a_server_that_forgets_is_told_again_and_nobody_is_asked_twice(tmp_path: Path) -> None:
    replies = {"probe_forget.field_1": "eu-1", "probe_forget.count": 2, "probe_forget.dry": True}

    with McpServers([spec(tmp_path)]) as servers:
        content, is_error = called(servers, "probe_forget", replies)

    assert (content, is_error) == ("accept {'re gion': 'eu-1', 'count': 2, 'dry': True}", False)
    assert (tmp_path / "forgotten").exists()


def test_where_nobody_can_be_asked_a_server_is_told_so(tmp_path: Path) -> None:
    """No capability is advertised that nobody stands behind; one that asks all the same hears that nobody was shown it."""
    with McpServers([spec(tmp_path, asks=False)]) as servers:
        assert called(servers, "probe_ask")[0] == "cancel None"
    with McpServers([spec(tmp_path, "legacy", asks=False)]) as servers:
        assert called(servers, "probe_ask")[1]


def test_a_server_that_does_not_start_is_a_warning(tmp_path: Path) -> None:
    gone = ServerSpec(name="gone", command=("/nonexistent/server",), cwd=str(tmp_path))

    with McpServers([gone, spec(tmp_path)]) as servers:
        assert list(servers.problems) == ["gone"]
        assert called(servers, "probe_echo")[1] is False
