"""An answer that comes when an agent's own dialog has its question, or the agent has gone on, answers nothing."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Mapping
from datetime import datetime
from pathlib import Path
from typing import Any, Never

import pytest

from midturn.clock import SYSTEM
from midturn.errors import NotOpen
from midturn.events.open_question import Address, OpenQuestion, asker_of
from midturn.events.types import Approval
from midturn.integrations.hooks import hook_agent
from midturn.integrations.hooks.clients import AGENTS
from midturn.stores.answer_service import too_late
from midturn.stores.opening import FileStore
from midturn.stores.store import ConversationStore
from midturn.web import inbox
from support.cli import CommandLine
from support.clocks import FakeClock
from support.hook_runs import CLAUDE_ALONE, HookRuns
from support.hooks import Session, answers, stored
from support.pages import ada, browsing

CALL: dict[str, Any] = {"tool_name": "Bash", "tool_input": {"command": "touch made"}}
OTHER: dict[str, Any] = {"tool_name": "Bash", "tool_input": {"command": "ls"}}
QUESTION: dict[str, Any] = {
    "tool_name": "AskUserQuestion",
    "tool_input": {"questions": [{"question": "Which env?", "options": [{"label": "prod"}, {"label": "dev"}]}]},
}
EVENT = {"codex": "PermissionRequest", "qwen": "PermissionRequest", "claude": "PermissionRequest", "copilot": "permissionRequest"}
WITH_DIALOG = pytest.mark.parametrize("agent", EVENT)
YES = {"hookSpecificOutput": {"hookEventName": "PermissionRequest", "decision": {"behavior": "allow"}}}


def said_of(agent: str) -> str:
    """Return what everybody is told of a question that this agent's own dialog has."""
    return f"it is asked in {AGENTS[agent].name}'s own dialog now"


def document(agent: str, call: Mapping[str, Any] = CALL) -> dict[str, Any]:
    """Return what an agent at a terminal says of a call that needs a permission."""
    if agent == "copilot":
        return {"hookName": EVENT[agent], "sessionId": "s1", "toolName": call["tool_name"], "toolInput": call["tool_input"]}
    return {"hook_event_name": EVENT[agent], "session_id": "s1", **call}


def _no_agent(*_: object) -> Iterator[Never]:
    return iter(())


@pytest.fixture
def store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> FileStore:
    """A store; no process above these tests is an agent."""
    monkeypatch.setattr(hook_agent, "_above", _no_agent)
    return FileStore(tmp_path / "store")


def attended(store: FileStore, agent: str) -> HookRuns:
    return HookRuns(store, AGENTS[agent], {"CLAUDE_CODE_SESSION_ATTENDED": "1"})


async def states(store: FileStore) -> list[str]:
    """Return what was decided about each call, the oldest first."""
    events = [event for id in await store.ids() for event in (await store.read(id)).events]
    return [event.state for event in events if isinstance(event, Approval) and event.state != "waiting"]


async def only_id(store: FileStore) -> str:
    """Return the id of the one thing that was ever asked here."""
    (conversation,) = await store.ids()
    events = (await store.read(conversation)).events
    return next(f"{conversation}-{event.event_id}" for event in events if event.type in ("approval", "inquiry_request"))


# The agent's own dialog -------------------------------------------------------------------------------------------------------


@WITH_DIALOG
def test_when_its_own_dialog_opens_the_question_is_over_and_an_answer_is_refused_with_that_sentence(store: FileStore, agent: str) -> None:
    async def work() -> None:
        assert await attended(store, agent).run(document(agent), wait=0) is None
        assert await store.pending() == []
        question = await only_id(store)
        with pytest.raises(NotOpen, match=said_of(agent)):
            await store.answer(question, approve=True, via="inbox")
        assert await states(store) == ["superseded"]

    asyncio.run(work())


@WITH_DIALOG
def test_the_same_call_is_asked_about_anew_after_it_was_decided_there(store: FileStore, agent: str) -> None:
    async def work() -> None:
        hooks = attended(store, agent)
        await hooks.run(document(agent), wait=0)
        await hooks.run(document(agent), wait=0)
        assert len(await store.ids()) == 2

    asyncio.run(work())


