from __future__ import annotations

import asyncio
import logging
import threading
from pathlib import Path

import pytest

import midturn as mt
from midturn.stores import file_conversations, file_watcher
from midturn.stores.folder import Folder
from midturn.stores.open_index import notify
from midturn.stores.opening import FileStore
from support.agents import calling, deploy


async def _asked(store: mt.ConversationStore) -> str:
    return (await mt.Agent(calling("deploy"), tools=[deploy], store=store).run("Go.")).pending[0].id


def test_program_is_notified_of_ready_turns(tmp_path: Path) -> None:
    """The callback runs once per answer, after it is recorded, also through a guarded store."""
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


def test_failing_callback_does_not_affect_the_answer(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    def on_wake(conversation: str) -> None:
        raise ConnectionError(f"no queue for {conversation}")

    store = mt.open_store(tmp_path, on_wake=on_wake)
    question = asyncio.run(_asked(store))
    with caplog.at_level(logging.ERROR, "midturn.store"):
        receipt = store.answer_sync(question, value=True)
    assert store.ready_sync() == [receipt.conversation]
    assert "on_wake failed" in caplog.text


def test_waiting_for_ready_turns_on_disk_ends_at_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another store instance answers. Without inotify the wait would last an hour."""
    monkeypatch.setattr(file_conversations, "_POLL_INTERVAL", 3600.0)

    async def scene() -> None:
        waiting, answering = mt.open_store(tmp_path), mt.open_store(tmp_path)
        questions = [await _asked(answering), await _asked(answering)]
        for question in questions:
            heard = asyncio.create_task(waiting.port.wait_for_work())
            await asyncio.sleep(0)  # it waits
            assert not heard.done()
            await answering.answer(question, value=True)
            async with asyncio.timeout(120):
                await heard
            assert question.partition("-")[0] in await waiting.ready()

    asyncio.run(scene())


def test_sync_worker_is_notified(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(file_conversations, "_POLL_INTERVAL", 30.0)
    store = FileStore(tmp_path)
    question = asyncio.run(_asked(store))
    listening = threading.Thread(target=lambda: store.run_sync("woken", store.port.wait_for_work()))
    listening.start()
    # the worker may not have begun to wait before the first notification
    while listening.is_alive():
        with Folder.at(store.files.directories.path(question.partition("-")[0])) as folder:
            notify(folder, question.partition("-")[0])
        listening.join(0.05)


def test_watching_turns_on_disk_reports_an_answer_at_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without inotify the next poll would happen in an hour."""
    monkeypatch.setattr(file_watcher, "_POLL_INTERVAL", 3600.0)

    async def scene() -> None:
        watching, answering = mt.open_store(tmp_path), mt.open_store(tmp_path)
        questions = [await _asked(answering), await _asked(answering)]
        changes = watching.watch()
        async with asyncio.timeout(120):
            assert {(await anext(changes)).id for _ in questions} == set(questions)
            for question in questions:
                heard = asyncio.ensure_future(anext(changes))
                await asyncio.sleep(0)  # it polls and waits
                await answering.answer(question, value=True)
                change = await heard
                assert (change.kind, change.id) == ("answered", question)
        await changes.aclose()

    asyncio.run(scene())
