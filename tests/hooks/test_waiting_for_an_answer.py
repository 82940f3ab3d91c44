"""A waiting hook is notified of its answer. It uses the clock only for its timeout."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from midturn.events.open_question import AskingAgent
from midturn.integrations.hooks.external_calls import ExternalCallService
from midturn.integrations.hooks.model_messages import Approved
from midturn.stores.memory_conversations import MemoryStore
from midturn.stores.opening import FileStore
from midturn.stores.store import ConversationStore
from support.clocks import FakeClock

ASKER = AskingAgent(name="Codex", agent="codex", session="s1", via="hook", cwd="/work")


class StoppedClock(FakeClock):
    """A clock that does not advance. Sleeping never ends."""

    async def sleep(self, seconds: float) -> None:
        self.slept.append(0 * seconds)
        await asyncio.Event().wait()


@pytest.mark.parametrize("kind", ["files", "memory"])
def test_answer_is_noticed_without_polling(kind: str, tmp_path: Path) -> None:
    store: ConversationStore = FileStore(tmp_path) if kind == "files" else MemoryStore()

    async def work() -> None:
        calls = ExternalCallService(store, ASKER, StoppedClock())
        external_call = await calls.permission("call_1", "Bash", {"command": "make"})
        waiting = asyncio.ensure_future(calls.wait(external_call))
        (question,) = await store.pending()
        await store.answer(question.id, approve=True)
        assert await asyncio.wait_for(waiting, 120) == Approved()

    asyncio.run(work())


def test_wait_times_out_without_an_answer(tmp_path: Path) -> None:
    clock = FakeClock()

    async def work() -> None:
        calls = ExternalCallService(FileStore(tmp_path), ASKER, clock)
        external_call = await calls.permission("call_1", "Bash", {"command": "make"})
        assert await calls.wait(external_call, 2.5) is None
        assert await calls.wait(external_call, needed=lambda: False) is None

    asyncio.run(work())
    assert sum(clock.slept) == 2.5
