"""Runs an event loop in a separate thread, for synchronous programs. Also contains helpers for
cancellation.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator, Coroutine, Generator, Iterator
from contextlib import AbstractAsyncContextManager, contextmanager
from typing import Any, TypeVar

T = TypeVar("T")


class LoopThread:
    """An event loop that runs in its own thread."""

    def __init__(self) -> None:
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="midturn", daemon=True)
        self._thread.start()

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        """Run a coroutine from another thread and wait for it. An exception in the waiting
        thread, such as Ctrl-C, cancels the coroutine.
        """
        waited = asyncio.run_coroutine_threadsafe(work, self._loop)
        try:
            return waited.result()
        except BaseException:
            waited.cancel()
            raise

    def close(self) -> None:
        """Stop the loop and wait for its thread."""
        self.run(self._loop.shutdown_asyncgens())
        self.run(self._loop.shutdown_default_executor())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    @contextmanager
    def entered(self, manager: AbstractAsyncContextManager[T]) -> Generator[T]:
        """Use an asynchronous context manager as a synchronous one."""
        value = self.run(_entered(manager))
        try:
            yield value
        except BaseException as error:
            if not self.run(_left(manager, error)):
                raise
        else:
            self.run(_left(manager, None))

    def iterated(self, items: AsyncIterator[T]) -> Iterator[T]:
        """Iterate over an asynchronous iterator from a synchronous program."""

        async def following() -> tuple[T, ...]:
            async for item in items:
                return (item,)
            return ()

        while found := self.run(following()):
            yield found[0]


async def _entered(manager: AbstractAsyncContextManager[T]) -> T:
    return await manager.__aenter__()


async def _left(
    manager: AbstractAsyncContextManager[Any], error: BaseException | None
) -> bool | None:
    return await manager.__aexit__(
        type(error) if error else None, error, error.__traceback__ if error else None
    )


@contextmanager
def loop_thread() -> Generator[LoopThread]:
    """Run an event loop for the duration of a `with` block."""
    thread = LoopThread()
    try:
        yield thread
    finally:
        thread.close()


# --------------------------------------------------------------------------------------------------
# Cancellation by the caller, or by the awaited code itself, which counts as a failure


def is_cancelled() -> bool:
    """Return whether the current task was cancelled from outside. If not, the awaited code
    cancelled itself, which must be reported.
    """
    task = asyncio.current_task()
    return task is None or task.cancelling() > 0


async def shielded(work: Coroutine[Any, Any, None]) -> None:
    """Run a coroutine to completion. If the caller is cancelled in the meantime, the cancellation
    is raised afterwards.

    Cancelling the waiter of a database statement does not undo the statement, so the caller must
    wait for its result first.
    """
    task = asyncio.ensure_future(work)
    cancelled: asyncio.CancelledError | None = None
    while not task.done():
        try:
            await asyncio.wait({task})
        except asyncio.CancelledError as error:
            cancelled = error
    if cancelled is None:
        task.result()
    elif not task.cancelled():
        task.exception()  # marks the exception as retrieved
    if cancelled is not None:
        raise cancelled
