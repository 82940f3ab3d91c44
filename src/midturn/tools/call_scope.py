"""The lifetime of a call. A cancelled call runs its `finally` blocks, but cannot ask any more
questions.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Coroutine, Generator, Iterable
from concurrent.futures import CancelledError as WaitCancelled, Future
from contextlib import suppress
from contextvars import copy_context
from types import TracebackType
from typing import Any, NoReturn, TypeVar

from msgspec import Struct

from midturn.question.form import Form
from midturn.question.question import Question

# --------------------------------------------------------------------------------------------------
# Functions that are not async run in their own thread


T = TypeVar("T")


class _Raised(Struct, frozen=True):
    error: BaseException


async def in_thread(call: Callable[[], T]) -> T:
    """Call a function in a new thread and return its result. Cancellation ends the wait, but not
    the thread.

    The event loop's thread pool is not used: a function that waits for a person could occupy a
    thread for days, and the program could not exit. The thread is a daemon for the same reason.
    """
    loop = asyncio.get_running_loop()
    done: asyncio.Future[T | _Raised] = loop.create_future()
    context = copy_context()

    def finish(result: T | _Raised) -> None:
        if not done.done():
            done.set_result(result)

    def work() -> None:
        try:
            result: T | _Raised = context.run(call)
        except BaseException as error:  # noqa: BLE001 (raised again in the awaiting task)
            result = _Raised(error)
        with suppress(RuntimeError):  # the loop is closed, so no code waits for the result
            loop.call_soon_threadsafe(finish, result)

    threading.Thread(target=work, name="midturn-tool", daemon=True).start()
    result = await done
    if isinstance(result, _Raised):
        raise result.error
    return result


# --------------------------------------------------------------------------------------------------
# The coroutine that `ctx.ask(…)` returns. It cannot be mistaken for an answer


T_co = TypeVar("T_co", covariant=True)


class PendingAnswer(Coroutine[Any, Any, T_co]):
    """A coroutine that returns an answer. `await` it, or create a task from it.

    The question is asked when the coroutine is first awaited or scheduled. `bool()` raises,
    because `if ctx.ask(…)` without `await` would always be true.
    """

    def __init__(
        self,
        asked: object,
        begin: Callable[[], Coroutine[Any, Any, T_co]],
        unasked: dict[PendingAnswer[Any], None],
    ) -> None:
        self._asked = asked
        self._begin = begin
        self._unasked = unasked
        self._coroutine: Coroutine[Any, Any, T_co] | None = None
        unasked[self] = None

    @property
    def asked(self) -> str:
        """The ids of the questions, for messages."""
        match self._asked:
            case Question(id=id):
                return f"`{id}`"
            case Form(questions):
                return ", ".join(f"`{question.id}`" for question in questions)
            case _:
                return "an object that is not a question"

    def __await__(self) -> Generator[Any, Any, T_co]:
        return self._started().__await__()

    def send(self, value: Any, /) -> Any:
        """Resume the coroutine, as a task does."""
        return self._started().send(value)

    def throw(
        self,
        error: type[BaseException] | BaseException,
        value: object = None,
        traceback: TracebackType | None = None,
        /,
    ) -> Any:
        """Raise in the coroutine, as a cancelled task does."""
        raised = (
            error
            if isinstance(error, BaseException)
            else error()
            if value is None
            else error(value)
        )
        return self._started().throw(raised.with_traceback(traceback) if traceback else raised)

    def close(self) -> None:
        """Close the coroutine. If its question was not asked yet, it will not be asked."""
        self._unasked.pop(self, None)
        if self._coroutine:
            self._coroutine.close()

    def __bool__(self) -> NoReturn:
        raise TypeError(
            f"{self.asked} has no answer yet: its `ask` was not awaited. Write `await` before it."
        )

    def __repr__(self) -> str:
        return f"<coroutine asking {self.asked}, not awaited>"

    def _started(self) -> Coroutine[Any, Any, T_co]:
        coroutine = self._coroutine
        if coroutine is None:
            self._unasked.pop(self, None)
            self._coroutine = coroutine = self._begin()
        return coroutine


class UnaskedError(RuntimeError):
    """A call ended with questions that were never asked."""

    def __init__(self, asks: Iterable[PendingAnswer[Any]]) -> None:
        asked = ", ".join(ask.asked for ask in asks)
        super().__init__(
            f"{asked} was never asked: its `ask` was not awaited. Write `await` before it."
        )


class CallScope:
    """The lifetime of one execution on one event loop. `ended` is true after the execution returned
    (`returned`) or was cancelled.
    """

    def __init__(self) -> None:
        self.ended = False
        self.returned = False
        self.unasked: dict[PendingAnswer[Any], None] = {}
        """Question coroutines that were not awaited yet."""
        self._loop = asyncio.get_running_loop()
        self._thread = threading.get_ident()
        self._lock = threading.Lock()
        self._waits: set[Future[Any]] = set()

    async def run(self, work: Coroutine[Any, Any, T]) -> T:
        """Run the work to completion. If this coroutine is cancelled, wait until the work has
        cleaned up.

        The work runs in its own task, so that `ended` is set before its `finally` blocks run. These
        blocks cannot ask questions any more.
        """
        task = self._loop.create_task(work)
        try:
            await asyncio.wait({task})  # cancelling this wait does not cancel the task
        except asyncio.CancelledError:
            self._end()
            await self._stop(task)
            raise
        self.returned = True
        self._end()
        try:
            return task.result()
        finally:
            del task  # the task refers to its exception, and the exception refers to this frame

    def pending(
        self, subject: object, begin: Callable[[], Coroutine[Any, Any, T]], instead: str
    ) -> PendingAnswer[T]:
        """Return a coroutine that asks when it is awaited on this event loop.

        Raises:
            RuntimeError: Called in a thread or another event loop, where the coroutine cannot be
                awaited.
        """
        try:
            is_here = asyncio.get_running_loop() is self._loop
        except RuntimeError:
            is_here = False
        if not is_here:
            raise RuntimeError(
                "An answer can only be awaited in the event loop of the call. In a function that"
                f" is not async, use `{instead}`."
            )
        return PendingAnswer(subject, begin, self.unasked)

    def check(self) -> None:
        """Raise an error if the call has ended.

        Raises:
            RuntimeError: The function returned, but its context is still in use. A question asked
                now would never be cancelled.
            asyncio.CancelledError: The call was cancelled.
        """
        if self.returned:
            raise RuntimeError(
                "This call is over, because its function has returned. Ask before it returns."
            )
        if self.ended:
            raise asyncio.CancelledError(
                "The call was cancelled and cannot ask any more questions."
            )

    def wait_in_thread(self, ask: Callable[[], Coroutine[Any, Any, T]]) -> T:
        """Run a coroutine on the event loop and block this thread until it is done or the call
        ends.

        Raises:
            RuntimeError: Called in the thread of the event loop, which would deadlock.
            asyncio.CancelledError: The call has ended.
        """
        if threading.get_ident() == self._thread:
            raise RuntimeError(
                "`ask_sync` is for functions that run in a thread; in an async function use `await"
                " ctx.ask(…)`."
            )
        # `_end` takes the same lock, so a wait is either refused here or cancelled there
        with self._lock:
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

    async def _stop(self, task: asyncio.Task[T]) -> None:
        """Cancel the work and wait until it ends. Further cancellations also reach the work."""
        task.cancel()
        with suppress(BaseException):  # the call is over, so its result is ignored
            await task
