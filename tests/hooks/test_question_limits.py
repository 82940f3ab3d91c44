"""Limits for agents that ask without end: the number of open questions is limited, and the
agent and the person are told.
"""

from __future__ import annotations

import asyncio
import os
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from midturn.integrations.hooks import external_call
from midturn.integrations.hooks.clients import AGENTS
from midturn.integrations.hooks.external_call import Quota
from midturn.question.json_value import JsonObject
from midturn.stores.lock import mark
from midturn.stores.opening import FileStore
from support.clocks import FakeClock
from support.hook_runs import CLAUDE_UNATTENDED, HookRuns
from support.stored import finished, keep

pytestmark = pytest.mark.timeout(600)


def call(number: int, session: str = "s1") -> JsonObject:
    """Return the hook input of Claude Code for a call."""
    arguments: JsonObject = {"command": f"touch {number}"}
    return {
        "hook_event_name": "PermissionRequest",
        "session_id": session,
        "tool_name": "Bash",
        "tool_input": arguments,
    }


def denial(printed: Any) -> str:
    """Return the reason of a denial."""
    decision = printed["hookSpecificOutput"]["decision"]
    assert decision["behavior"] == "deny"
    return decision["message"]


def waiting_hooks(store: FileStore, room: Quota | None = None) -> HookRuns:
    """Return hooks of Claude Code that are still waiting, each for its call."""
    return HookRuns(store, AGENTS["claude"], CLAUDE_UNATTENDED, room, mark(os.getpid()))


@pytest.fixture
def store(tmp_path: Path) -> FileStore:
    return FileStore(tmp_path / "store")


def test_limit_denies_further_questions_and_reopens(store: FileStore) -> None:
    async def work() -> None:
        hooks, clock = HookRuns(store, AGENTS["claude"], CLAUDE_UNATTENDED), FakeClock()
        for number in range(external_call.MAX_OPEN_PER_SESSION):
            assert "Nobody has answered yet" in denial(
                await waiting_hooks(store).run(call(number), clock, wait=0)
            )

        why = denial(await hooks.run(call(-1), clock, wait=0))

        assert "nobody has decided. This is not a no." in why
        assert "50 questions of this session of Claude Code wait for the user already" in why
        assert "The user said no" not in why
        waiting = await store.pending()
        assert len(waiting) == external_call.MAX_OPEN_PER_SESSION
        assert [question.asker.refused for question in waiting if question.asker] == [True] + [
            False
        ] * (external_call.MAX_OPEN_PER_SESSION - 1)

        await store.answer(waiting[0].id, approve=True, via="inbox")
        await clock.sleep(60)
        assert "Nobody has answered yet" in denial(await hooks.run(call(-1), clock, wait=0))
        assert "Nobody has answered yet" in denial(await hooks.run(call(-1), clock, wait=0)), (
            "the same call asks nothing more"
        )
        assert len(await store.pending()) == external_call.MAX_OPEN_PER_SESSION

    asyncio.run(work())


