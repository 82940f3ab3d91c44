"""What an agent keeps of a yes is offered as what it is, and is never more than what was shown."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from midturn.core.events import Approval
from midturn.errors import AnswerError
from midturn.foreign.agents import AGENTS
from midturn.foreign.claude import suggested
from midturn.store.file_store import FileStore
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
SHOWN = "allow Bash(touch *) (localSettings)"


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

    assert question["asker"]["always"] == SHOWN
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
        assert send(client, question, act="approve", remember="yes").status_code == 303

    assert "With a yes, from now on: allow Bash(&lt;script&gt;⟨U+202E⟩ *) (localSettings)." in page
    assert "for this turn" not in page
    assert asyncio.run(asked(hooks, evil)) == {"behavior": "allow", "updatedPermissions": [evil]}


@pytest.mark.parametrize(
    "suggestions",
    [
        [],
        [{"type": "fromTheFuture"}],
        [RULE, {"type": "fromTheFuture"}],
        [{**RULE, "behavior": "deny"}],
        [{**RULE, "rules": []}],
        [RULE, 7],
        "all of it",
        None,
    ],
)
def test_what_cannot_be_named_is_not_offered(suggestions: Any) -> None:
    assert suggested(suggestions) == ""


def test_every_kind_is_named_in_its_own_terms() -> None:
    folders = {"type": "addDirectories", "directories": ["/srv", "/opt"], "destination": "session"}
    mode = {"type": "setMode", "mode": "acceptEdits", "destination": "session"}

    named = suggested([RULE, folders, mode, {**RULE, "rules": [{"toolName": "WebFetch"}]}])

    assert named == (
        "allow Bash(touch *) (localSettings); work in /srv, /opt, too (session); permission mode acceptEdits (session); "
        "allow every call of WebFetch (localSettings)"
    )


@pytest.mark.parametrize(("suggestions", "approve"), [([], True), ([RULE], False)])
def test_what_is_not_offered_cannot_be_had(hooks: HookRuns, suggestions: list[Any], approve: bool) -> None:  # noqa: FBT001
    async def work() -> None:
        await asked(hooks, *suggestions)
        (question,) = await hooks.store.pending()
        with pytest.raises(AnswerError):
            await hooks.store.answer(question.id, approve=approve, remember=True, via="inbox")
        assert len(await hooks.store.pending()) == 1

    asyncio.run(work())
