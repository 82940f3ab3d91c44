"""Codex, Gemini CLI, Qwen Code and Copilot CLI without terminals: what their models really
read.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
from pathlib import Path
from typing import Any

import pytest

from real_agents.agents import AGENTS, Agent
from support.cli import CommandLine
from support.fake_provider import FakeProvider
from support.hooks import answers, stored, until, wait_for
from support.installed import or_skip

pytestmark = [pytest.mark.real("agents of others", may_be_missing=True), pytest.mark.timeout(600)]


@pytest.fixture(params=list(AGENTS))
def agent(request: pytest.FixtureRequest, midturn: CommandLine) -> Agent:
    """An installed agent with our hooks in its user settings."""
    found = AGENTS[request.param]
    or_skip(found.program)
    midturn.ok("hook", "install", found.key)
    return found


def ended(process: subprocess.Popen[str]) -> str:
    """Wait for its end; return its output."""
    said, errors = process.communicate(timeout=300)
    assert process.returncode == 0, errors
    return said


def decide(midturn: CommandLine, agent: Agent, command: str, *value: str) -> None:
    """Wait for the question about a command and answer it."""
    del agent

    def found() -> list[str]:
        return [
            question["id"]
            for question in midturn.ok("inbox", "--json").json
            if question["arguments"]["command"] == command
        ]

    midturn.ok("answer", until(found, bool)[0], *value)


def shorten_delay(midturn: CommandLine, file: Path, event: str) -> None:
    """Reduce the time that the hooks of one event wait to one second."""
    settings = json.loads(file.read_text())
    for hook in settings["hooks"][event]:
        inner: dict[str, Any] = hook.get("hooks", [hook])[0]
        key = "command" if "command" in inner else "bash"
        inner[key] += " --wait 1"
    file.write_text(json.dumps(settings))
    assert midturn.ok("hook", "status").stdout.count(": connected (") == 1


FILES = {
    "codex": (".codex/hooks.json", "PreToolUse"),
    "gemini": (".gemini/settings.json", "BeforeTool"),
    "qwen": (".qwen/settings.json", "PreToolUse"),
    "copilot": (".copilot/settings.json", "permissionRequest"),
}


def test_yes_and_no_come_from_the_inbox(midturn: CommandLine, agent: Agent) -> None:
    with FakeProvider(
        [[agent.call("touch one")], [agent.call("touch two")], "All done."]
    ) as provider:
        process = agent.start(midturn, provider)
        decide(midturn, agent, "touch one", "n", "--reason", "Not that one.")
        decide(midturn, agent, "touch two", "y")
        assert "All done." in ended(process)

    assert "The user said no: Not that one." in provider.results[0]
    assert provider.said.count("The user said no") == provider.said.count(
        "The user said no: Not that one."
    )
    assert (midturn.root / "two").exists()
    assert not (midturn.root / "one").exists()
    assert [
        event["answered_by"]["by"] for events in stored(midturn) for event in answers(events)
    ] == ["user", "user"]


@pytest.mark.parametrize("agent", ["qwen", "copilot"], indirect=True)
def test_hooks_without_suggested_rules_offer_none(midturn: CommandLine, agent: Agent) -> None:
    with FakeProvider([[agent.call("touch made")], "All done."]) as provider:
        process = agent.start(midturn, provider)
        (question,) = wait_for(midturn)
        refused = midturn.run("answer", question["id"], "always")
        midturn.ok("answer", question["id"], "y")
        assert "All done." in ended(process)

    assert not question["asker"].get("always")
    assert refused.status != 0


def test_parallel_calls_are_decided_separately(midturn: CommandLine, agent: Agent) -> None:
    with FakeProvider(
        [[agent.call("touch one"), agent.call("touch two")], "All done."]
    ) as provider:
        process = agent.start(midturn, provider)
        decide(midturn, agent, "touch one", "n", "--reason", "Not that one.")
        decide(midturn, agent, "touch two", "y")
        assert "All done." in ended(process)

    assert "The user said no: Not that one." in provider.results[0]
    assert "The user said no" not in provider.results[1]
    assert (midturn.root / "two").exists()
    assert not (midturn.root / "one").exists()


def test_timeout_is_not_a_no_and_a_late_answer_wakes_the_session(
    midturn: CommandLine, agent: Agent
) -> None:
    file, event = FILES[agent.key]
    shorten_delay(midturn, midturn.home / file, event)
    with FakeProvider(
        [[agent.call("touch made")], "I wait.", [agent.call("touch made")], "All done."]
    ) as provider:
        process = agent.start(midturn, provider)
        until(lambda: provider.results, bool)
        assert not (midturn.root / "made").exists()
        (question,) = wait_for(midturn)
        midturn.ok("answer", question["id"], "y")
        assert "All done." in ended(process)

    assert "Nobody has answered yet" in provider.results[0]
    assert "not a no" in provider.results[0]
    assert "The user said no" not in provider.said
    assert "the user now allows the call" in provider.said
    assert (midturn.root / "made").exists()
    assert [
        event["answered_by"]["by"] for events in stored(midturn) for event in answers(events)
    ] == ["user"]


def test_answer_after_a_kill_counts_when_the_agent_is_resumed(
    midturn: CommandLine, agent: Agent
) -> None:
    with FakeProvider([[agent.call("touch made")]]) as provider:
        process = agent.start(midturn, provider)
        wait_for(midturn)
        os.killpg(process.pid, signal.SIGKILL)
        process.communicate(
            timeout=300
        )  # the hook, which keeps its pipes open while it runs, has noticed
    (question,) = until(
        lambda: midturn.ok("inbox", "--json").json,
        lambda questions: not questions[0]["asker"]["waits"],
    )
    assert [answers(events) for events in stored(midturn)] == [[]]
    assert not (midturn.root / "made").exists()

    midturn.ok("answer", question["id"], "y")
    with FakeProvider([[agent.call("touch made")], "All done."]) as provider:
        assert "All done." in ended(agent.resume(midturn, provider))

    assert (midturn.root / "made").exists()
    assert len(stored(midturn)) == 1  # nobody was asked twice
