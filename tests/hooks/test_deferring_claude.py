"""`midturn hook claude --policy defer`: a run without a terminal ends when a person is needed,
and continues when it is resumed.
"""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest

from midturn.integrations.hooks.claude_deferring import DeferringClaude
from midturn.stores.opening import FileStore
from support.cli import CommandLine
from support.hook_runs import CLAUDE_UNATTENDED, HookRuns
from support.hooks import Session, answers, stored

DEFER = ("--policy", "defer")
TOUCH: dict[str, Any] = {
    "tool_name": "Bash",
    "tool_input": {"command": "touch made"},
    "tool_use_id": "toolu_1",
}
ASK: dict[str, Any] = {
    "tool_name": "AskUserQuestion",
    "tool_input": {
        "questions": [{"question": "Which env?", "options": [{"label": "prod"}, {"label": "dev"}]}]
    },
    "tool_use_id": "toolu_2",
}


@pytest.fixture
def hooks(tmp_path: Path) -> HookRuns:
    """The hooks of `claude -p`."""
    return HookRuns(FileStore(tmp_path), DeferringClaude(), CLAUDE_UNATTENDED)


async def before(hooks: HookRuns, **said: Any) -> dict[str, Any] | None:
    """Run the hook before a call; return its decision, or None if it prints nothing."""
    printed = await hooks.run({"hook_event_name": "PreToolUse", "session_id": "s1", **said})
    if printed is None:
        return None
    decision = dict(printed["hookSpecificOutput"])
    assert decision.pop("hookEventName") == "PreToolUse"
    return decision


async def answer(hooks: HookRuns, **how: Any) -> None:
    """Answer the open question."""
    (question,) = await hooks.store.pending()
    await hooks.store.answer(question.id, via="inbox", **how)


@pytest.mark.parametrize(
    ("how", "decision"),
    [
        ({"approve": True}, {"permissionDecision": "allow"}),
        (
            {"arguments": {"command": "ls"}},
            {"permissionDecision": "allow", "updatedInput": {"command": "ls"}},
        ),
        (
            {"approve": False, "reason": "Keep it."},
            {
                "permissionDecision": "deny",
                "permissionDecisionReason": "The user said no: Keep it.",
            },
        ),
        (
            {"cancel": True},
            {
                "permissionDecision": "deny",
                "permissionDecisionReason": "The user ended the turn. Stop here.",
            },
        ),
    ],
)
def test_call_ends_the_run_and_is_decided_when_repeated(
    hooks: HookRuns, how: dict[str, Any], decision: dict[str, Any]
) -> None:
    async def work() -> None:
        assert await before(hooks, **TOUCH) == {"permissionDecision": "defer"}
        assert await before(hooks, **TOUCH) == {"permissionDecision": "defer"}, (
            "the same question, still open"
        )
        await answer(hooks, **how)
        assert await before(hooks, **TOUCH) == decision
        assert await before(hooks, **TOUCH) == decision, (
            "a run that was killed meanwhile makes the call again"
        )
        assert len(await hooks.store.ids()) == 1

    asyncio.run(work())


def test_questions_are_answered_in_the_call(hooks: HookRuns) -> None:
    async def work() -> None:
        assert await before(hooks, **ASK) == {"permissionDecision": "defer"}
        await answer(hooks, value="dev")
        decision = await before(hooks, **ASK)
        assert decision is not None
        assert decision["permissionDecision"] == "allow"
        assert decision["updatedInput"]["answers"] == {"Which env?": "dev"}

    asyncio.run(work())


def test_each_call_of_a_run_is_a_separate_question(hooks: HookRuns) -> None:
    async def work() -> None:
        await before(hooks, **TOUCH)
        await before(
            hooks, **{**TOUCH, "tool_use_id": "toolu_9", "tool_input": {"command": "touch other"}}
        )
        assert len(await hooks.store.pending()) == 2

    asyncio.run(work())


