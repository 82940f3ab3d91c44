"""Agents that ask without end: so many questions wait, and not more; the agent and the person are both told."""

from __future__ import annotations

import asyncio
import os
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from midturn.integrations.hooks import external_call
from midturn.integrations.hooks.clients import AGENTS
from midturn.integrations.hooks.external_call import Room
from midturn.question.json_value import JsonObject
from midturn.stores.lock import mark
from midturn.stores.opening import FileStore
from support.clocks import FakeClock
from support.hook_runs import CLAUDE_ALONE, HookRuns
from support.stored import finished, keep

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


def waiting_hooks(store: FileStore, room: Room | None = None) -> HookRuns:
    """Return hooks of Claude Code that still wait, each for its call: several were made at once."""
    return HookRuns(store, AGENTS["claude"], CLAUDE_ALONE, room, mark(os.getpid()))


@pytest.fixture
def store(tmp_path: Path) -> FileStore:
    return FileStore(tmp_path / "store")


def test_a_gate_stays_closed_for_what_is_not_asked_any_more_and_opens_again(store: FileStore) -> None:
    async def work() -> None:
        hooks, clock = HookRuns(store, AGENTS["claude"], CLAUDE_ALONE), FakeClock()
        for number in range(external_call.MOST):
            assert "Nobody has answered yet" in denial(await waiting_hooks(store).run(call(number), clock, wait=0))

        why = denial(await hooks.run(call(-1), clock, wait=0))

        assert "nobody has decided. This is not a no." in why
        assert "50 questions of this session of Claude Code wait for the user already" in why
        assert "The user said no" not in why
        waiting = await store.pending()
        assert len(waiting) == external_call.MOST
        assert [question.asker.refused for question in waiting if question.asker] == [True] + [False] * (external_call.MOST - 1)

        await store.answer(waiting[0].id, approve=True, via="inbox")
        await clock.sleep(60)
        assert "Nobody has answered yet" in denial(await hooks.run(call(-1), clock, wait=0))
        assert "Nobody has answered yet" in denial(await hooks.run(call(-1), clock, wait=0)), "the same call asks nothing more"
        assert len(await store.pending()) == external_call.MOST

    asyncio.run(work())


