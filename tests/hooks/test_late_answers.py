"""An answer is refused if the agent's own dialog has the question, or the agent has continued."""

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
from support.hook_runs import CLAUDE_UNATTENDED, HookRuns
from support.hooks import Session, answers, stored
from support.pages import ada, browsing

CALL: dict[str, Any] = {"tool_name": "Bash", "tool_input": {"command": "touch made"}}
OTHER: dict[str, Any] = {"tool_name": "Bash", "tool_input": {"command": "ls"}}
QUESTION: dict[str, Any] = {
    "tool_name": "AskUserQuestion",
    "tool_input": {
        "questions": [{"question": "Which env?", "options": [{"label": "prod"}, {"label": "dev"}]}]
    },
}
EVENT = {
    "codex": "PermissionRequest",
    "qwen": "PermissionRequest",
    "claude": "PermissionRequest",
    "copilot": "permissionRequest",
}
WITH_DIALOG = pytest.mark.parametrize("agent", EVENT)
YES = {
    "hookSpecificOutput": {"hookEventName": "PermissionRequest", "decision": {"behavior": "allow"}}
}


def said_of(agent: str) -> str:
    """Return the message about a question that this agent's own dialog has."""
    return f"{AGENTS[agent].name} now asks it in its own dialog"


def document(agent: str, call: Mapping[str, Any] = CALL) -> dict[str, Any]:
    """Return the hook input of an agent at a terminal for a call that needs a permission."""
    if agent == "copilot":
        return {
            "hookName": EVENT[agent],
            "sessionId": "s1",
            "toolName": call["tool_name"],
            "toolInput": call["tool_input"],
        }
    return {"hook_event_name": EVENT[agent], "session_id": "s1", **call}


def _no_agent(*_: object) -> Iterator[Never]:
    return iter(())


@pytest.fixture
def store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> FileStore:
    """A store. No parent process of the tests counts as an agent."""
    monkeypatch.setattr(hook_agent, "_ancestors", _no_agent)
    return FileStore(tmp_path / "store")


def attended(store: FileStore, agent: str) -> HookRuns:
    return HookRuns(store, AGENTS[agent], {"CLAUDE_CODE_SESSION_ATTENDED": "1"})


async def states(store: FileStore) -> list[str]:
    """Return the decision about each call, oldest first."""
    events = [event for id in await store.ids() for event in (await store.read(id)).events]
    return [
        event.state for event in events if isinstance(event, Approval) and event.state != "waiting"
    ]


async def only_id(store: FileStore) -> str:
    """Return the ID of the only question that was ever asked."""
    (conversation,) = await store.ids()
    events = (await store.read(conversation)).events
    return next(
        f"{conversation}-{event.event_id}"
        for event in events
        if event.type in ("approval", "inquiry_request")
    )


# The agent's own dialog
# --------------------------------------------------------------------------------------------------


@WITH_DIALOG
def test_question_closes_when_the_agents_dialog_opens(store: FileStore, agent: str) -> None:
    async def work() -> None:
        assert await attended(store, agent).run(document(agent), wait=0) is None
        assert await store.pending() == []
        question = await only_id(store)
        with pytest.raises(NotOpen, match=said_of(agent)):
            await store.answer(question, approve=True, via="inbox")
        assert await states(store) == ["superseded"]

    asyncio.run(work())


@WITH_DIALOG
def test_repeated_call_is_asked_again_after_the_dialogs_decision(
    store: FileStore, agent: str
) -> None:
    async def work() -> None:
        hooks = attended(store, agent)
        await hooks.run(document(agent), wait=0)
        await hooks.run(document(agent), wait=0)
        assert len(await store.ids()) == 2

    asyncio.run(work())


def test_manual_late_yes_does_not_allow_the_next_call(midturn: CommandLine) -> None:
    codex = Session(midturn, "codex", given="tui")
    assert codex.run("PermissionRequest", "--wait", "0", **CALL) is None
    question = stored(midturn)[0]
    asked = next(event["event_id"] for event in question if event["type"] == "approval")
    (conversation,) = midturn.ok("conversation", "ls", "--json").json

    late = midturn.run("answer", f"{conversation['id']}-{asked}", "y")

    assert late.status == 1
    assert said_of("codex") in " ".join(late.stderr.split())
    assert codex.run("PermissionRequest", "--wait", "0", **CALL) is None
    assert [event.get("state") for events in stored(midturn) for event in answers(events)] == [
        "superseded",
        "superseded",
    ]


