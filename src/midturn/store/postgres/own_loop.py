"""An event loop in a thread of its own, in which one process speaks to a database, whatever loops its program runs.

A program's loop may come and go (`asyncio.run` for each request, one a thread), be cancelled in the middle of a statement, or not be there
at all. Connections outlive all that. A cancelled caller leaves its statement to end by itself: what the database then says is not lost
between the driver and us.
"""

from __future__ import annotations

import asyncio
import atexit
import threading
from collections.abc import Callable, Coroutine
from concurrent.futures import Future
from typing import Any, TypeVar

T = TypeVar("T")
_PATIENCE = 2.0
"""Seconds that a process waits for its sessions when it ends; the server ends them otherwise."""


class OwnLoop:
    """Begins with its first use, and ends with the process."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._starting = threading.Lock()
        self._loop: asyncio.AbstractEventLoop | None = None

    async def run(self, work: Coroutine[Any, Any, T], *, unclaimed: Callable[[T], Coroutine[Any, Any, None]] | None = None) -> T:
        """Run `work` over there, and return its result here.

        Args:
            work: What is to be done. It goes on to its end even if the caller is cancelled.
            unclaimed: What becomes of its result if nobody waits for that any more.
        """
        running = asyncio.run_coroutine_threadsafe(work, self._running())
        try:
            return await asyncio.shield(asyncio.wrap_future(running))
        except asyncio.CancelledError:
            running.add_done_callback(lambda done: self._leave(done, unclaimed))
            raise

    def begin(self, work: Coroutine[Any, Any, None]) -> None:
        """Begin `work` over there, for nobody to wait for."""
        asyncio.run_coroutine_threadsafe(work, self._running())

    def _leave(self, done: Future[T], unclaimed: Callable[[T], Coroutine[Any, Any, None]] | None) -> None:
        if done.cancelled() or done.exception() is not None or unclaimed is None:
            return
        self.begin(unclaimed(done.result()))

    def _running(self) -> asyncio.AbstractEventLoop:
        with self._starting:
            if self._loop is None:
                self._loop = asyncio.new_event_loop()
                thread = threading.Thread(target=_run, args=[self._loop], name=self._name, daemon=True)
                thread.start()
                atexit.register(_end, self._loop, thread)
            return self._loop


def _run(loop: asyncio.AbstractEventLoop) -> None:
    """Run the loop until it is stopped; then end what still runs in it, in order."""
    asyncio.set_event_loop(loop)
    loop.run_forever()
    tasks = asyncio.all_tasks(loop)
    for task in tasks:
        task.cancel()
    loop.run_until_complete(asyncio.gather(*tasks, return_exceptions=True))
    loop.close()


def _end(loop: asyncio.AbstractEventLoop, thread: threading.Thread) -> None:
    loop.call_soon_threadsafe(loop.stop)
    thread.join(_PATIENCE)