def test_an_agent_that_takes_another_session_each_time_comes_to_an_end_too(store: FileStore, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(external_call, "MOST_OF_ALL", 60)

    async def work() -> None:
        hooks = HookRuns(store, AGENTS["claude"], CLAUDE_ALONE)
        said = [denial(await hooks.run(call(number, f"s{number}"), wait=0)) for number in range(62)]

        assert ["60 questions of other agents wait for the user already" in why for why in said] == [False] * 60 + [True] * 2
        assert [question.asker.refused for question in await store.pending() if question.asker] == [True] + [False] * 59

    asyncio.run(work())


class Today(FakeClock):
    """It is now, by which conversations are named, and later by what was slept."""

    def now(self) -> datetime:
        """Return the time."""
        return datetime.now(UTC) + timedelta(seconds=self.monotonic())


def test_an_agent_that_withdraws_each_question_for_the_next_is_slowed_down(store: FileStore, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each hook is a process of its own, so what is counted is what they have recorded."""
    monkeypatch.setattr(external_call, "IN_AN_HOUR", 5)

    async def work() -> None:
        hooks, clock = HookRuns(store, AGENTS["claude"], CLAUDE_ALONE), Today()
        for number in range(5):
            await hooks.run(call(number, f"s{number}"), clock, wait=0)
            if number:
                await store.answer((await store.pending())[-1].id, approve=False, via="inbox")

        why = denial(await hooks.run(call(5), clock, wait=0))
        assert "Other agents have asked 5 times in the last hour" in why
        assert "nobody has decided. This is not a no." in why
        assert [question.asker.refused for question in await store.pending() if question.asker] == [True]
        await clock.sleep(3_600)
        assert "Nobody has answered yet" in denial(await hooks.run(call(5), clock, wait=0))

    asyncio.run(work())


def test_turns_of_ours_count_for_nothing(store: FileStore, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(external_call, "IN_AN_HOUR", 3)

    for _ in range(20):
        keep(store, finished())

    async def work() -> None:
        hooks, clock = HookRuns(store, AGENTS["claude"], CLAUDE_ALONE), Today()
        for number in range(3):
            assert "Nobody has answered yet" in denial(await hooks.run(call(number), clock, wait=0))
        assert "have asked 3 times" in denial(await hooks.run(call(3), clock, wait=0))

    asyncio.run(work())


def test_a_clock_that_was_set_back_keeps_nobody_from_asking(store: FileStore, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(external_call, "IN_AN_HOUR", 3)

    async def work() -> None:
        hooks, clock = HookRuns(store, AGENTS["claude"], CLAUDE_ALONE), Today()
        for number in range(3):
            await hooks.run(call(number), clock, wait=0)
        clock.slept.append(-86_400)
        assert "Nobody has answered yet" in denial(await hooks.run(call(3), clock, wait=0))

    asyncio.run(work())


@pytest.mark.parametrize("field", ["session_id", "tool_name", "tool_input"])
def test_what_is_too_large_is_not_asked_wherever_it_stands(store: FileStore, field: str) -> None:
    async def work() -> None:
        much = "x" * external_call.LARGEST
        document = {**call(1), field: {"command": much} if field == "tool_input" else much}
        why = denial(await HookRuns(store, AGENTS["claude"], CLAUDE_ALONE).run(document, wait=0))
        assert "no question may have more than 1,048,576. It was not asked." in why
        assert await store.port.ids() == []

    asyncio.run(work())


def test_what_asks_at_the_same_time_in_one_process_is_counted_one_after_the_other(store: FileStore) -> None:
    async def work() -> None:
        hooks = waiting_hooks(store, Room())
        await asyncio.gather(*(hooks.run(call(number), FakeClock(), wait=0) for number in range(external_call.MOST + 10)))
        assert len(await store.pending()) == external_call.MOST

    asyncio.run(work())


def test_who_was_refused_is_refused_for_a_second_without_another_look_and_then_looked_at_again(
    store: FileStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(external_call, "MOST", 1)

    async def work() -> None:
        hooks, clock = HookRuns(store, AGENTS["claude"], CLAUDE_ALONE, Room()), FakeClock()
        await waiting_hooks(store).run(call(0), clock, wait=0)
        full = "1 questions of this session of Claude Code wait for the user already"
        assert full in denial(await hooks.run(call(1), clock, wait=0))

        await store.answer((await store.pending())[0].id, approve=True, via="inbox")
        assert full in denial(await hooks.run(call(1), clock, wait=0))
        await clock.sleep(1)
        assert "Nobody has answered yet" in denial(await hooks.run(call(1), clock, wait=0))

    asyncio.run(work())


@pytest.mark.parametrize(("limit", "says"), [("MOST_OF_ALL", "2 questions of other agents wait"), ("IN_AN_HOUR", "have asked 2 times")])
def test_that_there_were_more_is_shown_at_a_question_of_the_agent_that_was_refused(
    store: FileStore, monkeypatch: pytest.MonkeyPatch, limit: str, says: str
) -> None:
    monkeypatch.setattr(external_call, "MOST", 2)
    monkeypatch.setattr(external_call, limit, 2)

    async def work() -> None:
        clock = Today()
        unasked = {**call(0, "another"), "hook_event_name": "PreToolUse", "permission_mode": "yolo"}
        await HookRuns(store, AGENTS["qwen"], {}).run(unasked, clock, wait=0)
        hooks = HookRuns(store, AGENTS["claude"], CLAUDE_ALONE)
        await hooks.run(call(0), clock, wait=0)

        assert says in denial(await hooks.run(call(1, "s2"), clock, wait=0))
        waiting = [(question.asker.name, question.asker.refused) for question in await store.pending() if question.asker]
        assert waiting == [("Qwen Code", False), ("Claude Code", True)]

    asyncio.run(work())
