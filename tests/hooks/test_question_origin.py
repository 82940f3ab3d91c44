"""The asking agent, its directory and its last message, which distinguish repositories, agents
and subagents.
"""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest

from midturn.events.open_question import OpenQuestion
from midturn.integrations.hooks.clients import AGENTS
from midturn.integrations.hooks.hook_agent import last_message
from midturn.stores.opening import FileStore
from midturn.web import inbox
from support.cli import CommandLine
from support.hook_runs import CLAUDE_UNATTENDED, HookRuns
from support.hooks import Session
from support.pages import ada, browsing

CALL: dict[str, Any] = {
    "hook_event_name": "PermissionRequest",
    "session_id": "s1",
    "tool_name": "Bash",
    "tool_input": {"command": "make"},
}


@pytest.fixture
def hooks(tmp_path: Path) -> HookRuns:
    """The hooks of `claude -p`."""
    return HookRuns(FileStore(tmp_path / "store"), AGENTS["claude"], CLAUDE_UNATTENDED)


def transcript(folder: Path, *entries: Any) -> str:
    """Write a transcript of an agent; return its path."""
    folder.mkdir(exist_ok=True)
    file = folder / "transcript.jsonl"
    file.write_text("".join(f"{json.dumps(entry)}\n" for entry in entries))
    return str(file)


def said(words: str) -> dict[str, Any]:
    return {
        "type": "assistant",
        "message": {"role": "assistant", "content": [{"type": "text", "text": words}]},
    }


async def asked(hooks: HookRuns, **more: Any) -> OpenQuestion:
    """Ask for a permission; return the question."""
    known = {question.id for question in await hooks.store.pending()}
    await hooks.run({**CALL, **more}, wait=0)
    (question,) = [question for question in await hooks.store.pending() if question.id not in known]
    return question


def test_equal_calls_show_their_repositories(hooks: HookRuns, tmp_path: Path) -> None:
    for name, words in (("r1", "The tests pass."), ("r2", "A <b>dirty</b> tree.")):
        folder = tmp_path / name
        there = transcript(
            folder,
            said("Hello."),
            said(words),
            {"type": "user", "message": {"role": "user", "content": "Go"}},
        )
        asyncio.run(asked(hooks, session_id=name, cwd=str(folder), transcript_path=there))

    with browsing(inbox(hooks.store, user=ada)) as client:
        listed = client.get("/").text
        questions = client.get("/api/questions").json()
        page = client.get(f"/q/{questions[1]['id']}").text

    assert [question["asker"]["cwd"] for question in questions] == [
        str(tmp_path / "r1"),
        str(tmp_path / "r2"),
    ]
    assert [question["asker"]["said"] for question in questions] == [
        "The tests pass.",
        "A <b>dirty</b> tree.",
    ]
    for shown in (
        f"in {tmp_path / 'r1'}",
        f"in {tmp_path / 'r2'}",
        "Last message: The tests pass.",
        "A &lt;b&gt;dirty&lt;/b&gt; tree.",
    ):
        assert shown in listed
    assert f"asks in <code>{tmp_path / 'r2'}</code>" in page
    assert "Last message: A &lt;b&gt;dirty&lt;/b&gt; tree." in page


def test_inbox_shows_the_last_message(midturn: CommandLine, headless: Session) -> None:
    there = transcript(midturn.home, said("I am done\nwith \u202ethat."))
    headless.run(
        "PermissionRequest",
        "--wait",
        "0",
        tool_name="Bash",
        tool_input={"command": "make"},
        transcript_path=there,
    )

    assert "it said: I am done with ⟨U+202E⟩that." in midturn.ok("inbox").stdout
    assert midturn.ok("inbox", "--json").json[0]["asker"]["cwd"] == str(midturn.root)


CODEX = {
    "type": "response_item",
    "payload": {
        "type": "message",
        "role": "assistant",
        "content": [{"type": "output_text", "text": "Words."}],
    },
}
QWEN = {"type": "assistant", "message": {"role": "model", "parts": [{"text": "Words."}]}}
THOUGHT = {
    "type": "assistant",
    "message": {
        "role": "assistant",
        "content": [{"type": "thinking", "thinking": "Hm."}, {"type": "tool_use"}],
    },
}
USER = {"type": "user", "message": {"role": "user", "content": "Mine."}}


@pytest.mark.parametrize(
    "entry", [CODEX, QWEN, said("Words."), {"type": "gemini", "content": "Words."}]
)
def test_last_message_is_read_from_the_transcript(tmp_path: Path, entry: Any) -> None:
    assert (
        last_message(
            {"transcript_path": transcript(tmp_path, said("Before."), entry, USER, THOUGHT, 7)}
        )
        == "Words."
    )


@pytest.mark.parametrize("path", ["", "/nowhere/at/all", "/a\0b", "/proc/self", 7])
def test_unreadable_transcript_is_ignored(path: Any) -> None:
    assert last_message({"transcript_path": path}) == ""


def test_long_message_is_truncated(tmp_path: Path) -> None:
    words = last_message(
        {"transcript_path": transcript(tmp_path, said("word " * 1_000_000), said("x" * 1000))}
    )
    assert words == "x" * 300 + "…"


def test_subagent_is_distinguished_with_its_own_answers(hooks: HookRuns) -> None:
    async def work() -> None:
        main = await asked(hooks)
        sub = await asked(hooks, agent_id="a1b2c3d4e5f6", agent_type="reviewer")
        assert (main.source.header, sub.source.header) == (
            "Claude Code",
            "Claude Code, subagent reviewer a1b2c3d4",
        )
        assert sub.to_json()["asker"]["subagent"] == "reviewer a1b2c3d4"  # type: ignore[index,call-overload]
        await hooks.store.answer(sub.id, approve=True, via="inbox")
        denied = await hooks.run(CALL, wait=0)
        assert denied["hookSpecificOutput"]["decision"]["behavior"] == "deny", (
            "this yes was for another call"
        )

    asyncio.run(work())


def test_a_plan_is_shown_with_the_call_that_leaves_the_plan_mode(
    hooks: HookRuns, tmp_path: Path
) -> None:
    file = tmp_path / "plan.md"
    file.write_text("# The plan\n1. Delete everything.")
    there = transcript(
        tmp_path / "t",
        {"type": "attachment", "attachment": {"type": "plan_mode", "planFilePath": str(file)}},
    )

    question = asyncio.run(
        asked(hooks, tool_name="ExitPlanMode", tool_input={}, transcript_path=there)
    )

    assert question.arguments == {"plan": "# The plan\n1. Delete everything."}
