"""`midturn a2a run`: a turn of a remote agent."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

import midturn as mt
from support.a2a import call, require_sdk, scripted, served
from support.cli import CommandLine
from support.serving import free_port, serving
from support.waiting import wait_until

require_sdk()


@mt.tool
async def deploy(ctx: mt.ToolContext) -> str:
    """Deploy."""
    where = await ctx.ask(mt.Question.select("where", "Where to?", ["prod", "staging"]))
    return f"deployed to {where}"


@pytest.fixture
def midturn(tmp_path: Path) -> CommandLine:
    """A user with a home directory and a workspace."""
    return CommandLine(tmp_path)


def deployer(*more: dict[str, Any]) -> mt.Agent:
    return scripted(call("deploy"), {"text": "It is live."}, *more, tools=[deploy])


@contextmanager
def running(agent: mt.Agent, token: str = "") -> Generator[str]:
    """Serve a remote agent. Yield its address."""
    port = free_port()
    url = f"http://127.0.0.1:{port}"

    def user(request: Any) -> str | None:
        given = request.headers.get("authorization", "")
        return "caller" if not token or given == f"Bearer {token}" else None

    card = {"name": "Deployer", "description": "Deploys.", "url": url}
    with serving(served(agent, card=card, user=user), port):
        yield url


def run(midturn: CommandLine, url: str, *options: str, **environment: str) -> Any:
    return midturn.run("a2a", "run", url, "-p", "Deploy it.", *options, **environment)


def results(agent: mt.Agent) -> list[str]:
    """The results of the remote agent's calls."""
    return [
        event.content
        for conversation in agent.store.ids_sync()
        for event in agent.store.read_sync(conversation).events
        if isinstance(event, mt.events.ToolCallResponse)
    ]


def test_question_is_a_prompt_on_a_terminal(midturn: CommandLine) -> None:
    agent = deployer()
    with (
        running(agent) as url,
        midturn.on_a_terminal("a2a", "run", url, "-p", "Deploy it.") as session,
    ):
        session.wait_for("Where to?")
        session.wait_at("help: ")
        session.wait_until_heard()
        session.send("2\r")
        assert session.wait_for_end() == 0
        assert "It is live." in session.text
    assert results(agent) == ["deployed to staging"]


def test_question_is_answered_by_another_process_and_the_turn_resumed(midturn: CommandLine) -> None:
    agent = deployer()
    with running(agent) as url:
        asked = run(midturn, url)
        assert asked.status == 3, asked
        (question,) = midturn.ok("inbox", "--json").json
        assert question["source"] == {
            "source": "other",
            "name": url.removeprefix("http://"),
        }
        assert question["question"]["exclusive"]
        midturn.ok("answer", question["id"], "prod")
        assert midturn.ok("resume").stdout.strip() == "It is live."
    assert results(agent) == ["deployed to prod"]
    assert len(agent.store.ids_sync()) == 1


def test_next_message_continues_the_remote_context(midturn: CommandLine) -> None:
    agent = scripted({"text": "Hi."}, {"text": "Again."})
    with running(agent) as url:
        assert run(midturn, url).status == 0
        assert midturn.ok("query", "-c", "And now?").stdout.strip() == "Again."
    (conversation,) = agent.store.ids_sync()
    asked = [
        event.content
        for event in agent.store.read_sync(conversation).events
        if isinstance(event, mt.events.ChatRequest)
    ]
    assert asked == ["Deploy it.", "And now?"]


def test_killed_command_continues_the_remote_task(midturn: CommandLine) -> None:
    """The process is killed while its question waits in the terminal or in the inbox."""
    agent = deployer()
    with running(agent) as url:
        command = [sys.executable, "-m", "midturn", "a2a", "run", url, "-p", "Deploy it.", "--wait"]
        with subprocess.Popen(
            command,
            cwd=midturn.root,
            env=midturn.environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        ) as process:
            wait_until(lambda: midturn.ok("inbox", "--json").json)
            os.kill(process.pid, signal.SIGKILL)
        (question,) = midturn.ok("inbox", "--json").json
        midturn.ok("answer", question["id"], "prod")
        assert midturn.ok("resume").stdout.strip() == "It is live."
    assert results(agent) == ["deployed to prod"]  # the remote call ran once
    assert len(agent.store.ids_sync()) == 1


def test_token_is_read_from_the_environment_and_not_recorded(midturn: CommandLine) -> None:
    agent = deployer()
    with running(agent, token="needle-0123456789") as url:
        missing = run(midturn, url, "--token-env", "DEPLOYER_TOKEN")
        assert missing.status == 2
        assert "DEPLOYER_TOKEN is not set" in missing.stderr
        given = {"DEPLOYER_TOKEN": "needle-0123456789"}
        asked = run(midturn, url, "--token-env", "DEPLOYER_TOKEN", **given)
        assert asked.status == 3, asked
        (question,) = midturn.ok("inbox", "--json").json
        midturn.ok("answer", question["id"], "prod")
        midturn.ok("resume", **given)
    assert results(agent) == ["deployed to prod"]
    for file in midturn.home.rglob("*"):
        assert file.is_dir() or b"needle" not in file.read_bytes()


def test_configured_answers_do_not_answer(midturn: CommandLine) -> None:
    midturn.configure(
        '[conversation.tools."*".questions."*"]\nanswer = "prod"\n'
        '[conversation.tools."*".detached]\ntool = "defaults"\n'
    )
    agent = deployer()
    with running(agent) as url:
        assert run(midturn, url).status == 3
        assert len(midturn.ok("inbox", "--json").json) == 1
    assert results(agent) == []


@pytest.mark.parametrize(
    ("url", "words"), [("http://example.org/", "not encrypted"), ("ftp://x", "not an HTTP address")]
)
def test_unsafe_address_is_refused(midturn: CommandLine, url: str, words: str) -> None:
    refused = run(midturn, url)
    assert refused.status == 2
    assert words in " ".join(refused.stderr.split())
    assert midturn.ok("conversation", "ls", "--json").json == []
