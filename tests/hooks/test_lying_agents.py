"""Agents that say to their hooks what nobody expects: the question stays open, the agent gets a safe decision and true words."""

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
EVENT = {CODEX: "PreToolUse", GEMINI: "BeforeTool", QWEN: "PermissionRequest", COPILOT: "permissionRequest", CLAUDE: "PermissionRequest"}
pytestmark = pytest.mark.timeout(120)
each_agent = pytest.mark.parametrize("agent", GIVEN)


def alone(midturn: CommandLine, agent: str) -> Session:
    """Return a session that nobody sits before."""
    return Session(midturn, agent, given=GIVEN[agent], **(ALONE if agent == CLAUDE else {}))


def call(midturn: CommandLine, agent: str, **changes: Any) -> str:
    """Return what an agent says of a call that needs a permission."""
    document: dict[str, Any] = {"session_id": "s1", "cwd": str(midturn.root), "hook_event_name": EVENT[agent], **SHELL}
    if agent == COPILOT:
        own = {"hookName": EVENT[agent], "sessionId": "s1", "toolName": "bash", "toolInput": SHELL["tool_input"]}
        document = {**own, "cwd": document["cwd"]}
    return json.dumps({**document, **changes})


def allows(status: int, printed: str) -> bool:
    """Say whether an agent that nobody sits before would run the call."""
    if status == 2:
        return False
    return not any(f'"{key}": "deny"' in printed for key in ("behavior", "permissionDecision", "decision"))


HUGE = int(os.environ.get("MIDTURN_HUGE", "4_000_000"))
"""Characters of what is far too much; 100_000_000 for the long form."""
FAILS_OPEN = {CODEX, GEMINI, QWEN}
"""Those that run a call about which a hook says nothing; the others deny where nobody sits."""


@each_agent
def test_fields_of_another_kind_are_still_a_question(midturn: CommandLine, agent: str) -> None:
    """What is another version's, or nobody's, is shown as far as it is known."""
    lies: dict[str, Any] = {"cwd": "/a\0b", "session_id": ["s"], "sessionId": 7, "tool_name": {"a": 1}, "tool_input": "all of it", "x": [1]}
    hook = alone(midturn, agent).start_with(call(midturn, agent, **lies), "--wait", "0.1")
    printed, errors = hook.process.communicate(timeout=60)

    assert not allows(hook.process.wait(), printed), errors
    assert "The user said no" not in printed + errors
    assert [answers(events) for events in stored(midturn)] == [[]]


@pytest.mark.parametrize("stdin", ["", "not JSON", "[1]", "7", "[" * 100_000], ids=["nothing", "words", "a list", "a number", "depth"])
@each_agent
def test_what_is_no_json_never_runs_a_call_where_silence_would(
    agent: str, stdin: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("sys.stdin", TextIOWrapper(BytesIO(stdin.encode())))

    status = hook_run.run_hook(AGENTS[agent], 1, None)

    printed, errors = capsys.readouterr()
    assert agent not in FAILS_OPEN or not allows(status, printed)
    assert "The user said no" not in printed + errors


@each_agent
def test_an_event_that_nobody_has_heard_of_is_not_ours(midturn: CommandLine, agent: str) -> None:
    name = {"hookName": "fromTheFuture"} if agent == COPILOT else {"hook_event_name": "FromTheFuture"}
    hook = alone(midturn, agent).start_with(call(midturn, agent, **name))

    assert hook.decision() is None
    assert stored(midturn) == []


@pytest.mark.parametrize("agent", [CODEX, CLAUDE])
def test_far_too_much_is_a_question_as_any_or_none_at_all(midturn: CommandLine, agent: str) -> None:
    huge = call(midturn, agent).replace("rm -r build", "x" * HUGE)
    hook = alone(midturn, agent).start_with(huge, "--wait", "0.1")
    printed, errors = hook.process.communicate(timeout=60)

    assert not allows(hook.process.wait(), printed), errors[-2000:]
    assert "The user said no" not in printed + errors
    assert [answers(events) for events in stored(midturn)] in ([], [[]])


@each_agent
def test_two_permissions_at_once_answered_in_the_other_order_with_one_hook_killed_and_resumed(midturn: CommandLine, agent: str) -> None:
    session = alone(midturn, agent)
    first = call(midturn, agent)
    second = first.replace("rm -r build", "rm -r dist")
    killed, waiting = session.start_with(first), session.start_with(second)
    questions = {question["arguments"]["command"]: question["id"] for question in wait_for(midturn, 2)}

    killed.process.send_signal(signal.SIGKILL)
    killed.process.communicate(timeout=60)
    midturn.ok("answer", questions["rm -r dist"], "n", "--reason", "Keep it.")
    midturn.ok("answer", questions["rm -r build"], "y")
    printed, _ = waiting.process.communicate(timeout=60)
    resumed = session.start_with(first)
    allowed, errors = resumed.process.communicate(timeout=60)

    assert "The user said no: Keep it." in printed
    assert allows(resumed.process.wait(), allowed), errors
    assert len(stored(midturn)) == 2, "nothing was asked twice"


@pytest.mark.parametrize("value", ["[" * 200 + '"rm -rf /"' + "]" * 200, "1e999"])
@each_agent
def test_a_call_that_could_not_be_shown_as_it_is_is_not_asked_about(midturn: CommandLine, agent: str, value: str) -> None:
    """Who would see something else than what runs, or nothing, cannot allow it."""
    said = call(midturn, agent).replace('"rm -r build"', value)
    hook = alone(midturn, agent).start_with(said, "--wait", "0.1")
    printed, _ = hook.process.communicate(timeout=60)

    assert agent not in FAILS_OPEN or not allows(hook.process.wait(), printed)
    assert "behavior" not in printed or '"deny"' in printed
    assert midturn.ok("inbox", "--json").json == []
