"""A permanent permission of an agent is shown with its effect, and never covers more than was
shown.
"""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from midturn.errors import AnswerError
from midturn.events.prompt import Prompt
from midturn.events.types import Approval
from midturn.integrations.hooks.claude import suggested
from midturn.integrations.hooks.clients import AGENTS
from midturn.question.answer_type import BooleanType
from midturn.question.question import Question
from midturn.question.reply import Answered
from midturn.stores.opening import FileStore
from midturn.terminal.prompts.keys import commands, find, find_named, remembering
from midturn.web import inbox
from support.cli import CommandLine
from support.hook_runs import CLAUDE_UNATTENDED, HookRuns
from support.hooks import Session, wait_for
from support.pages import ada, browsing, send

RULE: dict[str, Any] = {
    "type": "addRules",
    "rules": [{"toolName": "Bash", "ruleContent": "touch *"}],
    "behavior": "allow",
    "destination": "localSettings",
}
CALL: dict[str, Any] = {"tool_name": "Bash", "tool_input": {"command": "touch made"}}
SHOWN = "run Bash calls that fit `touch *` without asking, in this project, only for you"
FOLDER: dict[str, Any] = {
    "type": "addDirectories",
    "directories": ["/srv"],
    "destination": "session",
}
MODE: dict[str, Any] = {"type": "setMode", "mode": "acceptEdits", "destination": "session"}


@pytest.fixture
def hooks(tmp_path: Path) -> HookRuns:
    """The hooks of `claude -p`."""
    return HookRuns(FileStore(tmp_path), AGENTS["claude"], CLAUDE_UNATTENDED)


async def asked(hooks: HookRuns, *suggestions: Any) -> dict[str, Any]:
    """Ask for a permission; return the decision."""
    document = {
        "hook_event_name": "PermissionRequest",
        "session_id": "s1",
        "permission_suggestions": [*suggestions],
        **CALL,
    }
    return (await hooks.run(document))["hookSpecificOutput"]["decision"]


def test_always_returns_the_offered_rule(midturn: CommandLine, claude: Session) -> None:
    hook = claude.start("PermissionRequest", **CALL, permission_suggestions=[RULE])
    (question,) = wait_for(midturn)
    shown = midturn.ok("inbox").stdout

    answered = midturn.ok("answer", question["id"], "always")

    assert question["asker"]["always"] == [SHOWN]
    assert '[y | n | always | {"edit": …}]' in shown
    assert f"always: {SHOWN}" in shown
    assert "yes, from now on" in answered.stderr
    assert hook.decision()["hookSpecificOutput"]["decision"] == {
        "behavior": "allow",
        "updatedPermissions": [RULE],
    }


def test_single_yes_stores_no_rule(hooks: HookRuns) -> None:
    async def work() -> None:
        await asked(hooks, RULE)
        (question,) = await hooks.store.pending()
        await hooks.store.answer(question.id, approve=True, via="inbox")
        assert await asked(hooks, RULE) == {"behavior": "allow"}

    asyncio.run(work())


def test_stored_rule_is_recorded(hooks: HookRuns) -> None:
    async def work() -> None:
        await asked(hooks, RULE)
        (question,) = await hooks.store.pending()
        await hooks.store.answer(question.id, approve=True, remember=True, via="inbox")
        assert await asked(hooks, RULE) == {"behavior": "allow", "updatedPermissions": [RULE]}
        events = (await hooks.store.read(question.conversation)).events
        assert [
            event.remembered
            for event in events
            if isinstance(event, Approval) and event.state == "approved"
        ] == [True]
        assert any(SHOWN in str(getattr(event, "content", "")) for event in events)

    asyncio.run(work())


def test_only_the_shown_rule_is_stored(hooks: HookRuns) -> None:
    """The call is repeated after its hook was killed, now with a rule that nobody has seen."""

    async def work() -> None:
        await asked(hooks, RULE)
        (question,) = await hooks.store.pending()
        await hooks.store.answer(question.id, approve=True, remember=True, via="inbox")
        wider = {**RULE, "rules": [{"toolName": "Bash"}]}
        assert await asked(hooks, wider) == {"behavior": "allow"}

    asyncio.run(work())


