"""Agents that ask without end: so many questions wait, and not more; the agent and the person are both told."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from midturn.core.json_value import JsonObject
from midturn.foreign import room
from midturn.foreign.agents import AGENTS
from midturn.store.file_store import FileStore
from support.clocks import FakeClock
from support.hook_runs import CLAUDE_ALONE, HookRuns

pytestmark = pytest.mark.timeout(120)


def call(number: int, session: str = "s1") -> JsonObject:
    """Return what Claude Code says about a call."""
    arguments: JsonObject = {"command": f"touch {number}"}
    return {"hook_event_name": "PermissionRequest", "session_id": session, "tool_name": "Bash", "tool_input": arguments}


def denial(printed: Any) -> str:
    """Return why a call was denied."""
    decision = printed["hookSpecificOutput"]["decision"]
    assert decision["behavior"] == "deny"
    return decision["message"]


@pytest.fixture
def store(tmp_path: Path) -> FileStore:
    return FileStore(tmp_path / "store")


def test_a_gate_stays_closed_for_what_is_not_asked_any_more_and_opens_again(store: FileStore) -> None:
    async def work() -> None:
        hooks = HookRuns(store, AGENTS["claude"], CLAUDE_ALONE)
        clock = FakeClock()
        for number in range(room.MOST):
            assert "Nobody has answered yet" in denial(await hooks.run(call(number), clock, wait=0))

        why = denial(await hooks.run(call(-1), clock, wait=0))

        assert "nobody has decided. This is not a no." in why
        assert "50 questions of this session of Claude Code wait for the user already" in why
        assert "The user said no" not in why
        waiting = await store.pending()
        assert len(waiting) == room.MOST
        assert [question.asker.refused for question in waiting if question.asker] == [True] + [False] * (room.MOST - 1)

        await store.answer(waiting[0].id, approve=True, via="inbox")
        await clock.sleep(60)
        assert "Nobody has answered yet" in denial(await hooks.run(call(-1), clock, wait=0))
        assert "Nobody has answered yet" in denial(await hooks.run(call(-1), clock, wait=0)), "the same call asks nothing more"
        assert len(await store.pending()) == room.MOST

    asyncio.run(work())


def test_an_agent_that_takes_another_session_each_time_comes_to_an_end_too(store: FileStore, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(room, "MOST_OF_ALL", 60)

    async def work() -> None:
        hooks = HookRuns(store, AGENTS["claude"], CLAUDE_ALONE)
        said = [denial(await hooks.run(call(number, f"s{number}"), wait=0)) for number in range(62)]

        assert ["60 questions of other agents wait for the user already" in why for why in said] == [False] * 60 + [True] * 2
        assert [question.asker.refused for question in await store.pending() if question.asker] == [True] + [False] * 59

    asyncio.run(work())


def test_an_agent_that_withdraws_each_question_for_the_next_is_slowed_down(store: FileStore, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(room, "IN_AN_HOUR", 5)

    async def work() -> None:
        hooks, clock = HookRuns(store, AGENTS["claude"], CLAUDE_ALONE), FakeClock()
        for number in range(5):
            await hooks.run(call(number), clock, wait=0)
            await store.answer((await store.pending())[0].id, approve=False, via="inbox")

        assert "Claude Code has asked 5 times in an hour" in denial(await hooks.run(call(5), clock, wait=0))
        await clock.sleep(3_600)
        assert "Nobody has answered yet" in denial(await hooks.run(call(5), clock, wait=0))

    asyncio.run(work())


def test_what_asks_at_the_same_time_is_counted_one_after_the_other(store: FileStore) -> None:
    async def work() -> None:
        hooks = HookRuns(store, AGENTS["claude"], CLAUDE_ALONE)
        await asyncio.gather(*(hooks.run(call(number), FakeClock(), wait=0) for number in range(room.MOST + 10)))
        assert len(await store.pending()) == room.MOST

    asyncio.run(work())
