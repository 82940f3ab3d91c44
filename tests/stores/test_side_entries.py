"""What is kept of a conversation's questions goes with the conversation."""

from __future__ import annotations

import asyncio
from datetime import timedelta
from pathlib import Path

import pytest

import midturn as mt
from midturn.inbox.form_session import Drafts
from midturn.inbox.store_access import Port
from midturn.stores.memory_conversations import MemoryStore
from midturn.stores.opening import FileStore
from midturn.stores.store import ConversationStore
from support.pages import agent_with, asking_form

FORM = mt.Form([mt.Question.text("name", "Name?"), mt.Question.text("why", "Why?")])


@pytest.fixture(params=["memory", "files"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> ConversationStore:
    """Return an empty store."""
    return MemoryStore() if request.param == "memory" else FileStore(tmp_path / "conversations")


async def _half_filled(store: ConversationStore) -> mt.OpenQuestion:
    question = (await agent_with(store, asking_form(FORM)).run("Go.")).pending[0]
    for person in ("ana", "bo"):
        await Drafts(Port(store), question.id, person).keep([{"answer": "my name"}])
    await store.port.beside.keep(f"notice/urls/{question.id}", b"{}")
    await store.port.beside.keep(f"notice/people/{question.id}/asked-0", b"{}")
    return question


def test_removing_a_conversation_removes_its_half_filled_forms(store: ConversationStore) -> None:
    async def play() -> None:
        gone, kept = [await _half_filled(store) for _ in range(2)]
        assert await Drafts(Port(store), gone.id, "ana").read()
        await store.remove(gone.conversation)
        names = list(await store.port.beside.kept(""))
        assert len(names) == 4
        assert all(kept.id in name for name in names)
        assert await Drafts(Port(store), kept.id, "ana").read() == [{"answer": "my name"}]

    asyncio.run(play())


def test_pruning_removes_them_too(store: ConversationStore) -> None:
    async def play() -> None:
        question = await _half_filled(store)
        await store.answer(question.id, cancel=True)
        await agent_with(store, asking_form(FORM)).resume(question.conversation)
        pruned = await store.prune(timedelta(0))
        assert pruned.finished == (question.conversation,)
        assert not await store.port.beside.kept("")

    asyncio.run(play())


def test_a_form_of_an_earlier_version_is_read_and_goes_with_its_next_step(store: ConversationStore) -> None:
    async def play() -> None:
        drafts = Drafts(Port(store), "1790001000000001-abc", "ana")
        earlier = drafts._earlier_name  # pyright: ignore[reportPrivateUsage]  # as 0.2 has named it
        await store.port.beside.keep(earlier, b'{"at": 1.0, "steps": [{"answer": 1}]}')
        assert await drafts.read() == [{"answer": 1}]
        await drafts.keep([{"answer": 1}, {"answer": 2}])
        assert earlier not in await store.port.beside.kept("")
        assert len(await drafts.read()) == 2

    asyncio.run(play())
