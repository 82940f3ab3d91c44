"""Lifetime of a call: a cancelled one runs its `finally` blocks, and asks nothing any more."""

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

# ----------------------------------------------------------------------------------------------------------------------
# Functions that are not async run in a thread of their own


T = TypeVar("T")


class _Raised(Struct, frozen=True):
    error: BaseException


async def in_thread(call: Callable[[], T]) -> T:
    """Call in a new thread and return what it returns. Cancelled, stop waiting for it: a thread cannot be stopped.

    Not the loop's pool: a function that waits for a person would hold a place in it for days, and at exit the program would wait for
    the person. The thread is a daemon for the same reason.
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
        except BaseException as error:  # noqa: BLE001 (it is raised again in its waiter)
            result = _Raised(error)
        with suppress(RuntimeError):  # the loop is closed, and with it every waiter
            loop.call_soon_threadsafe(finish, result)

    threading.Thread(target=work, name="midturn-tool", daemon=True).start()
    result = await done
    if isinstance(result, _Raised):
        raise result.error
    return result


# ----------------------------------------------------------------------------------------------------------------------
# The coroutine of `ctx.ask(…)`, which cannot be taken for an answer


T_co = TypeVar("T_co", covariant=True)


class FormPending(Coroutine[Any, Any, T_co]):
    """An answer that is not there yet: `await` it, or make a task of it.

    The question is asked when it is first awaited or scheduled. `bool()` of it raises: `if ctx.ask(…)` without `await` would always be
    a yes.
    """

    def __init__(self, asked: object, begin: Callable[[], Coroutine[Any, Any, T_co]], unasked: dict[FormPending[Any], None]) -> None:
        self._asked = asked
        self._begin = begin
        self._unasked = unasked
        self._coroutine: Coroutine[Any, Any, T_co] | None = None
        unasked[self] = None

    @property
    def asked(self) -> str:
        """The ids of what is asked, for messages."""
        match self._asked:
            case Question(id=id):
                return f"`{id}`"
            case Form(questions):
                return ", ".join(f"`{question.id}`" for question in questions)
            case _:
                return "something that is no question"

    def __await__(self) -> Generator[Any, Any, T_co]:
        return self._started().__await__()

    def send(self, value: Any, /) -> Any:
        """Run on, as a task does."""
        return self._started().send(value)

    def throw(self, error: type[BaseException] | BaseException, value: object = None, traceback: TracebackType | None = None, /) -> Any:
        """Raise inside, as a task does that is cancelled."""
        raised = error if isinstance(error, BaseException) else error() if value is None else error(value)
        return self._started().throw(raised.with_traceback(traceback) if traceback else raised)

    def close(self) -> None:
        """Give the question up: it is not asked."""
        self._unasked.pop(self, None)
        if self._coroutine:
            self._coroutine.close()

    def __bool__(self) -> NoReturn:
        raise TypeError(f"Whether {self.asked} was answered with yes is not known yet: write `await` in front of the ask.")

    def __repr__(self) -> str:
        return f"<an ask of {self.asked}, to be awaited>"

    def _started(self) -> Coroutine[Any, Any, T_co]:
        coroutine = self._coroutine
        if coroutine is None:
            self._unasked.pop(self, None)
            self._coroutine = coroutine = self._begin()
        return coroutine


class UnaskedError(RuntimeError):
    """A call has ended, and questions of it were never asked."""

    def __init__(self, asks: Iterable[FormPending[Any]]) -> None:
        asked = ", ".join(ask.asked for ask in asks)
        super().__init__(f"{asked} was never asked: its `ask` was not awaited. Write `await` in front of it.")


class CallLife:
    """The life of one execution on one event loop; `ended` is true once it was cancelled or has `returned`."""

    def __init__(self) -> None:
        self.ended = False
        self.returned = False
        self.unasked: dict[FormPending[Any], None] = {}
        """Questions that have not been awaited so far."""
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
            await asyncio.wait({task})  # who is cancelled meanwhile does not cancel it
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

    def pending(self, asked: object, begin: Callable[[], Coroutine[Any, Any, T]], instead: str) -> FormPending[T]:
        """Return an ask that is made when it is awaited, on this event loop.

        Raises:
            RuntimeError: This is a thread, or another loop, in which it cannot be awaited.
        """
        try:
            is_here = asyncio.get_running_loop() is self._loop
        except RuntimeError:
            is_here = False
        if not is_here:
            raise RuntimeError(f"No coroutine of this call runs here to await the answer. In a function that is not async use `{instead}`.")
        return FormPending(asked, begin, self.unasked)

    def check(self) -> None:
        """Refuse the ask of a call that has ended.

        Raises:
            RuntimeError: It has returned: its context was kept, and the asking task would never be cancelled.
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

    async def _stop(self, task: asyncio.Task[T]) -> None:
        """Cancel the work and wait until it is through; every further cancellation is passed on to it."""
        task.cancel()
        with suppress(BaseException):  # whatever it is: the call is over, and its result is dropped
            await task
