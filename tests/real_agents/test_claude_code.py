"""Claude Code against a provider on loopback, with its own home: what its model really reads."""

from __future__ import annotations

import json
import os
import signal
import subprocess
from pathlib import Path
from typing import Any

import pytest

from real_agents.agents import check_again, with_options
from support.cli import CommandLine
from support.fake_messages import FakeMessages
from support.fake_provider import Calls
from support.hooks import answers, stored, until, wait_for

pytestmark = [pytest.mark.real("Claude Code", may_be_missing=True), pytest.mark.timeout(600)]


def environment_of(midturn: CommandLine, provider: FakeMessages) -> dict[str, str]:
    """Return the environment of `claude -p`: only its home, a dummy key and the provider."""
    return {
        **{
            name: midturn.environment[name]
            for name in midturn.environment
            if name.startswith("XDG_")
        },
        "HOME": str(midturn.home),
        "PATH": midturn.environment["PATH"],
        "ANTHROPIC_BASE_URL": provider.url,
        "ANTHROPIC_API_KEY": "sk-dummy",
        "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
        "DISABLE_AUTOUPDATER": "1",
    }


def start(
    midturn: CommandLine, program: Path, provider: FakeMessages, *options: str
) -> subprocess.Popen[str]:
    """Start `claude -p`."""
    return subprocess.Popen(
        [str(program), "-p", "Go", *options],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        cwd=midturn.root,
        env=environment_of(midturn, provider),
        start_new_session=True,
    )


def ended(claude: subprocess.Popen[str]) -> str:
    """Wait for its end; return its output."""
    said, errors = claude.communicate(timeout=300)
    assert claude.returncode == 0, errors
    return said


def test_a_yes_and_a_no_to_parallel_calls_from_the_inbox(
    midturn: CommandLine, claude_program: Path
) -> None:
    midturn.ok("hook", "install", "claude")
    calls = [
        ("Bash", {"command": "touch one", "description": "One"}),
        ("Bash", {"command": "touch two", "description": "Two"}),
    ]
    with FakeMessages([calls, "All done."]) as provider:
        claude = start(midturn, claude_program, provider)
        _answer(midturn, "touch one", "n", "--reason", "Not that one.")
        _answer(midturn, "touch two", "y")
        assert ended(claude) == "All done.\n"

    assert provider.results[0] == "The user said no: Not that one."
    assert (midturn.root / "two").exists()
    assert not (midturn.root / "one").exists()
    assert [
        event["answered_by"]["by"] for events in stored(midturn) for event in answers(events)
    ] == ["user", "user"]


def test_late_answer_wakes_the_session_and_the_call_runs(
    midturn: CommandLine, claude_program: Path
) -> None:
    midturn.ok("hook", "install", "claude")
    settings = midturn.home / ".claude" / "settings.json"
    hooks = json.loads(settings.read_text())
    hooks["hooks"]["PermissionRequest"][0]["hooks"][0]["command"] += " --wait 1"
    settings.write_text(json.dumps(hooks))
    call: list[tuple[str, dict[str, Any]]] = [
        ("Bash", {"command": "touch made", "description": "Make"})
    ]
    with FakeMessages([call, "I wait.", call, "All done."]) as provider:
        claude = start(midturn, claude_program, provider)
        until(lambda: provider.results, bool)
        (question,) = wait_for(midturn)
        midturn.ok("answer", question["id"], "y")
        assert ended(claude) == "All done.\n"

    assert "Nobody has answered yet" in provider.results[0]
    assert "The user said no" not in provider.said
    assert "the user now allows the call of Bash" in provider.said
    assert (midturn.root / "made").exists()


def test_always_allowed_call_is_not_asked_again(midturn: CommandLine, claude_program: Path) -> None:
    midturn.ok("hook", "install", "claude")
    call = [("Bash", {"command": "touch made", "description": "Make"})]
    with FakeMessages([call, call, "All done."]) as provider:
        claude = start(midturn, claude_program, provider)
        (question,) = wait_for(midturn)
        offered = question["asker"]["always"]
        mode = next((number for number, kept in enumerate(offered, 1) if "acceptEdits" in kept), 1)
        midturn.ok("answer", question["id"], "always" if len(offered) == 1 else f"always {mode}")
        assert ended(claude) == "All done.\n"

    assert question["asker"]["always"], "it offers something to keep"
    assert len(provider.results) == 2
    assert len(stored(midturn)) == 1, "the second call was not asked about"


def test_deferring_run_ends_and_its_call_runs_after_resuming(
    midturn: CommandLine, claude_program: Path
) -> None:
    midturn.ok("hook", "install", "claude", "--policy", "defer")
    call = [("Bash", {"command": "touch made", "description": "Make"})]
    with FakeMessages([call, "All done."]) as provider:
        assert "tool_deferred" in ended(
            start(midturn, claude_program, provider, "--output-format", "json")
        )
        (question,) = wait_for(midturn)
        assert question["asker"]["waits"] is False
        assert not (midturn.root / "made").exists()
        environment = environment_of(midturn, provider)
        path = f"{claude_program.parent}:{environment['PATH']}"
        assert (
            "All done."
            in midturn.ok(
                "answer", question["id"], "y", "--resume", **{**environment, "PATH": path}
            ).stdout
        )

    assert (midturn.root / "made").exists()
    assert midturn.ok("inbox", "--json").json == []
    assert [
        event["answered_by"]["by"] for events in stored(midturn) for event in answers(events)
    ] == ["user"]


