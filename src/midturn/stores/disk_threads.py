"""Threads that wait for the disk, so that the event loop does not.

Theory of operation
===================

A sync takes 0.1 ms on a good disk, 5 ms on a usual cloud disk, and seconds on an overloaded or
failing disk. `on_disk(work)` therefore runs `work` in a thread if an event loop runs in the
caller's thread. Without a loop (commands, plain threads) it runs `work` directly.

**Number of threads.** Each thread does one job at a time, and each job syncs only its own file.
When many jobs sync concurrently, the kernel combines them: file systems with a journal (ext4, XFS)
write one journal record and flush the disk once for all of them. Therefore many threads are best
for a slow disk, and few threads for a fast disk, because each handover between threads costs CPU
time. Another thread is started only if the jobs in the queue would otherwise wait longer than
`_MAX_WAIT`, estimated from the duration of recent jobs.

**Fast disks.** If the last `_FAST_JOBS` jobs all took less than `_FAST`, and no job is running,
the handover would cost more than the wait, and the job runs in the loop. After one slow job, at
least `_FAST_JOBS` more jobs run in threads. A disk that was fast for a long time and then stalls
can therefore block the loop, once for each stall.

**Order.** Jobs of one `DiskQueue` run one after the other, in the order in which they were
submitted. Each open log has such a queue.

**Waking the loop.** A finished job is put into its loop's inbox, and the loop is woken only if it
has not been woken already. A busy loop handles many finished jobs after one wake-up.

**Cancellation.** A caller that is cancelled waits until its job is finished, and then raises
`CancelledError`: the file must not be closed or written while a job is still running. A coroutine
that is closed without a loop waits as well, by blocking.

**Fork.** A child process has none of its parent's threads. It begins with an empty pool, and its
queues ignore jobs of the parent's pool.
"""

from __future__ import annotations

import os
import sys
import time
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from queue import Empty, SimpleQueue
from threading import Lock, Thread
from typing import TYPE_CHECKING, Any, Final, Generic, TypeVar
from weakref import WeakKeyDictionary

if TYPE_CHECKING:
    from asyncio import AbstractEventLoop, Future

T = TypeVar("T")
_MAX_THREADS: Final = 32
"""Maximum number of threads. Each job may need one or two file descriptors, and some systems allow
a process only 1,024.
"""
_MAX_WAIT: Final = 0.002
"""Seconds that jobs may wait for a thread before another thread is started."""
_IDLE_TIME: Final = 10.0
"""Seconds after which a thread without work ends."""
_WEIGHT: Final = 0.1
"""Weight of the last job in the average duration of jobs."""
_FAST: Final = 0.001
"""Maximum duration in seconds of a job on a fast disk."""
_FAST_JOBS: Final = 32
"""Number of consecutive fast jobs after which a disk is considered fast."""


def running_loop() -> AbstractEventLoop | None:
    """Return the event loop that runs in this thread, or None.

    Does not import asyncio: a program that has not imported it has no loop.
    """
    asyncio = sys.modules.get("asyncio")
    return asyncio._get_running_loop() if asyncio is not None else None  # noqa: SLF001  documented for such uses


async def on_disk(work: Callable[[], T], queue: DiskQueue | None = None) -> T:
    """Run `work`, which waits for the disk, without blocking the event loop.

    Args:
        work: A function that may block. If a loop runs, `work` is called in another thread.
        queue: Jobs of the same queue run one after the other. Without a queue, this job may run
            concurrently with any other.

    Returns:
        The value that `work` returns.

    Raises:
        CancelledError: The caller was cancelled. Even then, `work` has finished.
    """
    loop = running_loop()
    if loop is None:
        if queue is not None:
            queue.wait_until_idle()
        return work()
    if _pool.is_fast_and_free():
        return _pool.timed(work)
    job = _Job(work, loop, queue)
    _pool.count(unfinished=1)
    if queue is None or queue.is_next(job):
        _pool.start(job)
    await job.finished()
    return job.result()


