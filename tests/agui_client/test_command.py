"""`midturn agui run`: a turn of a remote agent."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest

import midturn as mt
from midturn.integrations import agui
from support.agui import call, scripted, user_of
from support.agui_remote import (
    FINISHED,
    STARTED,
    Event,
    ScriptedAgent,
    asking,
    in_background,
    interrupted,
    said,
)
from support.cli import CommandLine

WHERE: Event = {
    "id": "i1",
    "reason": "input_required",
    "message": "Where to?",
    "responseSchema": {"enum": ["prod", "staging"]},
}


@pytest.fixture
def midturn(tmp_path: Path) -> CommandLine:
    """A user with a home directory and a workspace."""
    return CommandLine(tmp_path)


def deployer() -> ScriptedAgent:
    return ScriptedAgent(asking(WHERE, first=said("Let me \x1b[31mask.")))


def run(midturn: CommandLine, url: str, *options: str, **environment: str) -> Any:
    return midturn.run("agui", "run", url, "-p", "Deploy it.", *options, **environment)


def entries(agent: ScriptedAgent) -> list[Any]:
    return [each["resume"] for each in agent.runs if "resume" in each]


def test_question_is_a_prompt_on_a_terminal(midturn: CommandLine) -> None:
    midturn.accept_keys_at_once()
    agent = deployer()
    with (
        in_background(agent.app) as url,
        midturn.on_a_terminal("agui", "run", url, "-p", "Deploy it.") as session,
    ):
        session.wait_at("? help: ")
        session.press("2\r")
        assert session.wait_for_end() == 0
        shown = session.text
    assert "Let me ⟨U+001B⟩[31mask." in shown
    assert "Done." in shown
    resolved = {"interruptId": "i1", "status": "resolved", "payload": "staging"}
    assert entries(agent) == [[resolved]]


def test_question_is_answered_by_another_process_and_the_turn_resumed(midturn: CommandLine) -> None:
    agent = deployer()
    with in_background(agent.app) as url:
        asked = run(midturn, url)
        assert asked.status == 3, asked
        assert asked.stdout.startswith("Let me ")
        assert "127.0.0.1" in asked.stderr
        (question,) = midturn.ok("inbox", "--json").json
        assert question["source"]["source"] == "other"
        assert question["question"]["exclusive"]
        midturn.ok("answer", question["id"], "prod")
        assert entries(agent) == []
        ended = midturn.ok("resume")
        assert ended.stdout.strip() == "Done."
    resolved = {"interruptId": "i1", "status": "resolved", "payload": "prod"}
    assert entries(agent) == [[resolved]]
    one, two = agent.runs
    assert one["threadId"] == two["threadId"]
    assert [message["role"] for message in two["messages"]] == ["user", "assistant"]


def test_configured_answers_and_models_do_not_answer(midturn: CommandLine) -> None:
    midturn.configure(
        '[conversation.tools."*".questions."*"]\nanswer = "prod"\n'
        '[conversation.tools."*".detached]\ntool = "defaults"\n'
    )
    agent = deployer()
    with in_background(agent.app) as url:
        assert run(midturn, url).status == 3
        assert len(midturn.ok("inbox", "--json").json) == 1
        assert entries(agent) == []


def test_next_message_continues_the_thread(midturn: CommandLine) -> None:
    agent = ScriptedAgent(lambda run: [STARTED, *said("Hi.", f"a-{run['runId']}"), FINISHED])
    with in_background(agent.app) as url:
        assert run(midturn, url).status == 0
        midturn.ok("query", "-c", "And now?")
    one, two = agent.runs
    assert one["threadId"] == two["threadId"]
    words = [message["content"] for message in two["messages"]]
    assert words == ["Deploy it.", "Hi.", "And now?"]
    assert two["messages"][:1] == one["messages"]


def test_token_is_read_from_the_environment_and_not_recorded(midturn: CommandLine) -> None:
    agent = deployer()
    with in_background(agent.app) as url:
        missing = run(midturn, url, "--token-env", "DEPLOYER_TOKEN")
        assert missing.status == 2
        assert "DEPLOYER_TOKEN is not set" in missing.stderr
        asked = run(midturn, url, "--token-env", "DEPLOYER_TOKEN", DEPLOYER_TOKEN="needle")
        assert asked.status == 3, asked
        (question,) = midturn.ok("inbox", "--json").json
        midturn.ok("answer", question["id"], "prod")
        assert midturn.run("resume").status == 2
        midturn.ok("resume", DEPLOYER_TOKEN="needle")
    assert [each["authorization"] for each in agent.headers] == ["Bearer needle"] * 2
    for file in midturn.home.rglob("*"):
        assert file.is_dir() or b"needle" not in file.read_bytes()


def test_local_tools_are_not_offered_and_not_run(midturn: CommandLine) -> None:
    midturn.configure("[providers.mcp.other]\ncommand = ['/does/not/exist']\n")
    agent = deployer()
    with in_background(agent.app) as url:
        asked = run(midturn, url)
        assert asked.status == 3, asked
    assert agent.runs[0]["tools"] == []


@pytest.mark.parametrize(
    ("url", "words"),
    [
        ("http://example.org/", "not encrypted"),
        ("ftp://x", "not an HTTP address"),
        ("https://ada:needle@example.org/", "user name or a password"),
    ],
)
def test_unsafe_address_is_refused(midturn: CommandLine, url: str, words: str) -> None:
    refused = run(midturn, url)
    assert refused.status == 2
    assert words in " ".join(refused.stderr.split())
    assert "needle" not in refused.stderr
    assert midturn.ok("conversation", "ls", "--json").json == []


def test_remote_agent_is_not_the_model_of_a_program() -> None:
    with pytest.raises(mt.ConfigError, match="is a remote agent"):
        mt.Agent("agui:https://x")


def test_failed_run_leaves_the_turn_open(midturn: CommandLine) -> None:
    failed = [False]

    def respond(_: Event) -> Iterable[Event]:
        if failed[0]:
            return [STARTED, *said("Back."), FINISHED]
        return [STARTED, {"type": "RUN_ERROR", "message": "No \x1bbudget.", "code": "quota"}]

    agent = ScriptedAgent(respond)
    with in_background(agent.app) as url:
        broken = run(midturn, url)
        assert broken.status != 0
        assert "failed (quota): No" in " ".join(broken.stderr.split())
        assert "\x1b" not in broken.stderr
        failed[0] = True
        assert midturn.ok("resume").stdout.strip() == "Back."
    assert len({each["runId"] for each in agent.runs}) == 1


def test_killed_command_continues_with_the_same_run(midturn: CommandLine) -> None:
    """The process dies while the run streams. Nothing of the run is recorded."""
    running: list[Any] = []

    def respond(_: Event) -> Iterable[Event]:
        yield from [STARTED, *said("Let me ask.")]
        if len(agent.runs) == 1:
            os.kill(running[0].pid, signal.SIGKILL)
            running[0].wait()
        yield interrupted(WHERE)

    agent = ScriptedAgent(respond)
    with in_background(agent.app) as url:
        begun = ["agui", "run", url, "-p", "Deploy it."]
        running.append(
            subprocess.Popen(
                [sys.executable, "-m", "midturn", *begun],
                cwd=midturn.root,
                env=midturn.environment,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                start_new_session=True,
            )
        )
        running[0].wait(120)
        assert running[0].returncode == -signal.SIGKILL
        assert midturn.run("resume", "--non-interactive").status == 3
        assert len(midturn.ok("inbox", "--json").json) == 1
    one, two = agent.runs
    assert one == two


def test_midturn_server_is_a_remote_agent(midturn: CommandLine) -> None:
    @mt.tool(run="ask")
    async def deploy(env: str) -> str:
        """Deploy."""
        return f"deployed to {env}"

    remote = scripted(call("deploy", env="prod"), {"text": "It is live."}, tools=[deploy])

    def user(request: Any) -> str | None:
        return user_of(request) or "ana"

    with in_background(agui.app(remote, user=user, work=False)) as url:
        assert run(midturn, url).status == 3
        (question,) = midturn.ok("inbox", "--json").json
        assert question["question"]["text"] == "Run deploy?"
        midturn.ok("answer", question["id"], "approve")
        assert midturn.ok("resume").stdout.strip() == "It is live."
    assert len(remote.store.ids_sync()) == 1
