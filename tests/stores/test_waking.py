from __future__ import annotations

import asyncio
import logging
import threading
from pathlib import Path

import pytest

import midturn as mt
from midturn.stores import file_conversations, file_watcher
from midturn.stores.folder import Folder
from midturn.stores.open_index import ring
from midturn.stores.opening import FileStore
from support.agents import calling, deploy


async def _asked(store: mt.ConversationStore) -> str:
    return (await mt.Agent(calling("deploy"), tools=[deploy], store=store).run("Go.")).pending[0].id


def test_a_program_hears_which_turn_can_go_on(tmp_path: Path) -> None:
    """Once for each answer, after it is recorded, and through a guard, too."""
    heard: list[tuple[str, list[str]]] = []

    async def on_wake(conversation: str) -> None:
        heard.append((conversation, await mt.open_store(tmp_path).ready()))

    async def scene() -> str:
        store = mt.open_store(tmp_path, on_wake=on_wake, may_answer=lambda _question, _user: True)
        question = await _asked(store)
        await store.answer(question, value=True)
        return question.partition("-")[0]

    conversation = asyncio.run(scene())
    assert heard == [(conversation, [conversation])]


def test_an_answer_stands_though_its_program_fails_to_hear(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    def on_wake(conversation: str) -> None:
        raise ConnectionError(f"no queue for {conversation}")

    store = mt.open_store(tmp_path, on_wake=on_wake)
    question = asyncio.run(_asked(store))
    with caplog.at_level(logging.ERROR, "midturn.store"):
        receipt = store.answer_sync(question, value=True)
    assert store.ready_sync() == [receipt.conversation]
    assert "on_wake failed" in caplog.text


def test_whoever_waits_for_turns_on_disk_hears_of_an_answer_at_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Another process answers: here, a store of its own. Without the kernel's word the wait would last an hour."""
    monkeypatch.setattr(file_conversations, "_LOOK", 3600.0)

    async def scene() -> None:
        waiting, answering = mt.open_store(tmp_path), mt.open_store(tmp_path)
        questions = [await _asked(answering), await _asked(answering)]
        for question in questions:
            heard = asyncio.create_task(waiting.port.woken())
            await asyncio.sleep(0)  # it waits
            assert not heard.done()
            await answering.answer(question, value=True)
            async with asyncio.timeout(30):
                await heard
            assert question.partition("-")[0] in await waiting.ready()

    asyncio.run(scene())


def test_a_worker_without_a_loop_hears_it_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(file_conversations, "_LOOK", 30.0)
    store = FileStore(tmp_path)
    question = asyncio.run(_asked(store))
    listening = threading.Thread(target=lambda: store.run_sync("woken", store.port.woken()))
    listening.start()
    while listening.is_alive():  # it may not have begun to wait when it is first rung
        with Folder.at(store.files.directories.path(question.partition("-")[0])) as folder:
            ring(folder, question.partition("-")[0])
        listening.join(0.05)


def test_whoever_watches_turns_on_disk_hears_of_an_answer_at_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As above: without the kernel's word, the next look would come in an hour."""
    monkeypatch.setattr(file_watcher, "_WATCHED", 3600.0)

    async def scene() -> None:
        watching, answering = mt.open_store(tmp_path), mt.open_store(tmp_path)
        questions = [await _asked(answering), await _asked(answering)]
        changes = watching.watch()
        async with asyncio.timeout(30):
            assert {(await anext(changes)).id for _ in questions} == set(questions)
            for question in questions:
                heard = asyncio.ensure_future(anext(changes))
                await asyncio.sleep(0)  # it looks, and waits
                await answering.answer(question, value=True)
                change = await heard
                assert (change.kind, change.id) == ("answered", question)
        await changes.aclose()

    asyncio.run(scene())
