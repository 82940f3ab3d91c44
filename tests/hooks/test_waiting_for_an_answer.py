"""Whoever waits for an answer is told of it, and looks at the clock for nothing but the end of its patience."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from midturn.events.open_question import Asker
from midturn.integrations.hooks.external_calls import Errands
from midturn.integrations.hooks.model_messages import Approved
from midturn.stores.memory_conversations import MemoryStore
from midturn.stores.opening import FileStore
from midturn.stores.store import ConversationStore
from support.clocks import FakeClock

ASKER = Asker(name="Codex", agent="codex", session="s1", via="hook", cwd="/work")


class StoppedClock(FakeClock):
    """Time that does not pass: who sleeps does not wake up."""

    async def sleep(self, seconds: float) -> None:
        """Sleep for ever."""
        self.slept.append(0 * seconds)
        await asyncio.Event().wait()


@pytest.mark.parametrize("kind", ["files", "memory"])
def test_an_answer_is_heard_although_no_time_passes(kind: str, tmp_path: Path) -> None:
    store: ConversationStore = FileStore(tmp_path) if kind == "files" else MemoryStore()

    async def work() -> None:
        errands = Errands(store, ASKER, StoppedClock())
        errand = await errands.permission("call_1", "Bash", {"command": "make"})
        waiting = asyncio.ensure_future(errands.wait(errand))
        (question,) = await store.pending()
        await store.answer(question.id, approve=True)
        assert await asyncio.wait_for(waiting, 60) == Approved()

    asyncio.run(work())


def test_patience_ends_without_an_answer(tmp_path: Path) -> None:
    clock = FakeClock()

    async def work() -> None:
        errands = Errands(FileStore(tmp_path), ASKER, clock)
        errand = await errands.permission("call_1", "Bash", {"command": "make"})
        assert await errands.wait(errand, 2.5) is None
        assert await errands.wait(errand, needed=lambda: False) is None

    asyncio.run(work())
    assert sum(clock.slept) == 2.5
