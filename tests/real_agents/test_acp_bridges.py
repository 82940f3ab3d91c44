"""Claude Code and Codex as ACP agents, through the bridge programs that editors use, run by
`midturn acp run`.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from real_agents.agents import AGENTS
from support.cli import CommandLine, Process
from support.fake_messages import FakeMessages
from support.fake_provider import FakeProvider
from support.hooks import answers, stored, wait_for
from support.installed import installed, or_skip

pytestmark = [pytest.mark.real("agents of others", may_be_missing=True), pytest.mark.timeout(600)]
OPTIONS = [{"label": "prod", "description": "Live"}, {"label": "dev", "description": "Here"}]
QUESTION = {"question": "Which env?", "header": "Env", "multiSelect": False, "options": OPTIONS}
WORKING = "workspace-write"


def program(name: str, version: str) -> Path:
    """Install a bridge program."""
    return or_skip(lambda: installed(name, f"@agentclientprotocol/{name}@{version}")) / name


@pytest.fixture
def claude() -> Path:
    """The bridge that Zed uses for Claude Code."""
    return program("claude-agent-acp", "0.100.0")


@pytest.fixture
def codex() -> Path:
    """The bridge that Zed uses for Codex."""
    return program("codex-acp", "2.6.0")


def start_claude(midturn: CommandLine, claude: Path, provider: FakeMessages) -> Process:
    given = {
        "ANTHROPIC_BASE_URL": provider.url,
        "ANTHROPIC_API_KEY": "sk-dummy",
        "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
        "DISABLE_AUTOUPDATER": "1",
        "IS_SANDBOX": "1",  # otherwise it refuses to start as root
    }
    return midturn.start("acp", "run", "--prompt", "Go", "--", str(claude), **given)


def start_codex(
    midturn: CommandLine, codex: Path, provider: FakeProvider, mode: str = WORKING
) -> Process:
    given = AGENTS["codex"].surroundings(midturn, provider)
    return midturn.start("acp", "run", "--mode", mode, "--prompt", "Go", "--", str(codex), **given)


def ended(run: Process) -> str:
    said, errors = run.communicate(timeout=300)
    assert run.returncode == 0, errors
    return said


@pytest.mark.parametrize("value", [["y"], ["n", "--reason", "Not now."]])
def test_a_permission_of_claude_is_decided_in_the_inbox(
    midturn: CommandLine, claude: Path, value: list[str]
) -> None:
    call: list[tuple[str, dict[str, Any]]] = [
        ("Bash", {"command": "touch made", "description": "Make it"})
    ]
    with FakeMessages([call, "All done."]) as provider:
        run = start_claude(midturn, claude, provider)
        (question,) = wait_for(midturn)
        midturn.ok("answer", question["id"], *value)
        assert "All done." in ended(run)

    assert question["asker"]["name"] == "Claude Agent"
    assert question["arguments"]["command"] == "touch made"
    assert (midturn.root / "made").exists() == (value[0] == "y")
    assert ("The user said no: Not now." in provider.said) == (value[0] == "n")


def test_a_question_of_claudes_model_is_answered_in_the_inbox(
    midturn: CommandLine, claude: Path
) -> None:
    with FakeMessages([[("AskUserQuestion", {"questions": [QUESTION]})], "All done."]) as provider:
        run = start_claude(midturn, claude, provider)
        (question,) = wait_for(midturn)
        midturn.ok("answer", question["id"], '{"question_0": "dev", "question_0_custom": null}')
        assert "All done." in ended(run)

    assert '"Which env?"="dev"' in provider.results[0]
    assert [
        event["answered_by"]["via"]
        for events in stored(midturn)
        for event in answers(events)
        if "answer" in event
    ] == ["inbox"] * 2


@pytest.mark.parametrize("value", [["y"], ["n", "--reason", "Not now."]])
def test_a_permission_of_codex_is_decided_in_the_inbox(
    midturn: CommandLine, codex: Path, value: list[str]
) -> None:
    asking = {
        "cmd": "touch made",
        "sandbox_permissions": "require_escalated",
        "justification": "Make it?",
    }
    with FakeProvider([[("exec_command", asking)], "All done."]) as provider:
        run = start_codex(midturn, codex, provider)
        (question,) = wait_for(midturn)
        midturn.ok("answer", question["id"], *value)
        run.communicate(timeout=300)

    assert question["asker"]["name"] == "Codex"
    assert question["arguments"]["command"] == "touch made"
    assert (midturn.root / "made").exists() == (value[0] == "y")


def test_unknown_mode_error_lists_the_supported_modes(midturn: CommandLine, codex: Path) -> None:
    with FakeProvider([]) as provider:
        run = start_codex(midturn, codex, provider, "no-such-mode")
        _, errors = run.communicate(timeout=300)

    assert run.returncode == 1
    assert (
        "no mode `no-such-mode`. Available modes: `read-only`, `workspace-write`"
        in errors.replace("\n", " ")
    )
