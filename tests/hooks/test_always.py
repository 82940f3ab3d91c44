"""What an agent keeps of a yes is offered as what it is, and is never more than what was shown."""

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
from support.hook_runs import CLAUDE_ALONE, HookRuns
from support.hooks import Session, wait_for
from support.pages import ada, browsing, send

RULE: dict[str, Any] = {
    "type": "addRules",
    "rules": [{"toolName": "Bash", "ruleContent": "touch *"}],
    "behavior": "allow",
    "destination": "localSettings",
}
CALL: dict[str, Any] = {"tool_name": "Bash", "tool_input": {"command": "touch made"}}
SHOWN = "run Bash calls that fit `touch *` without asking, in this project, for you alone"
FOLDER: dict[str, Any] = {"type": "addDirectories", "directories": ["/srv"], "destination": "session"}
MODE: dict[str, Any] = {"type": "setMode", "mode": "acceptEdits", "destination": "session"}


@pytest.fixture
def hooks(tmp_path: Path) -> HookRuns:
    """The hooks of `claude -p`."""
    return HookRuns(FileStore(tmp_path), AGENTS["claude"], CLAUDE_ALONE)


async def asked(hooks: HookRuns, *suggestions: Any) -> dict[str, Any]:
    """Ask for a permission; return what is decided."""
    document = {"hook_event_name": "PermissionRequest", "session_id": "s1", "permission_suggestions": [*suggestions], **CALL}
    return (await hooks.run(document))["hookSpecificOutput"]["decision"]


def test_the_inbox_names_it_and_always_hands_it_back(midturn: CommandLine, claude: Session) -> None:
    hook = claude.start("PermissionRequest", **CALL, permission_suggestions=[RULE])
    (question,) = wait_for(midturn)
    shown = midturn.ok("inbox").stdout

    answered = midturn.ok("answer", question["id"], "always")

    assert question["asker"]["always"] == [SHOWN]
    assert '[y | n | always | {"edit": …}]' in shown
    assert f"always: {SHOWN}" in shown
    assert "yes, from now on" in answered.stderr
    assert hook.decision()["hookSpecificOutput"]["decision"] == {"behavior": "allow", "updatedPermissions": [RULE]}


def test_a_yes_to_this_once_keeps_nothing(hooks: HookRuns) -> None:
    async def work() -> None:
        await asked(hooks, RULE)
        (question,) = await hooks.store.pending()
        await hooks.store.answer(question.id, approve=True, via="inbox")
        assert await asked(hooks, RULE) == {"behavior": "allow"}

    asyncio.run(work())


def test_what_is_kept_is_on_record(hooks: HookRuns) -> None:
    async def work() -> None:
        await asked(hooks, RULE)
        (question,) = await hooks.store.pending()
        await hooks.store.answer(question.id, approve=True, remember=True, via="inbox")
        assert await asked(hooks, RULE) == {"behavior": "allow", "updatedPermissions": [RULE]}
        events = (await hooks.store.read(question.conversation)).events
        assert [event.remembered for event in events if isinstance(event, Approval) and event.state == "approved"] == [True]
        assert any(SHOWN in str(getattr(event, "content", "")) for event in events)

    asyncio.run(work())


def test_another_rule_than_the_one_that_was_shown_is_never_kept(hooks: HookRuns) -> None:
    """The call comes again, after its hook was killed: now with a rule that nobody has seen."""

    async def work() -> None:
        await asked(hooks, RULE)
        (question,) = await hooks.store.pending()
        await hooks.store.answer(question.id, approve=True, remember=True, via="inbox")
        wider = {**RULE, "rules": [{"toolName": "Bash"}]}
        assert await asked(hooks, wider) == {"behavior": "allow"}

    asyncio.run(work())


def test_the_page_offers_it_whatever_is_in_it(hooks: HookRuns) -> None:
    evil = {**RULE, "rules": [{"toolName": "Bash", "ruleContent": "<script>\u202e *"}]}
    asyncio.run(asked(hooks, evil))
    (question,) = asyncio.run(hooks.store.pending())

    with browsing(inbox(hooks.store, user=ada)) as client:
        page = client.get(f"/q/{question.id}").text
        assert send(client, question, act="approve", remember="1").status_code == 303

    assert "With a yes, from now on: run Bash calls that fit `&lt;script&gt;⟨U+202E⟩ *` without asking" in page
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
def test_what_cannot_be_named_is_not_offered(suggestions: Any) -> None:
    assert suggested(suggestions) == ()


def test_every_kind_is_named_by_what_it_lets_through_and_stands_by_itself() -> None:
    folders = {**FOLDER, "directories": ["/srv", "/opt"]}
    every = {**RULE, "rules": [{"toolName": "WebFetch"}], "destination": "userSettings"}

    named = suggested([RULE, {"type": "fromTheFuture"}, folders, MODE, every, 7, {**MODE, "mode": "new", "destination": "there"}])

    assert named == (
        SHOWN,
        "work in /srv and /opt as in its own directory, until its session ends",
        "change files without asking (its mode acceptEdits), until its session ends",
        "run every call of WebFetch without asking, in all of your projects",
        "change to its permission mode new, kept in there",
    )


def test_of_several_only_the_one_is_kept_that_was_chosen(midturn: CommandLine, claude: Session) -> None:
    hook = claude.start("PermissionRequest", **CALL, permission_suggestions=[FOLDER, MODE])
    (question,) = wait_for(midturn)
    shown = midturn.ok("inbox").stdout

    which = midturn.run("answer", question["id"], "always")
    midturn.ok("answer", question["id"], "always 1")

    assert '[y | n | always 1 | always 2 | {"edit": …}]' in shown
    assert "always 1: work in /srv as in its own directory, until its session ends" in shown
    assert "always 2: change files without asking (its mode acceptEdits), until its session ends" in shown
    assert which.status == 1
    assert "Say which of these is to be kept: `always 1` to work in /srv as in its own directory" in " ".join(which.stderr.split())
    assert hook.decision()["hookSpecificOutput"]["decision"] == {"behavior": "allow", "updatedPermissions": [FOLDER]}


def test_the_page_offers_each_by_itself(hooks: HookRuns) -> None:
    asyncio.run(asked(hooks, FOLDER, MODE))
    (question,) = asyncio.run(hooks.store.pending())

    with browsing(inbox(hooks.store, user=ada)) as client:
        page = client.get(f"/q/{question.id}").text
        assert send(client, question, act="approve", remember="2").status_code == 303

    assert page.count('type="radio" name="remember"') == 3
    assert asyncio.run(asked(hooks, FOLDER, MODE)) == {"behavior": "allow", "updatedPermissions": [MODE]}


def test_at_the_terminal_each_has_a_key_of_its_own() -> None:
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
def test_what_is_not_offered_cannot_be_had(hooks: HookRuns, suggestions: list[Any], approve: bool) -> None:  # noqa: FBT001
    async def work() -> None:
        await asked(hooks, *suggestions)
        (question,) = await hooks.store.pending()
        with pytest.raises(AnswerError):
            await hooks.store.answer(question.id, approve=approve, remember=True, via="inbox")
        assert len(await hooks.store.pending()) == 1

    asyncio.run(work())
