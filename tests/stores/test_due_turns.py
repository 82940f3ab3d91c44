"""What a worker on files looks at: those that wait for people are left in peace, and none that may go on is overlooked."""

from __future__ import annotations

import asyncio
import os
import shutil
from pathlib import Path

import pytest

from midturn.stores import conversation, file_conversations, ready_turns
from midturn.stores.file_watcher import FolderBell
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
    """The store of another process: people answer there."""
    return open_store(tmp_path)


@pytest.fixture
def worker(tmp_path: Path) -> ConversationStore:
    return open_store(tmp_path)


@pytest.fixture
def looks(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Note which conversations are read."""
    seen: list[str] = []
    original = conversation.unfinished_turn

    def look(path: Path) -> object:
        seen.append(path.name.partition("-")[0])
        return original(path)

    monkeypatch.setattr(conversation, "unfinished_turn", look)
    return seen


@pytest.fixture
def _deaf(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have no kernel that tells of what others touch: it is another one's."""

    def listen(bell: FolderBell) -> None:
        bell._has_missed = False  # type: ignore[attr-defined]

    monkeypatch.setattr(FolderBell, "listen", listen)


def claimed(worker: ConversationStore) -> list[str]:
    """Claim what is due, and let go of it again."""
    found = drive(worker.claim(10))
    for journal in found:
        release(journal)
    return [journal.conversation for journal in found]


def test_what_waits_for_people_is_read_once(store: ConversationStore, worker: ConversationStore, looks: list[str]) -> None:
    kept = [keep(store, asking()[0]) for _ in range(4)]
    assert claimed(worker) == claimed(worker) == []
    assert sorted(looks) == kept

    looks.clear()
    store.answer_sync(f"{kept[2]}-e4", True)
    looks.clear()
    assert claimed(worker) == [kept[2]]
    assert set(looks) == {kept[2]}


@pytest.mark.usefixtures("_deaf")
def test_an_answer_from_another_host_is_found_by_what_it_leaves(store: ConversationStore, worker: ConversationStore) -> None:
    kept = [keep(store, asking()[0]) for _ in range(4)]
    assert claimed(worker) == []

    store.answer_sync(f"{kept[2]}-e4", True)

    assert claimed(worker) == [kept[2]]


@pytest.mark.usefixtures("_deaf")
def test_it_is_found_by_and_by_where_nothing_else_tells_of_it(
    store: ConversationStore, worker: ConversationStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The clocks of its file system take long steps, say."""

    def same(_: OpenIndex) -> tuple[int, int]:
        return 1, 1

    monkeypatch.setattr(ready_turns, "_COMPARED", 2)
    kept = [keep(store, asking()[0]) for _ in range(5)]
    assert claimed(worker) == []
    monkeypatch.setattr(OpenIndex, "mark", same)
    claimed(worker)

    store.answer_sync(f"{kept[4]}-e4", True)

    assert kept[4] in [each for _ in range(6) for each in claimed(worker)]


def test_more_than_one_look_takes_are_looked_at_without_a_pause(
    store: ConversationStore, worker: ConversationStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A worker begins with a store in which any number wait: what is answered meanwhile goes first."""
    monkeypatch.setattr(ready_turns, "_READ", 2)
    monkeypatch.setattr(file_conversations, "_LOOK", 3600.0)
    kept = [keep(store, asking()[0]) for _ in range(9)]
    store.answer_sync(f"{kept[7]}-e4", True)
    assert claimed(worker) == []

    store.answer_sync(f"{kept[8]}-e4", True)
    assert claimed(worker) == [kept[8]]

    async def until_found() -> None:
        async with asyncio.timeout(30):
            while kept[7] not in claimed(worker):
                await worker.port.woken()

    asyncio.run(until_found())


def test_an_answer_that_a_dead_holder_was_given_is_found(store: ConversationStore, worker: ConversationStore, tmp_path: Path) -> None:
    """Nothing is recorded by such a holder: it was given its conversation after the worker had left that in peace."""
    kept = keep(store, asking()[0])
    assert claimed(worker) == []
    holder = Forked(HOLDER, tmp_path, kept)
    assert line(holder) == "held"
    assert claimed(worker) == []

    assert store.answer_sync(f"{kept}-e4", True).held
    kill(holder)

    assert claimed(worker) == [kept]


def test_a_turn_that_begins_is_watched_until_its_process_lets_go(worker: ConversationStore, tmp_path: Path) -> None:
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


def test_an_index_in_the_place_of_another_is_listened_to(store: ConversationStore, worker: ConversationStore, tmp_path: Path) -> None:
    kept = [keep(store, asking()[0]) for _ in range(2)]
    assert claimed(worker) == []
    shutil.rmtree(tmp_path / "open")
    assert len(store.pending_sync()) == 2

    store.answer_sync(f"{kept[1]}-e4", True)
    assert claimed(worker) == [kept[1]]


def test_what_is_over_is_taken_out_of_the_index(store: ConversationStore, worker: ConversationStore, tmp_path: Path) -> None:
    kept = keep(store, finished())
    waits = keep(store, asking()[0])
    (tmp_path / "open" / kept).touch()

    assert claimed(worker) == []

    assert not os.path.lexists(tmp_path / "open" / kept)
    assert os.path.lexists(tmp_path / "open" / waits)


def test_one_that_cannot_be_read_is_left_out_until_it_can(
    store: ConversationStore, worker: ConversationStore, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    kept = keep(store, asking()[0])
    (path,) = tmp_path.glob(f"{kept}-*")
    (path / "events.jsonl").rename(path / "away")
    assert claimed(worker) == []
    assert "is left out" in caplog.text

    (path / "away").rename(path / "events.jsonl")
    store.answer_sync(f"{kept}-e4", True)
    assert claimed(worker) == [kept]
