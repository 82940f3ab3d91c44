"""MCP servers as tools. The tests start real server processes of both protocol versions."""

from __future__ import annotations

import asyncio
import json
import os
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from mcp import types

from midturn import Agent, MemoryStore, Replied, ScriptedModel, ScriptedPrompter, events, open_store
from midturn.events.outcome import Success
from midturn.events.types import Image
from midturn.mcp.spec import ServerSpec
from midturn.mcp.tool import McpServers, outcome_of
from midturn.ports import Tool
from support.hooks import until
from support.processes import Forked, kill
from support.warm_commands import started_by_others

SERVER = Path(__file__).parents[1] / "support" / "mcp_server.py"
pytestmark = pytest.mark.timeout(600)


def spec(cwd: Path, *arguments: str, asks: bool = True, name: str = "probe") -> ServerSpec:
    return ServerSpec(
        name=name,
        command=(*started_by_others(SERVER), *arguments),
        environment=dict(os.environ),
        cwd=str(cwd),
        asks=asks,
    )


@pytest.fixture(params=["modern", "legacy"], scope="module")
def servers(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[McpServers]:
    with McpServers([spec(tmp_path_factory.mktemp("server"), request.param)]) as connected:
        assert connected.problems == {}
        yield connected


def tools_of(servers: McpServers) -> list[Tool]:
    return [tool for tools in servers.tools.values() for tool in tools]


def called(
    servers: McpServers, tool: str, replies: dict[str, Any] | None = None, **arguments: Any
) -> tuple[str, bool]:
    """Let a model call one tool. Return the result that it read, and whether it was an error."""
    store = MemoryStore()
    calls = [{"calls": [{"name": tool, "arguments": arguments}]}, {"text": "Done."}]
    agent = Agent(
        model=ScriptedModel(calls),
        tools=tools_of(servers),
        prompter=ScriptedPrompter(replies or {}),
        store=store,
    )
    result = agent.run_sync("Go")
    assert result.status == "completed", result.error
    response = next(
        event
        for event in store.read_sync(result.conversation).events
        if isinstance(event, events.ToolCallResponse)
    )
    return response.content, response.is_error


def test_tools_are_named_after_their_server(servers: McpServers) -> None:
    names = [tool.definition.name for tool in tools_of(servers)]

    assert names[:2] == ["probe_echo", "probe_fail"]


def test_a_call_returns_its_result(servers: McpServers) -> None:
    assert called(servers, "probe_echo", a=1) == ("echo: {'a': 1}", False)
    assert called(servers, "probe_fail") == ("It does not work.", True)


def test_non_text_content_is_named_by_its_type(servers: McpServers) -> None:
    content, _ = called(servers, "probe_picture")

    assert (
        content
        == "[image/png, about 3 bytes, which cannot be shown here]\n\n[file:///page]\nA page."
    )


def test_a_picture_goes_to_the_model_with_the_result() -> None:
    dot = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
    page = types.BlobResourceContents(
        uri="file:///dot", mime_type="application/octet-stream", blob=dot
    )
    blocks: list[types.ContentBlock] = [
        types.ImageContent(type="image", data=dot, mime_type="image/x"),
        types.EmbeddedResource(type="resource", resource=page),
    ]

    outcome = outcome_of(types.CallToolResult(content=blocks))

    assert outcome == Success(
        "[image/png, about 72 bytes]\n\n[file:///dot: image/png, about 72 bytes]",
        (Image("image/png", dot), Image("image/png", dot)),
    )


def test_what_a_server_asks_is_a_form_of_its_tool(servers: McpServers) -> None:
    replies = {"probe_ask.field_1": "us-2", "probe_ask.count": None, "probe_ask.dry": False}

    content, is_error = called(servers, "probe_ask", replies)

    assert (content, is_error) == ("accept {'re gion': 'us-2', 'dry': False}", False)


def test_a_form_without_a_prompter_is_cancelled(servers: McpServers) -> None:
    model = ScriptedModel([{"calls": [{"name": "probe_ask_nested"}]}, {"text": "Done."}])
    agent = Agent(
        model=model, tools=tools_of(servers), detached="auto", store=(store := MemoryStore())
    )
    conversation = agent.run_sync("Go").conversation
    content = next(
        event
        for event in store.read_sync(conversation).events
        if isinstance(event, events.ToolCallResponse)
    ).content

    assert content.startswith(
        "The MCP server `probe` asked something that nobody answered: nobody is here to answer it. "
    )
    assert content.endswith("It was told `cancel`.\nIt returned:\ncancel None"), (
        "the model does not read that a person cancelled anything"
    )


def test_an_address_is_shown_in_full_and_needs_consent(servers: McpServers) -> None:
    assert (
        called(servers, "probe_ask_address", {"probe_ask_address.open_address": True})[0]
        == "accept None"
    )
    assert (
        called(servers, "probe_ask_address", {"probe_ask_address.open_address": False})[0]
        == "decline None"
    )


def result_after_reply(
    answered: dict[str, Any], *, heard: str = "decline None", reply: str | None = "Ask Ann."
) -> str:
    """Return the result that the model reads after a reply.

    `heard` is the response that the server received. `reply` is None if the result must not
    contain the text of the reply.
    """
    marker = {"cancelled": True, "answered": answered} | ({"reply": reply} if reply else {})
    told = "The user did not answer what the MCP server `probe` asked; it was told `decline`."
    return f"{json.dumps(marker)}\n{told}\nIt returned:\n{heard}"


@pytest.mark.parametrize("words", ["Ask Ann.", None])
def test_a_reply_declines_and_the_model_reads_reply_and_result(
    servers: McpServers, words: str | None
) -> None:
    replies = {"probe_ask.field_1": "us-2", "probe_ask.count": Replied(words)}

    assert called(servers, "probe_ask", replies) == (
        result_after_reply({"field_1": "us-2"}, reply=words),
        False,
    )


def test_a_reply_at_the_review_declines_too(servers: McpServers) -> None:
    replies = {
        "probe_ask.field_1": "us-2",
        "probe_ask.count": 2,
        "probe_ask.dry": False,
        "probe_ask.__review__": Replied("Ask Ann."),
    }

    assert called(servers, "probe_ask", replies) == (
        result_after_reply({"field_1": "us-2", "count": 2, "dry": False}),
        False,
    )


def test_a_reply_to_an_address_declines_too(servers: McpServers) -> None:
    assert called(
        servers, "probe_ask_address", {"probe_ask_address.open_address": Replied("Ask Ann.")}
    ) == (result_after_reply({}), False)


def test_a_reply_is_no_error_whatever_the_server_returns(servers: McpServers) -> None:
    content, is_error = called(
        servers, "probe_ask_or_fail", {"probe_ask_or_fail.field_1": Replied("Ask Ann.")}
    )

    assert not is_error
    assert content == result_after_reply({}, heard="It wanted a yes.").replace(
        "returned:", "returned an error:"
    )


def test_a_reply_is_kept_if_the_server_dies_of_the_decline(servers: McpServers) -> None:
    content, is_error = called(
        servers, "probe_ask_or_die", {"probe_ask_or_die.field_1": Replied("Ask Ann.")}
    )

    assert is_error
    marker, trouble, *_ = content.splitlines()
    assert json.loads(marker)["reply"] == "Ask Ann."
    assert "the MCP server `probe` has gone away" in trouble


@pytest.mark.parametrize("given", [{}, {"field_1": "us-2", "count": 2, "dry": True}])
def test_a_reply_from_the_inbox_reaches_the_server_when_the_turn_is_resumed(
    servers: McpServers, given: dict[str, Any]
) -> None:
    """Tested for a reply at the first question and at the review of all answers."""
    store = MemoryStore()
    model = ScriptedModel([{"calls": [{"name": "probe_ask", "arguments": {}}]}, {"text": "Done."}])
    result = Agent(model, tools=tools_of(servers), store=store).run_sync("Go")
    assert result.status == "suspended"

    for value in given.values():
        store.answer_sync(store.pending_sync()[0].id, value)
        result = Agent(model, tools=tools_of(servers), store=store).resume_sync(result.conversation)
    (question,) = store.pending_sync()
    store.answer_sync(question.id, reply="Ask Ann.")
    result = Agent(model, tools=tools_of(servers), store=store).resume_sync(result.conversation)

    assert result.status == "completed"
    (response,) = [
        event
        for event in store.read_sync(result.conversation).events
        if isinstance(event, events.ToolCallResponse)
    ]
    assert (response.content, response.is_error) == (result_after_reply(given), False)


@pytest.mark.timeout(600)
def test_sequential_calls_of_a_server_wait_for_answers_one_after_the_other(tmp_path: Path) -> None:
    """The second call cannot begin while the first one waits.

    The turn is suspended nevertheless.
    """
    store = MemoryStore()
    call: dict[str, Any] = {"name": "probe_ask", "arguments": {}}
    model = ScriptedModel([{"calls": [call, call, call]}, {"text": "Done."}])
    with McpServers([spec(tmp_path, "legacy")]) as servers:
        agent = Agent(model, tools=tools_of(servers), store=store)
        result = agent.run_sync("Go")
        for _ in range(3):
            assert result.status == "suspended"
            (question,) = store.pending_sync()
            store.answer_sync(question.id, reply="Ask Ann.")
            result = agent.resume_sync(result.conversation)

    assert result.status == "completed"
    responses = [
        event
        for event in store.read_sync(result.conversation).events
        if isinstance(event, events.ToolCallResponse)
    ]
    assert [response.content for response in responses] == [result_after_reply({})] * 3


TURN_TO_KILL = """
import os, sys
import midturn as mt
from midturn.mcp.tool import McpServers
from midturn.mcp.spec import ServerSpec

here, server, era, asked = sys.argv[1:]
answers = {"field_1": "us-2", "count": 2, "dry": False, asked: mt.Replied("Ask Ann.")}
with McpServers([ServerSpec(name="probe", command=(sys.executable, server, era), environment=dict(os.environ), cwd=here)]) as servers:
    model = mt.ScriptedModel([{"calls": [{"name": "probe_ask_slowly", "arguments": {}}]}])
    prompter = mt.ScriptedPrompter({f"probe_ask_slowly.{id}": answer for id, answer in answers.items()})
    mt.Agent(model, tools=servers.tools["probe"], prompter=prompter, store=mt.open_store(f"{here}/store")).run_sync("Go")
"""


@pytest.mark.parametrize(
    ("era", "asked", "answered"),
    [
        ("legacy", "field_1", {}),
        ("modern", "__review__", {"field_1": "us-2", "count": 2, "dry": False}),
    ],
)
def test_recorded_answers_are_sent_again_after_a_kill(
    tmp_path: Path, era: str, asked: str, answered: dict[str, Any]
) -> None:
    """The reply is recorded before it is sent to the server.

    After the kill, the call is repeated without asking again.
    """
    process = Forked(TURN_TO_KILL, tmp_path, SERVER, era, asked, uses_network=True)
    server, heard = until(
        lambda: (
            [*(tmp_path / "heard").read_text().split()] if (tmp_path / "heard").exists() else []
        ),
        bool,
    )
    kill(process)
    os.kill(int(server), signal.SIGKILL)

    store = open_store(tmp_path / "store")
    (conversation,) = store.ids_sync()
    with McpServers([spec(tmp_path, era)]) as servers:
        model = ScriptedModel(
            [{"calls": [{"name": "probe_ask_slowly", "arguments": {}}]}, {"text": "Done."}]
        )
        agent = Agent(model, tools=tools_of(servers), prompter=ScriptedPrompter({}), store=store)
        assert agent.resume_sync(conversation).status == "completed"
    (response,) = [
        event
        for event in store.read_sync(conversation).events
        if isinstance(event, events.ToolCallResponse)
    ]
    assert heard == "decline"
    assert (response.content, response.is_error) == (result_after_reply(answered), False)


def test_a_server_that_dies_is_a_tool_error_and_is_restarted(servers: McpServers) -> None:
    content, is_error = called(servers, "probe_die")

    assert is_error
    assert "the MCP server `probe` has gone away" in content
    assert "I am dying." in content
    assert called(servers, "probe_echo")[1] is False


def test_a_silent_server_times_out(tmp_path: Path) -> None:
    with McpServers([spec(tmp_path)], silence={"probe_sleep": 0.3}) as servers:
        content, is_error = called(servers, "probe_sleep", seconds=30)

    assert is_error
    assert "was silent for 0.3 seconds" in content


def test_cancelling_a_call_cancels_it_at_the_server(servers: McpServers) -> None:
    tool = next(tool for tool in tools_of(servers) if tool.definition.name == "probe_sleep")

    async def work() -> None:
        from midturn.events.types import ToolCall
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


def test_a_server_that_forgets_an_answer_receives_it_again_without_a_second_question(
    tmp_path: Path,
) -> None:
    replies = {"probe_forget.field_1": "eu-1", "probe_forget.count": 2, "probe_forget.dry": True}

    with McpServers([spec(tmp_path)]) as servers:
        content, is_error = called(servers, "probe_forget", replies)

    assert (content, is_error) == ("accept {'re gion': 'eu-1', 'count': 2, 'dry': True}", False)
    assert (tmp_path / "forgotten").exists()


def test_a_server_is_told_if_nobody_can_be_asked(tmp_path: Path) -> None:
    """No elicitation capability is advertised.

    A server that asks anyway is told that the question was not shown.
    """
    with McpServers([spec(tmp_path, asks=False)]) as servers:
        told = (
            "The MCP server `probe` asked something that nobody answered: nobody is here to answer"
            " it. It was told `cancel`."
        )
        assert called(servers, "probe_ask") == (f"{told}\nIt returned:\ncancel None", False)
    with McpServers([spec(tmp_path, "legacy", asks=False)]) as servers:
        assert called(servers, "probe_ask")[1]


def test_a_server_that_does_not_start_is_a_warning(tmp_path: Path) -> None:
    gone = ServerSpec(name="gone", command=("/nonexistent/server",), cwd=str(tmp_path))

    with McpServers([gone, spec(tmp_path)]) as servers:
        assert list(servers.problems) == ["gone"]
        assert called(servers, "probe_echo")[1] is False