class DiskQueue:
    """Jobs that run one after the other, in the order in which they were submitted."""

    __slots__ = ("_generation", "_jobs")

    def __init__(self) -> None:
        self._jobs: deque[_Job[Any]] = deque()  # the first job runs
        self._generation = _pool.generation

    def is_next(self, job: _Job[Any]) -> bool:
        """Add a job; return whether it can run now. Otherwise it starts after its predecessor."""
        with _pool.mutex:
            if self._generation != _pool.generation:  # the process was forked
                self._generation = _pool.generation
                self._jobs.clear()
            self._jobs.append(job)
            return len(self._jobs) == 1

    def advance(self) -> _Job[Any] | None:
        """Remove the finished job; return its successor."""
        with _pool.mutex:
            self._jobs.popleft()
            return self._jobs[0] if self._jobs else None

    def wait_until_idle(self) -> None:
        """Block this thread until no job is left.

        Jobs remain only if the coroutine that waits for a job was closed, or runs in another
        thread.
        """
        while self._generation == _pool.generation and (jobs := list(self._jobs)):
            jobs[-1].block()
            time.sleep(0)  # yield to the thread that still has to remove the job


class _Job(Generic[T]):
    """A function that runs in another thread, and its outcome."""

    __slots__ = (
        "_error",
        "_future",
        "_inbox",
        "_is_delivered",
        "_loop",
        "_mutex",
        "_value",
        "_work",
        "queue",
    )

    def __init__(
        self, work: Callable[[], T], loop: AbstractEventLoop, queue: DiskQueue | None
    ) -> None:
        self.queue = queue
        self._work = work
        self._loop = loop
        self._inbox = _pool.inbox(loop)
        self._future: Future[None] = loop.create_future()
        self._is_delivered = False
        self._mutex = Lock()  # held until the function is finished
        self._mutex.acquire()
        self._value: T | None = None
        self._error: BaseException | None = None

    def run(self) -> None:
        """Call the function, once, in a thread of the pool."""
        try:
            self._value = self._work()
        except BaseException as error:  # noqa: BLE001  it is raised in the caller
            self._error = error
        self._mutex.release()

    def notify(self) -> None:
        """Schedule the delivery of the outcome in the loop."""
        self._inbox.put(self, self._loop)

    def deliver(self) -> None:
        """Wake the caller. Called in its loop."""
        self._is_delivered = True
        if not self._future.done():
            self._future.set_result(None)

    async def finished(self) -> None:
        """Wait for the function, even if the caller is cancelled in the meantime."""
        cancelled: BaseException | None = None
        while not self._is_delivered:
            try:
                await self._future
            except GeneratorExit:  # the loop has ended, and the coroutine is closed
                self.block()
                raise
            except BaseException as error:  # noqa: BLE001  a cancellation, raised below
                cancelled = error
                self._future = self._loop.create_future()
        if cancelled is not None:
            try:
                raise cancelled
            finally:
                # otherwise, the traceback and this frame would form a reference cycle
                cancelled = None

    def result(self) -> T:
        """Return the value of the finished function, or raise its exception."""
        error, self._error = self._error, None
        if error is not None:
            try:
                raise error
            finally:
                error = None  # otherwise, the traceback and this frame would form a reference cycle
        return self._value  # type: ignore[return-value]  # it was set, because there was no error

    def block(self) -> None:
        """Block this thread until the function is finished."""
        with self._mutex:
            pass


class _Inbox:
    """Finished jobs whose callers wait in one event loop."""

    def __init__(self) -> None:
        self._jobs: deque[_Job[Any]] = deque()
        self._is_woken = False

    def put(self, job: _Job[Any], loop: AbstractEventLoop) -> None:
        """Add a job, and wake the loop unless it has been woken. Called in any thread."""
        self._jobs.append(job)
        if not self._is_woken:
            self._is_woken = True
            try:
                loop.call_soon_threadsafe(self._deliver)
            except RuntimeError:  # the loop is closed, so no caller waits
                self._jobs.clear()

    def _deliver(self) -> None:
        self._is_woken = (
            False  # reset first, so that a job that arrives from now on wakes the loop again
        )
        while self._jobs:
            self._jobs.popleft().deliver()


