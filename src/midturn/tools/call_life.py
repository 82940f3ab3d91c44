"""How long a call lives: a cancelled one runs its `finally` blocks, and asks nothing any more."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Coroutine
from concurrent.futures import CancelledError as WaitCancelled, Future
from contextlib import suppress
from typing import Any, TypeVar

from midturn.tools.pending_ask import PendingAsk

T = TypeVar("T")


class CallLife:
    """The life of one execution on one event loop; `ended` is true once it was cancelled or has `returned`."""

    def __init__(self) -> None:
        self.ended = False
        self.returned = False
        self.unasked: list[PendingAsk[Any]] = []
        """What was to be asked, and has not been awaited so far."""
        self._loop = asyncio.get_running_loop()
        self._thread = threading.get_ident()
        self._lock = threading.Lock()
        self._waits: set[Future[Any]] = set()

    async def run(self, work: Coroutine[Any, Any, T]) -> T:
        """Run the work to its end; cancelled, let it clean up first.

        The work has a task of its own, so that `ended` is set before its `finally` blocks run: nothing that they ask goes out.
        """
        task = self._loop.create_task(work)
        try:
            await self._through(task)
        except asyncio.CancelledError:
            self._end()
            await self._stop(task)
            raise
        self.returned = True
        self._end()
        try:
            return task.result()
        finally:
            del task  # it holds what it raised, which holds this frame

    def pending(self, asked: str, begin: Callable[[], Coroutine[Any, Any, T]], instead: str) -> PendingAsk[T]:
        """Return an ask that is made when it is awaited, on this event loop.

        Raises:
            RuntimeError: This is a thread, or another loop, in which nobody can await it.
        """
        if not self._is_here():
            raise RuntimeError(f"No coroutine of this call runs here to await the answer. In a function that is not async use `{instead}`.")
        ask = PendingAsk(asked, begin, self._begun)
        self.unasked.append(ask)
        return ask

    def _begun(self, ask: PendingAsk[Any]) -> None:
        self.unasked = [other for other in self.unasked if other is not ask]

    def _is_here(self) -> bool:
        try:
            return asyncio.get_running_loop() is self._loop
        except RuntimeError:
            return False

    def check(self) -> None:
        """Refuse the ask of a call that has ended.

        Raises:
            RuntimeError: It has returned: whoever asks now kept its context, and nobody would cancel them.
            asyncio.CancelledError: It was cancelled.
        """
        if self.returned:
            raise RuntimeError("This call is over: its function has returned. Ask before it does.")
        if self.ended:
            raise asyncio.CancelledError("The call has ended; it cannot ask any more.")

    def wait_in_thread(self, ask: Callable[[], Coroutine[Any, Any, T]]) -> T:
        """Run a coroutine on the loop and block this thread until it is done, or until the call ends.

        Raises:
            RuntimeError: This is the thread of the event loop itself, which would wait for ever.
            asyncio.CancelledError: The call has ended.
        """
        if threading.get_ident() == self._thread:
            raise RuntimeError("`ask_sync` is for functions that run in a thread; in an async function use `await ctx.ask(…)`.")
        with self._lock:  # `_end` takes it too: a wait is either refused here, or cancelled there
            self.check()
            wait = asyncio.run_coroutine_threadsafe(ask(), self._loop)
            self._waits.add(wait)
        try:
            return wait.result()
        except WaitCancelled:
            raise asyncio.CancelledError("The call has ended.") from None
        finally:
            with self._lock:
                self._waits.discard(wait)

    def _end(self) -> None:
        with self._lock:
            self.ended = True
            waits = tuple(self._waits)
        for wait in waits:
            wait.cancel()

    async def _through(self, task: asyncio.Task[Any]) -> None:
        """Return when a task is done. Who is cancelled meanwhile does not cancel it."""
        done = self._loop.create_future()

        def tell(_: object) -> None:
            if not done.done():
                done.set_result(None)

        task.add_done_callback(tell)
        try:
            await done
        finally:
            task.remove_done_callback(tell)

    async def _stop(self, task: asyncio.Task[T]) -> None:
        """Cancel the work and wait until it is through; every further cancellation is passed on to it."""
        task.cancel()
        with suppress(BaseException):  # whatever it is: the call is over, and its result is dropped
            await task
