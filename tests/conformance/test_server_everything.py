"""MCP's example server, which sends all kinds of questions: answered, declined, cancelled."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
from collections.abc import Generator, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import pytest

from midturn import Agent, EndedTurn, MemoryStore, Replied, ScriptedModel, ScriptedPrompter, events
from midturn.mcp.spec import ServerSpec
from midturn.mcp.tool import McpServers
from support.hooks import until
from support.installed import installed, or_skip

pytestmark = [pytest.mark.real("server-everything", may_be_missing=True), pytest.mark.timeout(600)]
TAP = Path(__file__).parents[1] / "support" / "mcp_tap.py"
SAYS = "says.jsonl"
ADDRESS = "https://example.org/log-in?a=b"
FORM = "everything_trigger-elicitation-request"
URL = "everything_trigger-url-elicitation"
ECHO = "everything_echo"
TASK = "everything_simulate-research-query"
SAID: dict[str, Any] = {
    "name": "Ada",
    "check": True,
    "firstLine": "It was a bright cold day.",
    "email": "ada@example.org",
    "homepage": "https://example.org",
    "birthdate": "1815-12-10",
    "integer": 7,
    "number": 2.5,
    "untitledSingleSelectEnum": "Ross",
    "untitledMultipleSelectEnum": ["Piano", "Drums"],
    "titledSingleSelectEnum": "hero-3",
    "titledMultipleSelectEnum": ["fish-2"],
    "legacyTitledEnum": "pet-4",
}


def spec(home: Path, *, asks: bool = True) -> ServerSpec:
    folder = or_skip(
        lambda: installed("everything", "@modelcontextprotocol/server-everything@2026.8.31")
    )
    passed = {"PATH": os.environ["PATH"], "HOME": str(home)}
    command = (sys.executable, str(TAP), str(home / SAYS), str(folder / "mcp-server-everything"))
    return ServerSpec(
        name="everything", command=command, environment=passed, cwd=str(home), asks=asks
    )


def told(home: Path) -> list[Any]:
    """Return the responses to the server's questions so far."""
    lines = [
        line
        for line in (home / SAYS).read_bytes().splitlines(keepends=True)
        if line.endswith(b"\n")
    ]
    answers = [
        message.get("result", {}) for message in map(json.loads, lines) if "method" not in message
    ]
    return [answer for answer in answers if "action" in answer]


@pytest.fixture
def everything(tmp_path: Path) -> Iterator[McpServers]:
    with McpServers([spec(tmp_path)]) as servers:
        assert servers.problems == {}
        yield servers


def called(
    servers: McpServers, tool: str, replies: Mapping[str, Any], **arguments: Any
) -> tuple[str, ScriptedPrompter, str]:
    """Have a model call one tool; return its result, the prompter and the end of the turn."""
    store = MemoryStore()
    prompter = ScriptedPrompter({f"{tool}.{key}": value for key, value in replies.items()})
    calls = [{"calls": [{"name": tool, "arguments": arguments}]}, {"text": "Done."}]
    agent = Agent(
        model=ScriptedModel(calls),
        tools=servers.tools["everything"],
        prompter=prompter,
        store=store,
    )
    result = agent.run_sync("Go")
    responses = (
        event
        for event in store.read_sync(result.conversation).events
        if isinstance(event, events.ToolCallResponse)
    )
    return next(responses).content, prompter, result.status


def heard(content: str) -> Any:
    """Return what the server reports as received."""
    return json.loads(content.split("Raw result: ")[1])


def test_every_kind_of_field_round_trips(everything: McpServers) -> None:
    content, prompter, _ = called(everything, FORM, SAID)

    assert heard(content) == {"action": "accept", "content": SAID}
    assert [prompt.question.id for prompt in prompter.prompts if prompt.kind == "tool"] == list(
        SAID
    )
    assert prompter.prompts[-1].kind == "review"  # the review before it is sent


def test_skipped_fields_are_not_sent(everything: McpServers) -> None:
    content, _, _ = called(everything, FORM, {**dict.fromkeys(SAID), "name": "Ada"})

    assert heard(content) == {"action": "accept", "content": {"name": "Ada"}}


@pytest.mark.parametrize("asked", ["name", "integer", "__review__"])
def test_reply_declines_the_form_and_reaches_the_model(everything: McpServers, asked: str) -> None:
    content, _, status = called(everything, FORM, {**SAID, asked: Replied("What is that for?")})

    assert heard(content) == {"action": "decline"}
    answered = {
        name: value
        for name, value in SAID.items()
        if list(SAID).index(name) < [*SAID, "__review__"].index(asked)
    }
    assert json.loads(content.splitlines()[0]) == {
        "cancelled": True,
        "answered": answered,
        "reply": "What is that for?",
    }
    assert status == "completed"


def test_reply_declines_a_url(everything: McpServers) -> None:
    content, _, _ = called(
        everything, URL, {"open_address": Replied("What is that for?")}, url=ADDRESS
    )

    assert heard(content)["action"] == "decline"
    assert "What is that for?" in content


