"""Failing disks: acknowledged events are kept, each failure is an error with advice, and the
store works afterwards.
"""

from __future__ import annotations

import errno
import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from midturn.errors import MidturnError, StoreError
from midturn.events.open_question import address
from midturn.events.types import Event, InquiryAnswered
from midturn.stores import answer_service
from midturn.stores.locked import LockedConversation
from midturn.stores.opening import open_store
from midturn.stores.sync_forms import drive
from support.faulty_disk import WRITING, FaultyDisk
from support.stored import asking, create, finished, keep, release, reopen
from support.tapes import Tape

FAULTS = [
    ("write", errno.ENOSPC, False),
    ("short write", errno.ENOSPC, False),
    ("write", errno.EIO, True),
    ("fdatasync", errno.EIO, True),
    ("fdatasync", errno.EIO, False),
    ("fsync", errno.EIO, True),
    ("ftruncate", errno.EIO, False),
    *((name, errno.ENOSPC, False) for name in ("mkdir", "symlink", "link")),
    *((name, errno.EIO, True) for name in ("rename", "replace", "pwrite")),
    ("flock", errno.ENOLCK, False),
]


@pytest.fixture
def disk(monkeypatch: pytest.MonkeyPatch) -> FaultyDisk:
    # the holder in this test never takes an answer
    monkeypatch.setattr(answer_service, "_POLL_INTERVAL", 0.0)
    return FaultyDisk(monkeypatch)


class Client:
    """A client that uses a store until a failure and notes acknowledged events."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.recorded: dict[str, list[str]] = {}
        self.answered: dict[str, str] = {}
        self.errors: list[str] = []

    def attempt(self, work: Callable[[], Any]) -> Any:
        """Run a step. It may fail only with an error of the store that contains advice."""
        try:
            return work()
        except StoreError as error:
            self.errors.append(str(error))
        except MidturnError as error:  # a consequence of an earlier failure
            self.errors.append(f"{error} try again")
        return None

    def work(self) -> None:
        """Create two conversations, ask in both, answer in one from outside and in the other
        while it is locked.
        """
        store = open_store(self.folder)
        tapes = [asking("a")[0], asking("b")[0]]
        journals = [self.attempt(lambda: create(store)) for _ in tapes]
        for journal, tape in zip(journals, tapes, strict=True):
            if journal:
                self._append(journal, tape)
        for journal, event_id in zip(journals, ("a4", "b4"), strict=True):
            if journal:
                if event_id == "a4":
                    self.attempt(lambda journal=journal: release(journal))
                self._answer(journal.conversation, event_id)
                self.attempt(lambda journal=journal: release(journal))

    def _append(self, journal: LockedConversation, tape: Tape) -> None:
        for event in tape.events:
            if not self.attempt(lambda event=event: drive(journal.append([event])) or True):
                return  # as a turn does
            self.recorded.setdefault(journal.conversation, []).append(event.event_id)

    def _answer(self, conversation: str, event_id: str) -> None:
        store = open_store(self.folder)
        if self.attempt(
            lambda: store.answer_sync(address(conversation, event_id), True, user="u42")
        ):
            self.answered[conversation] = event_id

    def check(self) -> None:
        """Check that every acknowledged event is stored and that the conversations can be
        continued.
        """
        store = open_store(self.folder)
        for conversation, events in self.recorded.items():
            release(reopen(store, conversation))  # records the answer queue
            found = store.read_sync(conversation)
            assert [event.event_id for event in found.events if event.event_id in events] == events
            if conversation in self.answered:
                assert [response.answer for response in _answers(found.events)] == [True]
            if found.turns and found.turns[-1].open:
                for question in store.pending_sync(conversation):
                    store.answer_sync(question.id, True)
                assert not store.pending_sync(conversation)
        kept = keep(store, finished("later"))
        assert len(store.read_sync(kept).events) == 4
        assert store.pending_sync() == []


def _answers(events: tuple[Event, ...]) -> list[InquiryAnswered]:
    return [event for event in events if isinstance(event, InquiryAnswered)]


@pytest.mark.parametrize(("kind", "error", "once"), FAULTS)
def test_failing_disk_loses_no_acknowledged_event(
    tmp_path: Path, disk: FaultyDisk, kind: str, error: int, *, once: bool
) -> None:
    for after in range(100):
        client = Client(tmp_path / str(after))
        disk.fail(kind, error, after=after, once=once)
        client.work()
        refused = disk.refused
        disk.heal()
        client.check()
        if not refused:
            assert after, "the fault was never met"
            assert len(client.answered) == len(client.recorded) == 2
            return
        for said in client.errors:
            assert any(word in said for word in ("try again", "Try again", "again", "no locks")), (
                said
            )
    raise AssertionError("the work never came to an end without the fault")


def test_read_only_directory_is_read_and_writes_are_errors(
    tmp_path: Path, disk: FaultyDisk
) -> None:
    """Simulates a read-only file system by refusing calls, because root may write anywhere."""
    store = open_store(tmp_path)
    kept = keep(store, asking()[0])
    for kind in WRITING:
        disk.fail(kind, errno.EROFS)
        fresh = open_store(tmp_path)
        assert len(fresh.read_sync(kept).events) == 4
        assert len(fresh.pending_sync()) == 1
    disk.fail("flock", errno.EROFS)  # the first call of an answer
    with pytest.raises(StoreError, match="Give yourself write permission"):
        store.answer_sync(f"{kept}-e4", True)
    disk.heal()
    assert store.answer_sync(f"{kept}-e4", True)


def test_file_system_without_locks_is_an_error(tmp_path: Path, disk: FaultyDisk) -> None:
    disk.fail("flock", errno.ENOLCK)
    with pytest.raises(
        StoreError, match="has no locks, so two processes could write one conversation"
    ):
        create(open_store(tmp_path))


def test_clock_set_back_changes_only_times(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store = open_store(tmp_path)
    first = keep(store, asking("a")[0])
    hour = 3_600 * 1_000_000_000
    earlier = time.time_ns() - hour
    monkeypatch.setattr(time, "time_ns", lambda: earlier)

    second, third = keep(store, asking("b")[0]), keep(store, asking("c")[0])

    assert len({first, second, third}) == 3
    assert store.ids_sync() == sorted((first, second, third))
    assert len(store.pending_sync()) == 3
    for conversation, event_id in ((first, "a4"), (second, "b4"), (third, "c4")):
        store.answer_sync(address(conversation, event_id), True)
    assert sorted(store.ready_sync()) == sorted((first, second, third))
    assert os.listdir(tmp_path / "open")  # noqa: PTH208  names only
