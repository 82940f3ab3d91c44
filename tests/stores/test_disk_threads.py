"""Disk threads: order, errors, cancelled callers, loops that end, forks."""

from __future__ import annotations

import asyncio
import errno
import os
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from midturn.errors import StoreError
from midturn.events.types import ChatRequest, ChatResponse, Event, TurnEnd, TurnStart
from midturn.stores import disk_threads, folder
from midturn.stores.disk_threads import DiskQueue, on_disk
from midturn.stores.file_conversations import FileConversations
from midturn.stores.sync_forms import drive
from support.loops import in_a_loop
from support.waiting import until


def turn(words: str) -> list[Event]:
    return [
        TurnStart(),
        ChatRequest(content=words),
        ChatResponse(message="Yes."),
        TurnEnd(status="completed"),
    ]


class SlowDisk:
    """A disk whose syncs wait until `free` is set."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.threads: set[int] = set()
        self.began = threading.Event()
        self.free = threading.Event()
        self.error: OSError | None = None
        self._sync = os.fdatasync
        monkeypatch.setattr(os, "fdatasync", self._wait)

    def _wait(self, fd: int) -> None:
        self.threads.add(threading.get_ident())
        self.began.set()
        assert self.free.wait(60)
        if self.error:
            raise self.error
        self._sync(fd)

    async def has_begun(self) -> None:
        """Wait until a sync has started."""
        await until(self.began.is_set, seconds=120)


@pytest.fixture(autouse=True)
def fresh_pool(monkeypatch: pytest.MonkeyPatch) -> None:
    """Reset the pool as in a new process: the disk does not yet count as fast."""
    monkeypatch.setattr(disk_threads, "_pool", disk_threads._Pool())


@pytest.fixture
def disk(monkeypatch: pytest.MonkeyPatch) -> SlowDisk:
    return SlowDisk(monkeypatch)


@in_a_loop
async def test_the_loop_runs_while_an_append_is_synced(tmp_path: Path, disk: SlowDisk) -> None:
    async with await FileConversations(tmp_path).create("a") as journal:
        appending = asyncio.create_task(journal.append(turn("a")))
        await disk.has_begun()
        await asyncio.sleep(0.01)
        assert not appending.done()
        assert not journal.events
        disk.free.set()
        await appending
        assert len(journal.events) == 4
    assert threading.get_ident() not in disk.threads


@in_a_loop
async def test_appends_of_one_conversation_keep_their_order(tmp_path: Path) -> None:
    store = FileConversations(tmp_path)
    async with await store.create("a") as journal:
        await asyncio.gather(*(journal.append(turn(str(number))) for number in range(50)))
        said = [event.content for event in journal.events if isinstance(event, ChatRequest)]
    assert said == [str(number) for number in range(50)]
    recorded = (await store.read(journal.conversation)).events
    assert [event.content for event in recorded if isinstance(event, ChatRequest)] == said


@in_a_loop
async def test_conversations_do_not_wait_for_each_other(tmp_path: Path, disk: SlowDisk) -> None:
    store = FileConversations(tmp_path)
    journals = [await store.create(str(number)) for number in range(8)]
    appending = [asyncio.create_task(journal.append(turn("a"))) for journal in journals]
    while len(disk.threads) < len(journals):
        await asyncio.sleep(0.001)
        if disk.began.is_set():  # no job has completed for a while
            await asyncio.sleep(0.005)
            appending.append(asyncio.create_task(on_disk(lambda: None)))
    disk.free.set()
    await asyncio.gather(*appending)
    for journal in journals:
        journal.close()


@in_a_loop
async def test_a_cancelled_append_is_finished_and_recorded(tmp_path: Path, disk: SlowDisk) -> None:
    store = FileConversations(tmp_path)
    journal = await store.create("a")
    appending = asyncio.create_task(journal.append(turn("a")))
    await disk.has_begun()
    for _ in range(3):
        appending.cancel()
        await asyncio.sleep(0.001)
    assert not appending.done()
    disk.free.set()
    with pytest.raises(asyncio.CancelledError):
        await appending
    assert len(journal.events) == 4
    journal.close()
    assert len((await store.read(journal.conversation)).events) == 4


@in_a_loop
async def test_cancelled_append_keeps_its_position_in_the_queue(
    tmp_path: Path, disk: SlowDisk
) -> None:
    async with await FileConversations(tmp_path).create("a") as journal:
        appending = [asyncio.create_task(journal.append(turn(str(number)))) for number in range(3)]
        await disk.has_begun()
        appending[1].cancel()
        disk.free.set()
        await asyncio.wait(appending)
        assert [event.content for event in journal.events if isinstance(event, ChatRequest)] == [
            "0",
            "1",
            "2",
        ]


@in_a_loop
async def test_timeout_during_an_append_is_raised(tmp_path: Path, disk: SlowDisk) -> None:
    async with await FileConversations(tmp_path).create("a") as journal:

        async def append() -> None:
            async with asyncio.timeout(0.01):
                await journal.append(turn("a"))

        appending = asyncio.create_task(append())
        await asyncio.sleep(0.05)
        disk.free.set()
        with pytest.raises(TimeoutError):
            await appending


@in_a_loop
async def test_a_cancelled_creation_leaves_no_lock(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store, began, free = FileConversations(tmp_path), threading.Event(), threading.Event()
    write = folder.Folder.write_unsynced

    def slowly(where: folder.Folder, name: str, content: bytes) -> None:
        began.set()
        assert free.wait(60)
        write(where, name, content)

    (await store.create("other")).close()
    monkeypatch.setattr(folder.Folder, "write_unsynced", slowly)
    creating = asyncio.create_task(store.create("a"))
    await until(began.is_set, seconds=120)
    creating.cancel()
    free.set()
    with pytest.raises(asyncio.CancelledError):
        await creating
    for conversation in await store.ids():
        async with await store.open(conversation):
            pass


@pytest.mark.parametrize("error", [errno.ENOSPC, errno.EIO])
@in_a_loop
async def test_a_failed_sync_fails_each_append_that_waits_for_it_once_by_name(
    tmp_path: Path, disk: SlowDisk, error: int
) -> None:
    store = FileConversations(tmp_path)
    journals = [await store.create(str(number)) for number in range(5)]
    appending = [asyncio.create_task(journal.append(turn("a"))) for journal in journals]
    await disk.has_begun()
    disk.error = OSError(error, os.strerror(error))
    disk.free.set()
    failures = await asyncio.gather(*appending, return_exceptions=True)
    for journal, failure in zip(journals, failures, strict=True):
        assert isinstance(failure, StoreError)
        assert str(journal.path) in str(failure)
        assert not journal.events
        journal.close()
    disk.error = None
    for journal in journals:  # no refused append is found later
        async with await store.open(journal.conversation) as again:
            assert not again.events
            await again.append(turn("b"))


@in_a_loop
async def test_a_conversation_that_is_removed_during_its_sync_is_not_reported_as_stored(
    tmp_path: Path, disk: SlowDisk
) -> None:
    journal = await FileConversations(tmp_path).create("a")
    appending = asyncio.create_task(journal.append(turn("a")))
    await disk.has_begun()
    for file in journal.path.iterdir():
        file.unlink()
    journal.path.rmdir()
    disk.free.set()
    with pytest.raises(StoreError, match="removed"):
        await appending
    assert not journal.events
    with pytest.raises(StoreError):
        await journal.append(turn("b"))
    journal.close()


def test_without_a_loop_the_caller_syncs_itself(tmp_path: Path, disk: SlowDisk) -> None:
    disk.free.set()
    journal = drive(FileConversations(tmp_path).create("a"))
    drive(journal.append(turn("a")))
    journal.close()
    assert disk.threads == {threading.get_ident()}


def test_a_loop_that_ends_during_an_append_leaves_a_whole_batch(
    tmp_path: Path, disk: SlowDisk
) -> None:
    journal = drive(FileConversations(tmp_path).create("a"))
    loop = asyncio.new_event_loop()
    append = journal.append(turn("a"))

    async def begin() -> None:
        task = loop.create_task(append)
        await disk.has_begun()
        task._log_destroy_pending = False  # type: ignore[attr-defined]  # it is left behind on purpose

    loop.run_until_complete(begin())
    loop.close()
    threading.Timer(0.02, disk.free.set).start()
    append.close()  # waits for its sync
    assert len(journal.events) == 4
    drive(journal.append(turn("b")))
    assert len(journal.events) == 8
    journal.close()


def test_a_forked_process_appends_with_threads_of_its_own(tmp_path: Path, disk: SlowDisk) -> None:
    """The parent's sync is unfinished when it forks, and the child has none of its threads."""
    journal = drive(FileConversations(tmp_path).create("a"))
    other = drive(FileConversations(tmp_path).create("b"))

    async def fork() -> int:
        appending = asyncio.create_task(other.append(turn("b")))
        await disk.has_begun()
        child = os.fork()
        if child == 0:
            disk_threads._pool.reset()  # the pool of the process does this itself
            disk.free = threading.Event()
            disk.free.set()
            child_work(
                lambda: asyncio.new_event_loop().run_until_complete(journal.append(turn("a")))
            )
        disk.free.set()
        await appending
        return os.waitpid(child, 0)[1]  # noqa: ASYNC222  it has nothing to wait for

    assert asyncio.run(fork()) == 0
    journal.close()
    other.close()
    assert len(drive(FileConversations(tmp_path).read(journal.conversation)).events) == 4