@pytest.mark.parametrize(
    "said",
    [
        {"permission_mode": "bypassPermissions"},
        {"permission_mode": "acceptEdits", "tool_name": "Write"},
        {"tool_name": "mcp__midturn__ask_user"},
        {"tool_name": None},
    ],
)
def test_calls_without_permission_are_not_asked(hooks: HookRuns, said: dict[str, Any]) -> None:
    async def work() -> None:
        assert await before(hooks, **{**TOUCH, **said}) is None
        assert await hooks.store.pending() == []

    asyncio.run(work())


def test_other_permissions_are_denied_and_the_run_ends_without_waiting(hooks: HookRuns) -> None:
    stop = {"hook_event_name": "Stop", "session_id": "s1"}

    async def work() -> None:
        denied = await hooks.run(
            {"hook_event_name": "PermissionRequest", "session_id": "s1", **TOUCH}
        )
        assert "Nobody has answered yet" in denied["hookSpecificOutput"]["decision"]["message"]
        assert await hooks.run(stop, wait=86_000) is None
        await answer(hooks, approve=True)
        assert "Run it again." in (await hooks.run(stop))["reason"]

    asyncio.run(work())


def test_nothing_is_deferred_at_a_terminal(claude: Session) -> None:
    assert claude.run("PreToolUse", *DEFER, **TOUCH) is None


def test_unwritable_store_denies(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way")
    hooks = HookRuns(FileStore(tmp_path / "file"), DeferringClaude(), CLAUDE_UNATTENDED)

    decision = asyncio.run(before(hooks, **TOUCH))

    assert decision is not None
    assert decision["permissionDecision"] == "deny"
    assert "nobody has decided" in decision["permissionDecisionReason"]


def test_defer_policy_is_installed_and_removed_without_waking(midturn: CommandLine) -> None:
    said = midturn.ok("hook", "install", "claude", *DEFER).stdout
    file = midturn.home / ".claude" / "settings.json"
    hooks = json.loads(file.read_text())["hooks"]

    assert all(
        group["hooks"][0]["command"].endswith("hook claude --policy defer")
        for groups in hooks.values()
        for group in groups
    )
    assert "--resume" in said
    midturn.ok("hook", "install", "claude")
    assert "PreToolUse" not in json.loads(file.read_text())["hooks"]
    midturn.ok("hook", "uninstall", "claude")
    assert not file.exists()


def test_only_claude_code_can_defer(midturn: CommandLine) -> None:
    refused = midturn.run("hook", "install", "codex", *DEFER)

    assert refused.status == 2
    assert "Codex cannot end at a question." in refused.stderr


def only(midturn: CommandLine) -> dict[str, Any]:
    """Return the open question."""
    (question,) = midturn.ok("inbox", "--json").json
    return question


def test_answer_resumes_the_session_in_its_directory(
    midturn: CommandLine, headless: Session
) -> None:
    ran = midturn.home / "ran"
    stub = midturn.home / "bin" / "claude"
    stub.parent.mkdir()
    stub.write_text(f'#!/bin/sh\necho "$PWD $*" > {ran}\n')
    stub.chmod(0o755)
    path = f"{stub.parent}:{midturn.environment['PATH']}"
    headless.run("PreToolUse", *DEFER, **TOUCH)

    midturn.ok("answer", only(midturn)["id"], "y", "--resume", PATH=path)

    assert ran.read_text() == f"{Path(midturn.root).resolve()} -p --resume s1\n"


def test_invalid_session_id_is_never_on_a_command_line(midturn: CommandLine) -> None:
    alone = {"CLAUDE_CODE_ENTRYPOINT": "sdk-cli", "CLAUDE_CODE_SESSION_ATTENDED": "0"}
    Session(midturn, "claude", "--dangerously-skip-permissions", **alone).run(
        "PreToolUse", *DEFER, **TOUCH
    )

    refused = midturn.run("answer", only(midturn)["id"], "y", "--resume")

    assert refused.status == 1
    assert "cannot be resumed from here. Start it again yourself." in refused.stderr
    assert len(answers(stored(midturn)[0])) == 1, "the answer is kept all the same"
