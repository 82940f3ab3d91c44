"""An event loop in a thread of its own, for programs that have none: what must go on between two calls goes on there."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator, Coroutine, Generator, Iterator
from contextlib import AbstractAsyncContextManager, contextmanager
from typing import Any, TypeVar

T = TypeVar("T")


class LoopThread:
    """A running event loop; `run` hands it work from any other thread, and waits."""

    def __init__(self) -> None:
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="midturn", daemon=True)
        self._thread.start()

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        """Wait for the work; what interrupts the wait, such as Ctrl-C, cancels it."""
        waited = asyncio.run_coroutine_threadsafe(work, self._loop)
        try:
            return waited.result()
        except BaseException:
            waited.cancel()
            raise

    def close(self) -> None:
        """Stop the loop, and wait for its thread."""
        self.run(self._loop.shutdown_asyncgens())
        self.run(self._loop.shutdown_default_executor())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    @contextmanager
    def entered(self, manager: AbstractAsyncContextManager[T]) -> Generator[T]:
        """Hold an asynchronous context manager as a plain one."""
        value = self.run(_entered(manager))
        try:
            yield value
        except BaseException as error:
            if not self.run(_left(manager, error)):
                raise
        else:
            self.run(_left(manager, None))

    def iterated(self, items: AsyncIterator[T]) -> Iterator[T]:
        """Yield what an asynchronous iterator yields."""

        async def following() -> tuple[T, ...]:
            async for item in items:
                return (item,)
            return ()

        while found := self.run(following()):
            yield found[0]


async def _entered(manager: AbstractAsyncContextManager[T]) -> T:
    return await manager.__aenter__()


async def _left(manager: AbstractAsyncContextManager[Any], error: BaseException | None) -> bool | None:
    return await manager.__aexit__(type(error) if error else None, error, error.__traceback__ if error else None)


@contextmanager
def loop_thread() -> Generator[LoopThread]:
    """Have a loop for the length of a block."""
    thread = LoopThread()
    try:
        yield thread
    finally:
        thread.close()


# ----------------------------------------------------------------------------------------------------------------------
# Origin of a cancellation: ours, which is passed on, or the code's own, which is a failure like any other


def is_cancelled() -> bool:
    """Whether the present task was asked to stop; otherwise what it waits for has cancelled itself, and would be lost in silence."""
    task = asyncio.current_task()
    return task is None or task.cancelling() > 0


async def uncut(work: Coroutine[Any, Any, None]) -> None:
    """Do something to its end; who is cancelled meanwhile is so when it is done.

    A statement that is under way is not taken back by cancelling its waiter: what comes next has to know what became of it.
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
        task.exception()  # its waiter is gone
    if cancelled is not None:
        raise cancelled