def child_work(work: Callable[[], object]) -> None:
    status = 1
    try:
        asyncio._set_running_loop(None)
        work()
        status = 0
    finally:
        os._exit(status)


@in_a_loop
async def test_idle_threads_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(disk_threads, "_IDLE_TIME", 0.01)
    used = await asyncio.gather(*(on_disk(threading.current_thread) for _ in range(20)))
    await until(lambda: not any(thread.is_alive() for thread in used), seconds=120)
    assert await on_disk(threading.current_thread) not in used


@in_a_loop
async def test_failed_job_does_not_block_the_next_one() -> None:
    queue, done = DiskQueue(), list[int]()

    def fail() -> None:
        raise OSError(errno.EIO, "no")

    failing = asyncio.create_task(on_disk(fail, queue))
    following = asyncio.create_task(on_disk(lambda: done.append(1), queue))
    with pytest.raises(OSError, match="no"):
        await failing
    await following
    assert done == [1]


@in_a_loop
async def test_fast_disk_is_used_in_the_loop_until_it_is_slow(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    took = 0.0
    monkeypatch.setattr(disk_threads, "time", Clock(lambda: took))
    own = threading.current_thread()
    used = [await on_disk(threading.current_thread) for _ in range(disk_threads._FAST_JOBS)]
    assert own not in used
    assert await on_disk(threading.current_thread) is own
    took = 0.005
    assert await on_disk(threading.current_thread) is own  # the stalled thread
    took = 0.0
    assert [
        await on_disk(threading.current_thread) is own for _ in range(disk_threads._FAST_JOBS)
    ].count(True) == 0
    assert await on_disk(threading.current_thread) is own


class Clock:
    """A clock with which each job takes `took` seconds."""

    def __init__(self, took: Callable[[], float]) -> None:
        self._took = took
        self._now = 1_000.0

    def perf_counter(self) -> float:
        self._now += self._took()
        return self._now