def test_model_question_closes_too(store: FileStore) -> None:
    async def work() -> None:
        await attended(store, "claude").run(document("claude", QUESTION), wait=0)
        assert await store.pending() == []
        with pytest.raises(NotOpen, match=said_of("claude")):
            await store.answer(await only_id(store), "prod", via="inbox")

    asyncio.run(work())


def test_page_shows_where_the_question_is_asked_now(store: FileStore) -> None:
    asyncio.run(attended(store, "codex").run(document("codex"), wait=0))
    question = asyncio.run(only_id(store))

    with browsing(inbox(store, user=ada)) as client:
        page = client.get(f"/q/{question}").text
        sent = client.post(f"/api/questions/{question}/answer", json={"approve": True})

    assert "Codex now asks it in its own dialog" in page
    assert (sent.status_code, sent.json()["message"]) == (
        410,
        f"The question {question} is closed: {said_of('codex')}.",
    )


async def killed(hooks: HookRuns, said: dict[str, Any], wait: float = 3600) -> OpenQuestion:
    """Run a hook and kill it while it waits; return its question."""
    running_hook = asyncio.ensure_future(hooks.run(said, SYSTEM, wait))
    since = 0
    while not (open_now := await hooks.store.pending()):
        since = await hooks.store.port.growing.wait_for_change(since)
    running_hook.cancel()
    await asyncio.gather(running_hook, return_exceptions=True)
    (question,) = open_now
    return question


async def end_of(store: FileStore, question: OpenQuestion) -> str:
    """Return the recorded time at which the agent's own dialog asks a question."""
    asker = asker_of((await store.read(question.conversation)).events)
    assert asker
    return asker.ends


class FixedClock(FakeClock):
    """A clock with a fixed time, in the format of event times."""

    def __init__(self, time: str) -> None:
        super().__init__()
        self._time = datetime.fromisoformat(time)

    def now(self) -> datetime:
        return self._time


@WITH_DIALOG
def test_question_of_a_killed_hook_closes_at_its_recorded_deadline(
    store: FileStore, agent: str
) -> None:
    async def work() -> None:
        question = await killed(attended(store, agent), document(agent), wait=20)
        end = await end_of(store, question)
        after = ConversationStore(store.port, clock=FixedClock(end))
        assert end > question.asked_at
        assert [one.id for one in await store.pending()] == [question.id]
        assert await after.pending() == []
        with pytest.raises(NotOpen, match=said_of(agent)):
            await after.answer(question.id, approve=True, via="inbox")
        with pytest.raises(NotOpen, match=said_of(agent)):
            raise await too_late(
                after.port, Address(question.conversation, question.request.event_id)
            )
        assert len(await store.ids()) == 1
        await attended(store, agent).run(document(agent, OTHER), FixedClock(end), wait=0)
        assert await states(store) == ["superseded", "superseded"], "whoever looks first records it"

    asyncio.run(work())


@WITH_DIALOG
def test_reader_records_the_deadline_of_a_killed_hooks_question(
    store: FileStore, agent: str
) -> None:
    async def work() -> None:
        question = await killed(attended(store, agent), document(agent), wait=20)
        end = await end_of(store, question)
        assert question.deadline == end
        for late in (ConversationStore(store.port, clock=FixedClock(end)), store):
            with pytest.raises(NotOpen, match=said_of(agent)):
                await late.answer(question.id, approve=True, via="inbox")
            assert await states(store) == ["superseded"]

    asyncio.run(work())


@WITH_DIALOG
def test_yes_to_a_killed_hooks_question_allows_no_later_call(store: FileStore, agent: str) -> None:
    """The decision made in the agent's dialog meanwhile is unknown here."""

    async def work() -> None:
        question = await killed(attended(store, agent), document(agent))
        await store.answer(question.id, approve=True, via="inbox")
        assert await attended(store, agent).run(document(agent), wait=0) is None
        assert await states(store) == ["approved", "superseded"]

    asyncio.run(work())