def test_by_hand_a_later_yes_does_not_let_the_next_call_run(midturn: CommandLine) -> None:
    codex = Session(midturn, "codex", given="tui")
    assert codex.run("PermissionRequest", "--wait", "0", **CALL) is None
    question = stored(midturn)[0]
    asked = next(event["event_id"] for event in question if event["type"] == "approval")
    (conversation,) = midturn.ok("conversation", "ls", "--json").json

    late = midturn.run("answer", f"{conversation['id']}-{asked}", "y")

    assert late.status == 1
    assert said_of("codex") in " ".join(late.stderr.split())
    assert codex.run("PermissionRequest", "--wait", "0", **CALL) is None
    assert [event.get("state") for events in stored(midturn) for event in answers(events)] == ["superseded", "superseded"]


def test_a_question_of_its_model_is_over_too(store: FileStore) -> None:
    async def work() -> None:
        await attended(store, "claude").run(document("claude", QUESTION), wait=0)
        assert await store.pending() == []
        with pytest.raises(NotOpen, match=said_of("claude")):
            await store.answer(await only_id(store), "prod", via="inbox")

    asyncio.run(work())


def test_the_page_says_where_it_is_asked_now(store: FileStore) -> None:
    asyncio.run(attended(store, "codex").run(document("codex"), wait=0))
    question = asyncio.run(only_id(store))

    with browsing(inbox(store, user=ada)) as client:
        page = client.get(f"/q/{question}").text
        sent = client.post(f"/api/questions/{question}/answer", json={"approve": True})

    assert "it is asked in Codex&#39;s own dialog now" in page
    assert (sent.status_code, sent.json()["message"]) == (410, f"The question {question} is closed: {said_of('codex')}.")


async def killed(hooks: HookRuns, said: dict[str, Any], wait: float = 3600) -> OpenQuestion:
    """Run a hook that is killed while it waits; return what it has asked."""
    running_hook = asyncio.ensure_future(hooks.run(said, SYSTEM, wait))
    since = 0
    while not (open_now := await hooks.store.pending()):
        since = await hooks.store.port.growing.stirred(since)
    running_hook.cancel()
    await asyncio.gather(running_hook, return_exceptions=True)
    (question,) = open_now
    return question


async def end_of(store: FileStore, question: OpenQuestion) -> str:
    """Return when the agent's own dialog asks a question, as it is on record."""
    asker = asker_of((await store.read(question.conversation)).events)
    assert asker
    return asker.ends


class At(FakeClock):
    """A clock that shows a time, as events carry it."""

    def __init__(self, time: str) -> None:
        super().__init__()
        self._time = datetime.fromisoformat(time)

    def now(self) -> datetime:
        """Return it."""
        return self._time


@WITH_DIALOG
def test_what_a_killed_hook_had_asked_is_over_once_its_recorded_end_has_passed(store: FileStore, agent: str) -> None:
    async def work() -> None:
        question = await killed(attended(store, agent), document(agent), wait=20)
        end = await end_of(store, question)
        after = ConversationStore(store.port, clock=At(end))
        assert end > question.asked_at
        assert [one.id for one in await store.pending()] == [question.id]
        assert await after.pending() == []
        with pytest.raises(NotOpen, match=said_of(agent)):
            await after.answer(question.id, approve=True, via="inbox")
        with pytest.raises(NotOpen, match=said_of(agent)):
            raise await too_late(after.port, Address(question.conversation, question.request.event_id))
        assert len(await store.ids()) == 1
        await attended(store, agent).run(document(agent, OTHER), At(end), wait=0)
        assert await states(store) == ["superseded", "superseded"], "whoever looks first records it"

    asyncio.run(work())


@WITH_DIALOG
def test_the_end_of_what_a_killed_hook_had_asked_is_its_deadline_and_is_recorded_by_who_looks(store: FileStore, agent: str) -> None:
    async def work() -> None:
        question = await killed(attended(store, agent), document(agent), wait=20)
        end = await end_of(store, question)
        assert question.deadline == end
        for late in (ConversationStore(store.port, clock=At(end)), store):
            with pytest.raises(NotOpen, match=said_of(agent)):
                await late.answer(question.id, approve=True, via="inbox")
            assert await states(store) == ["superseded"]

    asyncio.run(work())


