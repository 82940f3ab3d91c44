"""Agents that send unexpected input to their hooks: the question stays open, and the agent
gets a safe decision and a true message.
"""

from __future__ import annotations

import json
import os
import signal
from io import BytesIO, TextIOWrapper
from typing import Any

import pytest

from midturn.cli import hook_run
from midturn.integrations.hooks.clients import AGENTS
from support.cli import CommandLine
from support.hooks import Session, answers, stored, wait_for

SHELL = {"tool_name": "Bash", "tool_input": {"command": "rm -r build"}}
CODEX, GEMINI, QWEN, COPILOT, CLAUDE = "codex", "gemini", "qwen", "copilot", "claude"
ALONE = {"CLAUDE_CODE_ENTRYPOINT": "sdk-cli", "CLAUDE_CODE_SESSION_ATTENDED": "0"}
GIVEN = {CODEX: "exec", GEMINI: "-p", QWEN: "-p", COPILOT: "-p", CLAUDE: "-p"}
EVENT = {
    CODEX: "PreToolUse",
    GEMINI: "BeforeTool",
    QWEN: "PermissionRequest",
    COPILOT: "permissionRequest",
    CLAUDE: "PermissionRequest",
}
pytestmark = pytest.mark.timeout(600)
each_agent = pytest.mark.parametrize("agent", GIVEN)


def headless_session(midturn: CommandLine, agent: str) -> Session:
    """Return a session without a terminal."""
    return Session(midturn, agent, given=GIVEN[agent], **(ALONE if agent == CLAUDE else {}))


def call(midturn: CommandLine, agent: str, **changes: Any) -> str:
    """Return the hook input for a call that needs a permission."""
    document: dict[str, Any] = {
        "session_id": "s1",
        "cwd": str(midturn.root),
        "hook_event_name": EVENT[agent],
        **SHELL,
    }
    if agent == COPILOT:
        own = {
            "hookName": EVENT[agent],
            "sessionId": "s1",
            "toolName": "bash",
            "toolInput": SHELL["tool_input"],
        }
        document = {**own, "cwd": document["cwd"]}
    return json.dumps({**document, **changes})


def allows(status: int, printed: str) -> bool:
    """Return whether an agent without a terminal would run the call."""
    if status == 2:
        return False
    return not any(
        f'"{key}": "deny"' in printed for key in ("behavior", "permissionDecision", "decision")
    )


HUGE = int(os.environ.get("MIDTURN_HUGE", "4_000_000"))
"""Number of characters of oversized input; 100_000_000 for the long test."""
FAILS_OPEN = {CODEX, GEMINI, QWEN}
"""Agents that run a call if the hook prints nothing. The others deny it if there is no
terminal.
"""


@each_agent
def test_unexpected_fields_still_create_a_question(midturn: CommandLine, agent: str) -> None:
    """Fields of another version or of unknown types are shown as far as they are known."""
    lies: dict[str, Any] = {
        "cwd": "/a\0b",
        "session_id": ["s"],
        "sessionId": 7,
        "tool_name": {"a": 1},
        "tool_input": "all of it",
        "x": [1],
    }
    hook = headless_session(midturn, agent).start_with(
        call(midturn, agent, **lies), "--wait", "0.1"
    )
    printed, errors = hook.process.communicate(timeout=120)

    assert not allows(hook.process.wait(), printed), errors
    assert "The user said no" not in printed + errors
    assert [answers(events) for events in stored(midturn)] == [[]]


@pytest.mark.parametrize(
    "stdin",
    ["", "not JSON", "[1]", "7", "[" * 100_000],
    ids=["nothing", "words", "a list", "a number", "depth"],
)
@each_agent
def test_invalid_json_denies_the_call_for_fail_open_agents(
    agent: str, stdin: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("sys.stdin", TextIOWrapper(BytesIO(stdin.encode())))

    status = hook_run.run_hook(AGENTS[agent], 1, None)

    printed, errors = capsys.readouterr()
    assert agent not in FAILS_OPEN or not allows(status, printed)
    assert "The user said no" not in printed + errors


@each_agent
def test_unknown_event_is_ignored(midturn: CommandLine, agent: str) -> None:
    name = (
        {"hookName": "fromTheFuture"} if agent == COPILOT else {"hook_event_name": "FromTheFuture"}
    )
    hook = headless_session(midturn, agent).start_with(call(midturn, agent, **name))

    assert hook.decision() is None
    assert stored(midturn) == []


@pytest.mark.parametrize("agent", [CODEX, CLAUDE])
def test_oversized_input_is_asked_normally_or_refused(midturn: CommandLine, agent: str) -> None:
    huge = call(midturn, agent).replace("rm -r build", "x" * HUGE)
    hook = headless_session(midturn, agent).start_with(huge, "--wait", "0.1")
    printed, errors = hook.process.communicate(timeout=120)

    assert not allows(hook.process.wait(), printed), errors[-2000:]
    assert "The user said no" not in printed + errors
    assert [answers(events) for events in stored(midturn)] in ([], [[]])


@each_agent
def test_parallel_permissions_with_a_killed_hook_are_answered_in_any_order(
    midturn: CommandLine, agent: str
) -> None:
    session = headless_session(midturn, agent)
    first = call(midturn, agent)
    second = first.replace("rm -r build", "rm -r dist")
    killed, waiting = session.start_with(first), session.start_with(second)
    questions = {
        question["arguments"]["command"]: question["id"] for question in wait_for(midturn, 2)
    }

    killed.process.send_signal(signal.SIGKILL)
    killed.process.communicate(timeout=120)
    midturn.ok("answer", questions["rm -r dist"], "n", "--reason", "Keep it.")
    midturn.ok("answer", questions["rm -r build"], "y")
    printed, _ = waiting.process.communicate(timeout=120)
    resumed = session.start_with(first)
    allowed, errors = resumed.process.communicate(timeout=120)

    assert "The user said no: Keep it." in printed
    assert allows(resumed.process.wait(), allowed), errors
    assert len(stored(midturn)) == 2, "nothing was asked twice"


@pytest.mark.parametrize("value", ["[" * 200 + '"rm -rf /"' + "]" * 200, "1e999"])
@each_agent
def test_call_that_cannot_be_shown_exactly_is_not_asked(
    midturn: CommandLine, agent: str, value: str
) -> None:
    """A user who would see something other than the call that runs, or nothing, cannot allow
    it.
    """
    said = call(midturn, agent).replace('"rm -r build"', value)
    hook = headless_session(midturn, agent).start_with(said, "--wait", "0.1")
    printed, _ = hook.process.communicate(timeout=120)

    assert agent not in FAILS_OPEN or not allows(hook.process.wait(), printed)
    assert "behavior" not in printed or '"deny"' in printed
    assert midturn.ok("inbox", "--json").json == []
