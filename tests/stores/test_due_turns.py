"""Which conversations a worker on files reads: it skips those that wait for people and finds
every turn that can continue.
"""

from __future__ import annotations

import asyncio
import os
import shutil
from pathlib import Path

import pytest

from midturn.stores import conversation, file_conversations, ready_turns
from midturn.stores.file_watcher import DirectoryWatcher
from midturn.stores.open_index import OpenIndex
from midturn.stores.opening import open_store
from midturn.stores.store import ConversationStore
from midturn.stores.sync_forms import drive
from support.processes import Forked, kill, line
from support.stored import asking, finished, keep, release

HOLDER = """
import sys
from midturn.stores.open_index import OpenIndex
from midturn.stores.opening import open_store
from midturn.stores.sync_forms import drive
journal = drive(open_store(sys.argv[1]).open(sys.argv[2]))
print("held", flush=True)
sys.stdin.read()
"""


@pytest.fixture
def store(tmp_path: Path) -> ConversationStore:
    """The store as opened by another process, in which users answer."""
    return open_store(tmp_path)


@pytest.fixture
def worker(tmp_path: Path) -> ConversationStore:
    return open_store(tmp_path)


@pytest.fixture
def reads(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Collect the conversations that are read."""
    seen: list[str] = []
    original = conversation.unfinished_turn

    def look(path: Path) -> object:
        seen.append(path.name.partition("-")[0])
        return original(path)

    monkeypatch.setattr(conversation, "unfinished_turn", look)
    return seen


@pytest.fixture
def _deaf(monkeypatch: pytest.MonkeyPatch) -> None:
    """Simulate a host that receives no inotify events for changes of other hosts."""

    def start(watcher: DirectoryWatcher) -> None:
        watcher._may_have_missed = False

    monkeypatch.setattr(DirectoryWatcher, "start", start)


def claimed(worker: ConversationStore) -> list[str]:
    """Claim the ready turns and release them again."""
    found = drive(worker.claim(10))
    for journal in found:
        release(journal)
    return [journal.conversation for journal in found]


def test_waiting_conversation_is_read_once(
    store: ConversationStore, worker: ConversationStore, reads: list[str]
) -> None:
    kept = [keep(store, asking()[0]) for _ in range(4)]
    assert claimed(worker) == claimed(worker) == []
    assert sorted(reads) == kept

    reads.clear()
    store.answer_sync(f"{kept[2]}-e4", True)
    reads.clear()
    assert claimed(worker) == [kept[2]]
    assert set(reads) == {kept[2]}


@pytest.mark.usefixtures("_deaf")
def test_answer_from_another_host_is_found_by_its_file(
    store: ConversationStore, worker: ConversationStore
) -> None:
    kept = [keep(store, asking()[0]) for _ in range(4)]
    assert claimed(worker) == []

    store.answer_sync(f"{kept[2]}-e4", True)

    assert claimed(worker) == [kept[2]]


@pytest.mark.usefixtures("_deaf")
def test_unnoticed_answer_is_found_after_a_while(
    store: ConversationStore, worker: ConversationStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    """For example because the file system has coarse timestamps."""

    def same(_: OpenIndex) -> tuple[int, int]:
        return 1, 1

    monkeypatch.setattr(ready_turns, "_COMPARED_FILES", 2)
    kept = [keep(store, asking()[0]) for _ in range(5)]
    assert claimed(worker) == []
    monkeypatch.setattr(OpenIndex, "mark", same)
    claimed(worker)

    store.answer_sync(f"{kept[4]}-e4", True)

    assert kept[4] in [each for _ in range(6) for each in claimed(worker)]


def test_large_store_is_read_without_pauses(
    store: ConversationStore, worker: ConversationStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A worker starts on a store with many waiting turns.

    Turns answered meanwhile are continued first.
    """
    monkeypatch.setattr(ready_turns, "_MAX_CHANGED", 2)
    monkeypatch.setattr(file_conversations, "_POLL_INTERVAL", 3600.0)
    kept = [keep(store, asking()[0]) for _ in range(9)]
    store.answer_sync(f"{kept[7]}-e4", True)
    assert claimed(worker) == []

    store.answer_sync(f"{kept[8]}-e4", True)
    assert claimed(worker) == [kept[8]]

    async def until_found() -> None:
        async with asyncio.timeout(120):
            while kept[7] not in claimed(worker):
                await worker.port.wait_for_work()

    asyncio.run(until_found())


def test_answer_queued_for_a_dead_process_is_found(
    store: ConversationStore, worker: ConversationStore, tmp_path: Path
) -> None:
    """The dead process recorded nothing.

    It got the lock after the worker had marked the conversation as idle.
    """
    kept = keep(store, asking()[0])
    assert claimed(worker) == []
    holder = Forked(HOLDER, tmp_path, kept)
    assert line(holder) == "held"
    assert claimed(worker) == []

    assert store.answer_sync(f"{kept}-e4", True).held
    kill(holder)

    assert claimed(worker) == [kept]


def test_new_turn_is_read_until_its_lock_is_released(
    worker: ConversationStore, tmp_path: Path
) -> None:
    assert claimed(worker) == []
    holder = Forked(
        """
import sys
from midturn.events.types import TurnStart
from midturn.stores.open_index import OpenIndex
from midturn.stores.opening import open_store
from midturn.stores.sync_forms import drive
journal = drive(open_store(sys.argv[1]).create("dies"))
drive(journal.append([TurnStart()]))
print(journal.conversation, flush=True)
sys.stdin.read()
""",
        tmp_path,
    )
    begun = line(holder)
    assert claimed(worker) == []

    kill(holder)

    assert claimed(worker) == [begun]


def test_replaced_index_is_watched(
    store: ConversationStore, worker: ConversationStore, tmp_path: Path
) -> None:
    kept = [keep(store, asking()[0]) for _ in range(2)]
    assert claimed(worker) == []
    shutil.rmtree(tmp_path / "open")
    assert len(store.pending_sync()) == 2

    store.answer_sync(f"{kept[1]}-e4", True)
    assert claimed(worker) == [kept[1]]


def test_ended_turn_is_removed_from_the_index(
    store: ConversationStore, worker: ConversationStore, tmp_path: Path
) -> None:
    kept = keep(store, finished())
    waits = keep(store, asking()[0])
    (tmp_path / "open" / kept).touch()

    assert claimed(worker) == []

    assert not os.path.lexists(tmp_path / "open" / kept)
    assert os.path.lexists(tmp_path / "open" / waits)


def test_unreadable_conversation_is_skipped_until_readable(
    store: ConversationStore,
    worker: ConversationStore,
    tmp_path: Path,
    caplog: pytest.LogCaptureFixture,
) -> None:
    kept = keep(store, asking()[0])
    (path,) = tmp_path.glob(f"{kept}-*")
    (path / "events.jsonl").rename(path / "away")
    assert claimed(worker) == []
    assert "is left out" in caplog.text

    (path / "away").rename(path / "events.jsonl")
    store.answer_sync(f"{kept}-e4", True)
    assert claimed(worker) == [kept]
