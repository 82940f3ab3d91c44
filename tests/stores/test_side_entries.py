"""Side entries of a conversation's questions, such as half-filled forms, are removed with the
conversation.
"""

from __future__ import annotations

import asyncio
import os
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


def test_pruning_removes_half_filled_forms(store: ConversationStore) -> None:
    async def play() -> None:
        question = await _half_filled(store)
        await store.answer(question.id, cancel=True)
        await agent_with(store, asking_form(FORM)).resume(question.conversation)
        pruned = await store.prune(timedelta(0))
        assert pruned.finished == (question.conversation,)
        assert not await store.port.beside.kept("")

    asyncio.run(play())


def test_half_filled_form_of_an_earlier_version_is_migrated(store: ConversationStore) -> None:
    async def play() -> None:
        drafts = Drafts(Port(store), "1790001000000001-abc", "ana")
        earlier = drafts._earlier_name
        await store.port.beside.keep(earlier, b'{"at": 1.0, "steps": [{"answer": 1}]}')
        assert await drafts.read() == [{"answer": 1}]
        await drafts.keep([{"answer": 1}, {"answer": 2}])
        assert earlier not in await store.port.beside.kept("")
        assert len(await drafts.read()) == 2

    asyncio.run(play())


@pytest.mark.parametrize("content", [b"new", None])
def test_a_changed_value_is_durable_when_the_call_returns(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, content: bytes | None
) -> None:
    """A power cut must not restore the previous value, so the directory is synced at the end."""
    port = FileStore(tmp_path / "conversations").port
    asyncio.run(port.beside.keep("name", b"old"))
    folder = tmp_path / "conversations" / "beside"
    synced: list[list[bytes]] = []
    sync = os.fsync

    def fsync(fd: int) -> None:
        if os.path.samestat(os.fstat(fd), folder.stat()):
            synced.append([file.read_bytes() for file in folder.iterdir()])
        sync(fd)

    monkeypatch.setattr(os, "fsync", fsync)
    asyncio.run(port.beside.keep("name", content))
    assert synced == [[] if content is None else [content]]
