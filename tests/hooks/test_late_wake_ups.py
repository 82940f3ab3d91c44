"""A late answer, long after the hook stopped waiting. The test does not really wait."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

from midturn.integrations.hooks.clients import AGENTS
from midturn.question.json_value import JsonObject
from midturn.stores.opening import FileStore
from support.clocks import FakeClock
from support.hook_runs import CLAUDE_UNATTENDED, HookRuns

MINUTES = 600.0
CALL: JsonObject = {
    "hook_event_name": "PermissionRequest",
    "session_id": "s1",
    "tool_name": "Bash",
    "tool_input": {"command": "touch made"},
}
STOP: JsonObject = {"hook_event_name": "Stop", "session_id": "s1"}


class ScheduledClock(FakeClock):
    """A clock that runs an action after some time."""

    def __init__(self, after: float, happening: Callable[[], Awaitable[object]]) -> None:
        super().__init__()
        self._after = after
        self._happening = happening
        self._passed = 0.0
        self._has_happened = False

    def monotonic(self) -> float:
        return self._passed

    async def sleep(self, seconds: float) -> None:
        """Advance the clock and run the actions that are due."""
        self._passed += seconds
        if not self._has_happened and self._passed >= self._after:
            self._has_happened = True
            await self._happening()


@pytest.mark.parametrize(
    ("answer", "words"),
    [(True, "the user now allows the call of Bash"), (False, "The user said no")],
)
def test_answer_after_ten_minutes_wakes_the_session(
    tmp_path: Path,
    answer: bool,  # noqa: FBT001
    words: str,
) -> None:
    async def work() -> None:
        store = FileStore(tmp_path)

        async def decide() -> None:
            (question,) = await store.pending()
            await store.answer(question.id, answer, via="inbox")

        hooks = HookRuns(store, AGENTS["claude"], CLAUDE_UNATTENDED)
        denied = await hooks.run(CALL)
        clock = ScheduledClock(MINUTES, decide)
        woken = await hooks.run(STOP, clock, wait=86_000)

        assert "Nobody has answered yet" in denied["hookSpecificOutput"]["decision"]["message"]
        assert woken["decision"] == "block"
        assert words in woken["reason"]
        assert MINUTES <= clock.monotonic() < MINUTES + 1
        assert await store.pending() == []

    asyncio.run(work())


def test_clock_is_never_an_answer(tmp_path: Path) -> None:
    async def work() -> None:
        store = FileStore(tmp_path)

        async def nothing() -> None:
            pass

        hooks = HookRuns(store, AGENTS["claude"], CLAUDE_UNATTENDED)
        await hooks.run(CALL)
        said = await hooks.run(STOP, ScheduledClock(MINUTES, nothing), wait=MINUTES)

        assert said is None
        (question,) = await store.pending()
        assert [
            event
            for event in (await store.read(question.conversation)).events
            if getattr(event, "answered_by", None)
        ] == []

    asyncio.run(work())