def test_page_offers_rules_with_any_content(hooks: HookRuns) -> None:
    evil = {**RULE, "rules": [{"toolName": "Bash", "ruleContent": "<script>\u202e *"}]}
    asyncio.run(asked(hooks, evil))
    (question,) = asyncio.run(hooks.store.pending())

    with browsing(inbox(hooks.store, user=ada)) as client:
        page = client.get(f"/q/{question.id}").text
        assert send(client, question, act="approve", remember="1").status_code == 303

    assert (
        "If you approve: run Bash calls that fit `&lt;script&gt;⟨U+202E⟩ *` without asking" in page
    )
    assert "for this turn" not in page
    assert asyncio.run(asked(hooks, evil)) == {"behavior": "allow", "updatedPermissions": [evil]}


@pytest.mark.parametrize(
    "suggestions",
    [
        [],
        [{"type": "fromTheFuture"}],
        [{**RULE, "behavior": "deny"}],
        [{**RULE, "rules": []}],
        "all of it",
        None,
    ],
)
def test_rules_that_cannot_be_described_are_not_offered(suggestions: Any) -> None:
    assert suggested(suggestions) == ()


def test_each_kind_of_rule_is_described_by_its_effect() -> None:
    folders = {**FOLDER, "directories": ["/srv", "/opt"]}
    every = {**RULE, "rules": [{"toolName": "WebFetch"}], "destination": "userSettings"}

    named = suggested(
        [
            RULE,
            {"type": "fromTheFuture"},
            folders,
            MODE,
            every,
            7,
            {**MODE, "mode": "new", "destination": "there"},
        ]
    )

    assert named == (
        SHOWN,
        "work in /srv and /opt as in its own directory, until its session ends",
        "change files without asking (its mode acceptEdits), until its session ends",
        "run every call of WebFetch without asking, in all of your projects",
        "change to its permission mode new, kept in there",
    )


def test_only_the_chosen_rule_is_stored(midturn: CommandLine, claude: Session) -> None:
    hook = claude.start("PermissionRequest", **CALL, permission_suggestions=[FOLDER, MODE])
    (question,) = wait_for(midturn)
    shown = midturn.ok("inbox").stdout

    which = midturn.run("answer", question["id"], "always")
    midturn.ok("answer", question["id"], "always 1")

    assert '[y | n | always 1 | always 2 | {"edit": …}]' in shown
    assert "always 1: work in /srv as in its own directory, until its session ends" in shown
    assert (
        "always 2: change files without asking (its mode acceptEdits), until its session ends"
        in shown
    )
    assert which.status == 1
    assert (
        "Choose what to allow permanently: `always 1` to work in /srv as in its own directory"
        in " ".join(which.stderr.split())
    )
    assert hook.decision()["hookSpecificOutput"]["decision"] == {
        "behavior": "allow",
        "updatedPermissions": [FOLDER],
    }


def test_page_offers_each_rule_separately(hooks: HookRuns) -> None:
    asyncio.run(asked(hooks, FOLDER, MODE))
    (question,) = asyncio.run(hooks.store.pending())

    with browsing(inbox(hooks.store, user=ada)) as client:
        page = client.get(f"/q/{question.id}").text
        assert send(client, question, act="approve", remember="2").status_code == 303

    assert page.count('type="radio" name="remember"') == 3
    assert asyncio.run(asked(hooks, FOLDER, MODE)) == {
        "behavior": "allow",
        "updatedPermissions": [MODE],
    }


def test_terminal_has_a_key_for_each_rule() -> None:
    prompt = Prompt(
        question=Question.unchecked(id="__run__", text="Run Bash?", answer_type=BooleanType()),
        kind="run",
        may_remember=True,
        always=("work in /srv", "change files without asking"),
    )
    offered = commands(prompt)

    assert [find(offered, key).does for key in ("1", "2")] == [  # type: ignore[union-attr]
        Answered(True, remember="work in /srv"),
        Answered(True, remember="change files without asking"),
    ]
    assert find(offered, "Y") is None
    assert find_named(offered, "always 2") == find(offered, "2")
    assert remembering(prompt) == "Always: 1 work in /srv; 2 change files without asking"


@pytest.mark.parametrize(("suggestions", "approve"), [([], True), ([RULE], False)])
def test_rules_that_are_not_offered_are_refused(
    hooks: HookRuns,
    suggestions: list[Any],
    approve: bool,  # noqa: FBT001
) -> None:
    async def work() -> None:
        await asked(hooks, *suggestions)
        (question,) = await hooks.store.pending()
        with pytest.raises(AnswerError):
            await hooks.store.answer(question.id, approve=approve, remember=True, via="inbox")
        assert len(await hooks.store.pending()) == 1

    asyncio.run(work())