class _Pool:
    """Threads that take jobs from one queue."""

    def __init__(self) -> None:
        self.generation = 0
        """Number of resets. A fork resets the pool of the child process."""
        self.reset()

    def reset(self) -> None:
        """Reset the pool to no threads and no jobs."""
        self.generation += 1
        self.mutex = Lock()
        self._inboxes: WeakKeyDictionary[AbstractEventLoop, _Inbox] = WeakKeyDictionary()
        self._jobs: SimpleQueue[_Job[Any]] = SimpleQueue()
        self._threads = 0
        self._idle = 0
        self._unfinished = 0  # number of jobs in the queue or in a thread
        self._usual = 0.001  # average duration of a job in seconds
        self._fast = 0  # number of jobs since the last slow job
        self._finished_at = 0.0

    def inbox(self, loop: AbstractEventLoop) -> _Inbox:
        """Return the inbox of a loop."""
        inbox = self._inboxes.get(loop)
        if inbox is None:
            with self.mutex:
                inbox = self._inboxes.setdefault(loop, _Inbox())
        return inbox

    def is_fast_and_free(self) -> bool:
        """Return whether a job should run in the loop."""
        return self._fast >= _FAST_JOBS and self._unfinished == 0

    def timed(self, work: Callable[[], T]) -> T:
        """Call `work`, and record its duration."""
        began = time.perf_counter()
        try:
            return work()
        finally:
            self._finished_at = time.perf_counter()
            took = self._finished_at - began
            self._usual += _WEIGHT * (took - self._usual)
            self._fast = self._fast + 1 if took < _FAST else 0

    def start(self, job: _Job[Any]) -> None:
        """Queue a job for the threads."""
        self._jobs.put(job)
        queued = self._jobs.qsize()
        if queued > self._idle:
            expected = max(
                self._usual, time.perf_counter() - self._finished_at if self._threads else 0.0
            )
            if not self._threads or queued * expected > _MAX_WAIT * self._threads:
                self._start_thread()

    def _start_thread(self) -> None:
        with self.mutex:
            if self._threads >= _MAX_THREADS:
                return
            self._threads += 1
        try:
            Thread(target=self._run, name="midturn: disk", daemon=True).start()
        except RuntimeError:  # the system has no thread left, or the interpreter is ending
            self.count(threads=-1)
            if not self._threads:
                self._run_here()

    def _run_here(self) -> None:
        while not self._jobs.empty():
            self._do(self._jobs.get())

    def _run(self) -> None:
        while (job := self._next()) is not None:
            self._do(job)
            del job

    def _next(self) -> _Job[Any] | None:
        """Take a job, waiting for one if necessary.

        Return None if this thread is no longer needed.
        """
        while True:
            with suppress(Empty):
                return self._jobs.get_nowait()
            self.count(idle=1)
            try:
                job = self._jobs.get(timeout=_IDLE_TIME)
            except Empty:
                self.count(
                    idle=-1, threads=-1
                )  # counted before the last check, so that a later job does not rely on this thread
                if self._jobs.empty():
                    return None
                self.count(threads=1)
            else:
                self.count(idle=-1)
                return job

    def count(self, *, idle: int = 0, threads: int = 0, unfinished: int = 0) -> None:
        """Change the counts."""
        with self.mutex:
            self._idle += idle
            self._threads += threads
            self._unfinished += unfinished

    def _do(self, job: _Job[Any]) -> None:
        """Run a job, and then its successors."""
        following: _Job[Any] | None = job
        while following is not None:
            job = following
            self.timed(job.run)
            self.count(unfinished=-1)
            following = job.queue.advance() if job.queue is not None else None
            job.notify()


_pool = _Pool()
os.register_at_fork(after_in_child=_pool.reset)