def test_limit_applies_across_sessions(store: FileStore, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(external_call, "MAX_OPEN", 60)

    async def work() -> None:
        hooks = HookRuns(store, AGENTS["claude"], CLAUDE_UNATTENDED)
        said = [denial(await hooks.run(call(number, f"s{number}"), wait=0)) for number in range(62)]

        assert [
            "60 questions of other agents wait for the user already" in why for why in said
        ] == [False] * 60 + [True] * 2
        assert [question.asker.refused for question in await store.pending() if question.asker] == [
            True
        ] + [False] * 59

    asyncio.run(work())


class ClockFromNow(FakeClock):
    """A clock that starts at the current time, which conversation IDs contain, and advances by
    sleeping.
    """

    def now(self) -> datetime:
        return datetime.now(UTC) + timedelta(seconds=self.monotonic())


def test_withdrawn_questions_count_towards_the_limit(
    store: FileStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each hook is a separate process, so the recorded questions are counted."""
    monkeypatch.setattr(external_call, "MAX_PER_HOUR", 5)

    async def work() -> None:
        hooks, clock = HookRuns(store, AGENTS["claude"], CLAUDE_UNATTENDED), ClockFromNow()
        for number in range(5):
            await hooks.run(call(number, f"s{number}"), clock, wait=0)
            if number:
                await store.answer((await store.pending())[-1].id, approve=False, via="inbox")

        why = denial(await hooks.run(call(5), clock, wait=0))
        assert "Other agents have asked 5 times in the last hour" in why
        assert "nobody has decided. This is not a no." in why
        assert [question.asker.refused for question in await store.pending() if question.asker] == [
            True
        ]
        await clock.sleep(3_600)
        assert "Nobody has answered yet" in denial(await hooks.run(call(5), clock, wait=0))

    asyncio.run(work())


def test_own_turns_do_not_count(store: FileStore, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(external_call, "MAX_PER_HOUR", 3)

    for _ in range(20):
        keep(store, finished())

    async def work() -> None:
        hooks, clock = HookRuns(store, AGENTS["claude"], CLAUDE_UNATTENDED), ClockFromNow()
        for number in range(3):
            assert "Nobody has answered yet" in denial(await hooks.run(call(number), clock, wait=0))
        assert "have asked 3 times" in denial(await hooks.run(call(3), clock, wait=0))

    asyncio.run(work())


def test_clock_set_back_does_not_block_questions(
    store: FileStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(external_call, "MAX_PER_HOUR", 3)

    async def work() -> None:
        hooks, clock = HookRuns(store, AGENTS["claude"], CLAUDE_UNATTENDED), ClockFromNow()
        for number in range(3):
            await hooks.run(call(number), clock, wait=0)
        clock.slept.append(-86_400)
        assert "Nobody has answered yet" in denial(await hooks.run(call(3), clock, wait=0))

    asyncio.run(work())


@pytest.mark.parametrize("field", ["session_id", "tool_name", "tool_input"])
def test_too_large_fields_are_refused(store: FileStore, field: str) -> None:
    async def work() -> None:
        much = "x" * external_call.MAX_SIZE
        document = {**call(1), field: {"command": much} if field == "tool_input" else much}
        why = denial(
            await HookRuns(store, AGENTS["claude"], CLAUDE_UNATTENDED).run(document, wait=0)
        )
        assert "no question may have more than 1,048,576. It was not asked." in why
        assert await store.port.ids() == []

    asyncio.run(work())


def test_concurrent_questions_in_one_process_are_counted(store: FileStore) -> None:
    async def work() -> None:
        hooks = waiting_hooks(store, Quota())
        await asyncio.gather(
            *(
                hooks.run(call(number), FakeClock(), wait=0)
                for number in range(external_call.MAX_OPEN_PER_SESSION + 10)
            )
        )
        assert len(await store.pending()) == external_call.MAX_OPEN_PER_SESSION

    asyncio.run(work())


def test_refusal_is_cached_for_one_second(
    store: FileStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(external_call, "MAX_OPEN_PER_SESSION", 1)

    async def work() -> None:
        hooks, clock = HookRuns(store, AGENTS["claude"], CLAUDE_UNATTENDED, Quota()), FakeClock()
        await waiting_hooks(store).run(call(0), clock, wait=0)
        full = "1 questions of this session of Claude Code wait for the user already"
        assert full in denial(await hooks.run(call(1), clock, wait=0))

        await store.answer((await store.pending())[0].id, approve=True, via="inbox")
        assert full in denial(await hooks.run(call(1), clock, wait=0))
        await clock.sleep(1)
        assert "Nobody has answered yet" in denial(await hooks.run(call(1), clock, wait=0))

    asyncio.run(work())


@pytest.mark.parametrize(
    ("limit", "says"),
    [("MAX_OPEN", "2 questions of other agents wait"), ("MAX_PER_HOUR", "have asked 2 times")],
)
def test_refused_questions_are_indicated_at_an_open_question(
    store: FileStore, monkeypatch: pytest.MonkeyPatch, limit: str, says: str
) -> None:
    monkeypatch.setattr(external_call, "MAX_OPEN_PER_SESSION", 2)
    monkeypatch.setattr(external_call, limit, 2)

    async def work() -> None:
        clock = ClockFromNow()
        unasked = {**call(0, "another"), "hook_event_name": "PreToolUse", "permission_mode": "yolo"}
        await HookRuns(store, AGENTS["qwen"], {}).run(unasked, clock, wait=0)
        hooks = HookRuns(store, AGENTS["claude"], CLAUDE_UNATTENDED)
        await hooks.run(call(0), clock, wait=0)

        assert says in denial(await hooks.run(call(1, "s2"), clock, wait=0))
        waiting = [
            (question.asker.name, question.asker.refused)
            for question in await store.pending()
            if question.asker
        ]
        assert waiting == [("Qwen Code", False), ("Claude Code", True)]

    asyncio.run(work())
