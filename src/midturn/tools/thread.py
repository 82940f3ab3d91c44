"""Functions that are not async run in a thread of their own."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from contextlib import suppress
from contextvars import copy_context
from typing import TypeVar

from msgspec import Struct

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
        except BaseException as error:  # noqa: BLE001 (it is raised again, where somebody waits for it)
            result = _Raised(error)
        with suppress(RuntimeError):  # the loop is closed: nobody waits any more
            loop.call_soon_threadsafe(finish, result)

    threading.Thread(target=work, name="midturn-tool", daemon=True).start()
    result = await done
    if isinstance(result, _Raised):
        raise result.error
    return result