@WITH_DIALOG
def test_a_yes_to_what_a_killed_hook_had_asked_lets_no_later_call_run(store: FileStore, agent: str) -> None:
    """What was said in its own dialog meanwhile is not known here."""

    async def work() -> None:
        question = await killed(attended(store, agent), document(agent))
        await store.answer(question.id, approve=True, via="inbox")
        assert await attended(store, agent).run(document(agent), wait=0) is None
        assert await states(store) == ["approved", "superseded"]

    asyncio.run(work())


def test_what_a_killed_hook_had_asked_and_nobody_has_answered_is_taken_up(store: FileStore) -> None:
    async def work() -> None:
        question = await killed(attended(store, "claude"), document("claude"))
        again = await killed(attended(store, "claude"), document("claude"))
        assert again.id == question.id

    asyncio.run(work())


# Where nobody else is asked ---------------------------------------------------------------------------------------------------


@pytest.fixture
def alone(store: FileStore) -> HookRuns:
    """The hooks of `claude -p`."""
    return HookRuns(store, AGENTS["claude"], CLAUDE_ALONE)


async def left_and_allowed(hooks: HookRuns) -> None:
    """Ask about a call whose agent is told that the question stays open, and allow it later."""
    denied = await hooks.run(document("claude"), wait=0)
    assert "The question stays open" in denied["hookSpecificOutput"]["decision"]["message"]
    (question,) = await hooks.store.pending()
    await hooks.store.answer(question.id, approve=True, via="inbox")


def test_a_later_yes_counts_once_for_that_very_call(alone: HookRuns) -> None:
    async def work() -> None:
        await left_and_allowed(alone)
        assert await alone.run(document("claude"), wait=0) == YES
        denied = await alone.run(document("claude"), wait=0)
        assert denied["hookSpecificOutput"]["decision"]["behavior"] == "deny"

    asyncio.run(work())


RAN: dict[str, Any] = {"hook_event_name": "PostToolUse", "session_id": "s1", "tool_response": {}}


@pytest.mark.parametrize("between", [document("claude", OTHER), {**RAN, **OTHER}, {**RAN, **CALL}], ids=["asked", "run", "the same run"])
@pytest.mark.parametrize("told", [False, True])
def test_it_counts_only_until_anything_else_of_that_session_was_asked_or_run(
    alone: HookRuns,
    between: dict[str, Any],
    told: bool,  # noqa: FBT001
) -> None:
    async def work() -> None:
        await left_and_allowed(alone)
        if told:
            assert "Run it again." in (await alone.run({"hook_event_name": "Stop", "session_id": "s1"}))["reason"]
        await alone.run(between, wait=0)
        denied = await alone.run(document("claude"), wait=0)
        assert denied["hookSpecificOutput"]["decision"]["behavior"] == "deny"

    asyncio.run(work())


def test_an_answer_is_refused_once_the_session_has_gone_on(alone: HookRuns) -> None:
    async def work() -> None:
        await alone.run(document("claude"), wait=0)
        (question,) = await alone.store.pending()
        await alone.run({**RAN, **OTHER})
        with pytest.raises(NotOpen, match="Claude Code has gone on with something else"):
            await alone.store.answer(question.id, approve=True, via="inbox")

    asyncio.run(work())


def test_what_another_session_does_takes_nothing_away(alone: HookRuns) -> None:
    async def work() -> None:
        await left_and_allowed(alone)
        await alone.run({**document("claude", OTHER), "session_id": "s2"}, wait=0)
        assert await alone.run(document("claude"), wait=0) == YES

    asyncio.run(work())


def test_a_hook_that_was_killed_while_its_agent_lives_leaves_the_call_to_the_agent(alone: HookRuns) -> None:
    """It was told nothing: what it has done with the call is its own affair, and the next one is another."""

    async def work() -> None:
        question = await killed(alone, document("claude"))
        await alone.store.answer(question.id, approve=True, via="inbox")
        denied = await alone.run(document("claude"), wait=0)
        assert denied["hookSpecificOutput"]["decision"]["behavior"] == "deny"
        assert await alone.run({"hook_event_name": "Stop", "session_id": "s1"}) is None

    asyncio.run(work())