def test_its_model_asks_with_our_tool_and_reads_the_answer(
    midturn: CommandLine, claude_program: Path
) -> None:
    printed = midturn.ok("mcp", "--print-config", "claude").stdout
    (midturn.home / "servers.json").write_text(printed)
    asked = {"question": "Which env?", "answer_type": "select", "options": ["prod", "dev"]}
    with FakeMessages([[("mcp__midturn__ask_user", asked)], "All done."]) as provider:
        claude = start(
            midturn,
            claude_program,
            provider,
            "--mcp-config",
            str(midturn.home / "servers.json"),
            "--allowedTools",
            "mcp__midturn",
        )
        (question,) = wait_for(midturn)
        midturn.ok("answer", question["id"], "dev")
        assert ended(claude) == "All done.\n"

    assert "The user answered: dev" in provider.results[0]
    assert question["asker"]["name"] == "Claude Code"


def test_tool_timeout_is_not_a_no_and_the_next_poll_has_the_answer(
    midturn: CommandLine, claude_program: Path
) -> None:
    servers = midturn.home / "servers.json"
    servers.write_text(
        with_options(midturn.ok("mcp", "--print-config", "claude").stdout, "--slice", "1")
    )

    def looks(request: str) -> Calls:
        (question,) = wait_for(midturn)
        midturn.ok("answer", question["id"], "--reply", "Why?")
        return check_again("mcp__midturn__check_answer")(request)

    asked: Calls = [("mcp__midturn__ask_user", {"question": "Ship it?", "answer_type": "boolean"})]
    with FakeMessages([asked, looks, "All done."]) as provider:
        claude = start(
            midturn,
            claude_program,
            provider,
            "--mcp-config",
            str(servers),
            "--allowedTools",
            "mcp__midturn",
        )
        assert ended(claude) == "All done.\n"

    nobody, replied = provider.results
    assert "Nobody has answered yet" in nobody
    assert "The user did not choose, and said: Why?" in replied
    assert "Nobody has answered" not in replied


def test_late_answer_to_our_tool_wakes_the_session(
    midturn: CommandLine, claude_program: Path
) -> None:
    midturn.ok("hook", "install", "claude")
    servers = midturn.home / "servers.json"
    servers.write_text(
        with_options(midturn.ok("mcp", "--print-config", "claude").stdout, "--slice", "1")
    )
    asked: Calls = [("mcp__midturn__ask_user", {"question": "Ship it?", "answer_type": "boolean"})]
    with FakeMessages([asked, "I wait.", "All done."]) as provider:
        claude = start(
            midturn,
            claude_program,
            provider,
            "--mcp-config",
            str(servers),
            "--allowedTools",
            "mcp__midturn",
        )
        until(lambda: provider.results, bool)
        (question,) = wait_for(midturn)
        midturn.ok("answer", question["id"], "n")
        assert ended(claude) == "All done.\n"

    assert "Nobody has answered yet" in provider.results[0]
    assert "was answered by the user: no" in provider.said
    assert len(stored(midturn)) == 1


def test_answer_after_a_kill_counts_when_the_agent_is_resumed(
    midturn: CommandLine, claude_program: Path
) -> None:
    midturn.ok("hook", "install", "claude")
    call: Calls = [("Bash", {"command": "touch made", "description": "Make"})]
    with FakeMessages([call]) as provider:
        claude = start(midturn, claude_program, provider)
        wait_for(midturn)
        os.killpg(claude.pid, signal.SIGKILL)
        claude.communicate(timeout=300)
    (question,) = until(
        lambda: midturn.ok("inbox", "--json").json,
        lambda questions: not questions[0]["asker"]["waits"],
    )
    assert [answers(events) for events in stored(midturn)] == [[]]

    midturn.ok("answer", question["id"], "y")
    with FakeMessages([call, "All done."]) as provider:
        assert ended(start(midturn, claude_program, provider, "--continue")) == "All done.\n"

    assert (midturn.root / "made").exists()
    assert len(stored(midturn)) == 1  # nobody was asked twice


@pytest.mark.parametrize("value", [["y"], ["n", "--reason", "Not now."]])
def test_delegated_permission_is_decided_in_the_inbox(
    midturn: CommandLine, claude_program: Path, value: list[str]
) -> None:
    servers = midturn.home / "servers.json"
    servers.write_text(midturn.ok("mcp", "--print-config", "claude").stdout)
    options = (
        "--mcp-config",
        str(servers),
        "--permission-prompt-tool",
        "mcp__midturn__permission_prompt",
    )
    call: Calls = [("Bash", {"command": "touch made", "description": "Make"})]
    with FakeMessages([call, "All done."]) as provider:
        claude = start(midturn, claude_program, provider, *options)
        (question,) = wait_for(midturn)
        midturn.ok("answer", question["id"], *value)
        assert ended(claude) == "All done.\n"

    assert (midturn.root / "made").exists() == (value[0] == "y")
    assert ("The user said no: Not now." in provider.results[0]) == (value[0] == "n")


def _answer(midturn: CommandLine, command: str, *value: str) -> None:
    """Wait for the question about a command and answer it."""

    def found() -> list[str]:
        return [
            question["id"]
            for question in midturn.ok("inbox", "--json").json
            if question["arguments"]["command"] == command
        ]

    midturn.ok("answer", until(found, bool)[0], *value)