def test_unanswered_question_of_a_killed_hook_is_taken_over(store: FileStore) -> None:
    async def work() -> None:
        question = await killed(attended(store, "claude"), document("claude"))
        again = await killed(attended(store, "claude"), document("claude"))
        assert again.id == question.id

    asyncio.run(work())


# Without a dialog
# --------------------------------------------------------------------------------------------------


@pytest.fixture
def headless_hooks(store: FileStore) -> HookRuns:
    """The hooks of `claude -p`."""
    return HookRuns(store, AGENTS["claude"], CLAUDE_UNATTENDED)


async def left_and_allowed(hooks: HookRuns) -> None:
    """Ask about a call, let the hook report that the question stays open, and allow it later."""
    denied = await hooks.run(document("claude"), wait=0)
    assert "The question stays open" in denied["hookSpecificOutput"]["decision"]["message"]
    (question,) = await hooks.store.pending()
    await hooks.store.answer(question.id, approve=True, via="inbox")


def test_late_yes_counts_once_for_the_same_call(headless_hooks: HookRuns) -> None:
    async def work() -> None:
        await left_and_allowed(headless_hooks)
        assert await headless_hooks.run(document("claude"), wait=0) == YES
        denied = await headless_hooks.run(document("claude"), wait=0)
        assert denied["hookSpecificOutput"]["decision"]["behavior"] == "deny"

    asyncio.run(work())


RAN: dict[str, Any] = {"hook_event_name": "PostToolUse", "session_id": "s1", "tool_response": {}}


@pytest.mark.parametrize(
    "between",
    [document("claude", OTHER), {**RAN, **OTHER}, {**RAN, **CALL}],
    ids=["asked", "run", "the same run"],
)
@pytest.mark.parametrize("told", [False, True])
def test_late_yes_expires_when_the_session_continues(
    headless_hooks: HookRuns,
    between: dict[str, Any],
    told: bool,  # noqa: FBT001
) -> None:
    async def work() -> None:
        await left_and_allowed(headless_hooks)
        if told:
            assert (
                "Run it again."
                in (await headless_hooks.run({"hook_event_name": "Stop", "session_id": "s1"}))[
                    "reason"
                ]
            )
        await headless_hooks.run(between, wait=0)
        denied = await headless_hooks.run(document("claude"), wait=0)
        assert denied["hookSpecificOutput"]["decision"]["behavior"] == "deny"

    asyncio.run(work())


def test_an_answer_is_refused_once_the_session_has_gone_on(headless_hooks: HookRuns) -> None:
    async def work() -> None:
        await headless_hooks.run(document("claude"), wait=0)
        (question,) = await headless_hooks.store.pending()
        await headless_hooks.run({**RAN, **OTHER})
        with pytest.raises(NotOpen, match="Claude Code has gone on with something else"):
            await headless_hooks.store.answer(question.id, approve=True, via="inbox")

    asyncio.run(work())


def test_other_sessions_do_not_affect_a_late_yes(headless_hooks: HookRuns) -> None:
    async def work() -> None:
        await left_and_allowed(headless_hooks)
        await headless_hooks.run({**document("claude", OTHER), "session_id": "s2"}, wait=0)
        assert await headless_hooks.run(document("claude"), wait=0) == YES

    asyncio.run(work())


def test_hook_killed_while_its_agent_lives_leaves_the_call_to_the_agent(
    headless_hooks: HookRuns,
) -> None:
    """The agent was told nothing and decided the call itself. The next call is a new one."""

    async def work() -> None:
        question = await killed(headless_hooks, document("claude"))
        await headless_hooks.store.answer(question.id, approve=True, via="inbox")
        denied = await headless_hooks.run(document("claude"), wait=0)
        assert denied["hookSpecificOutput"]["decision"]["behavior"] == "deny"
        assert await headless_hooks.run({"hook_event_name": "Stop", "session_id": "s1"}) is None

    asyncio.run(work())