@pytest.mark.parametrize(("opens", "action"), [(True, "accept"), (False, "decline")])
def test_url_is_accepted_or_declined(everything: McpServers, opens: bool, action: str) -> None:  # noqa: FBT001
    content, prompter, _ = called(everything, URL, {"open_address": opens}, url=ADDRESS)

    assert heard(content)["action"] == action
    assert f"`{ADDRESS}`" in (prompter.prompts[0].question.context or "")


def test_required_url_is_asked_and_the_call_repeated(everything: McpServers) -> None:
    content, prompter, _ = called(
        everything, URL, {"open_address": [True, True]}, url=ADDRESS, errorPath=True
    )

    contexts = [prompt.question.context or "" for prompt in prompter.prompts]
    assert ["https://modelcontextprotocol.io" in contexts[0], ADDRESS in contexts[1]] == [
        True,
        True,
    ]
    assert heard(content)["action"] == "accept"


def test_declined_required_url_ends_the_call(everything: McpServers) -> None:
    content, prompter, _ = called(
        everything, URL, {"open_address": False}, url=ADDRESS, errorPath=True
    )

    assert len(prompter.prompts) == 1
    assert "the user did not open the address" in content


def test_without_elicitation_the_server_offers_no_asking_tools(tmp_path: Path) -> None:
    with McpServers([spec(tmp_path, asks=False)]) as servers:
        names = [tool.definition.name for tool in servers.tools["everything"]]

    assert "everything_echo" in names
    assert not [name for name in names if "elicitation" in name]


@pytest.mark.parametrize(
    ("tool", "asked", "arguments"),
    [
        (FORM, "name", {}),
        (FORM, "__review__", {}),
        (URL, "open_address", {"url": ADDRESS}),
    ],
)
def test_ending_the_turn_cancels_the_request(
    everything: McpServers, tmp_path: Path, tool: str, asked: str, arguments: dict[str, Any]
) -> None:
    content, _, status = called(everything, tool, {**SAID, asked: EndedTurn()}, **arguments)

    assert content == "Tool input cancelled by user."
    assert status == "ended_by_user"
    until(lambda: told(tmp_path), lambda answers: answers == [{"action": "cancel"}])


def test_ending_the_turn_at_a_required_url_makes_no_call(everything: McpServers) -> None:
    content, _, status = called(
        everything, URL, {"open_address": EndedTurn()}, url=ADDRESS, errorPath=True
    )

    assert (content, status) == ("Tool input cancelled by user.", "ended_by_user")


def test_reply_to_a_required_url_ends_the_call_with_its_text(everything: McpServers) -> None:
    content, prompter, _ = called(
        everything, URL, {"open_address": Replied("What is that for?")}, url=ADDRESS, errorPath=True
    )

    assert len(prompter.prompts) == 1
    assert "What is that for?" in content
    assert "the user did not open the address" in content


@pytest.mark.parametrize(
    ("reply", "answer"),
    [("snake", "accept"), (Replied("Ask Ann."), "decline"), (EndedTurn(), "cancel")],
)
def test_requests_in_a_task_are_answered_declined_and_cancelled(
    everything: McpServers, tmp_path: Path, reply: Any, answer: str
) -> None:
    content, _, _ = called(
        everything, TASK, {"interpretation": reply}, topic="python", ambiguous=True
    )

    until(lambda: [said["action"] for said in told(tmp_path)], lambda actions: actions == [answer])
    assert ("Ask Ann." in content) == (answer == "decline")
    assert ("Research Report" in content) == (answer != "cancel")


@contextmanager
def over_http(home: Path, port: int) -> Generator[str]:
    """Run the server over HTTP; yield its URL."""
    folder = or_skip(
        lambda: installed("everything", "@modelcontextprotocol/server-everything@2026.8.31")
    )
    passed = {"PATH": os.environ["PATH"], "HOME": str(home), "PORT": str(port)}
    command = [str(folder / "mcp-server-everything"), "streamableHttp"]
    with subprocess.Popen(
        command, env=passed, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    ) as process:
        try:
            until(lambda: is_open(port), bool)
            yield f"http://127.0.0.1:{port}/mcp"
        finally:
            process.kill()


def is_open(port: int) -> bool:
    try:
        socket.create_connection(("127.0.0.1", port), timeout=120).close()
    except OSError:
        return False
    return True


def test_over_http_requests_are_answered_declined_and_cancelled_after_a_restart(
    tmp_path: Path,
) -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    with ExitStack() as leaving:
        with over_http(tmp_path, port) as url:
            servers = leaving.enter_context(McpServers([ServerSpec(name="everything", url=url)]))
            assert heard(called(servers, FORM, SAID)[0]) == {"action": "accept", "content": SAID}
            assert heard(called(servers, FORM, {"name": Replied("Ask Ann.")})[0]) == {
                "action": "decline"
            }
            assert called(servers, FORM, {"name": EndedTurn()})[2] == "ended_by_user"
            assert called(servers, ECHO, {}, message="Hello.")[0] == "Echo: Hello."
        gone, _, status = called(servers, ECHO, {}, message="Hello.")
        assert "the MCP server `everything` has gone away: " in gone
        assert status == "completed"
        with over_http(tmp_path, port):
            assert called(servers, ECHO, {}, message="Hello again.")[0] == "Echo: Hello again."
