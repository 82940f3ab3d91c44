"""The default event loop of a thread, for programs without asyncio."""

from __future__ import annotations

import asyncio
import threading
import warnings
from collections.abc import Coroutine
from contextlib import suppress
from typing import Any, TypeVar

from midturn.stores.sync_forms import refuse_inside_a_loop

T = TypeVar("T")


def run_in_default_loop(work: Coroutine[Any, Any, T], name: str, instead: str) -> T:
    """Run a coroutine in the default event loop of this thread. The loop stays open until the
    thread ends.

    The synchronous functions of the frameworks use the same loop. Clients and locks that the first
    run creates are bound to this loop, so later runs must also use it.

    Args:
        work: The coroutine. It is cancelled if the wait is interrupted, for example by Ctrl-C.
        name: Name of the blocking function, for the error message.
        instead: Alternative that the error message names if an event loop is running.

    Raises:
        RuntimeError: An event loop is running in this thread.
    """
    try:
        refuse_inside_a_loop(name, instead)
    except RuntimeError:
        work.close()
        raise
    loop = _default_loop()
    task = loop.create_task(work)
    try:
        return loop.run_until_complete(task)
    except BaseException:
        if not task.done():
            task.cancel()
            loop.run_until_complete(asyncio.wait({task}))
        raise


class _Closer:
    """Closes an event loop when its thread has ended."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop

    def __del__(self) -> None:
        self._loop.close()


_THREAD_LOCAL = threading.local()


def _default_loop() -> asyncio.AbstractEventLoop:
    """Return the default event loop of this thread. If there is none, create one that is closed
    when the thread ends.
    """
    loop: asyncio.AbstractEventLoop | None = None
    with warnings.catch_warnings(), suppress(RuntimeError):
        warnings.simplefilter(
            "ignore", DeprecationWarning
        )  # raised by some Python versions on first use in the main thread
        loop = asyncio.get_event_loop()
    if loop is None or loop.is_closed():
        loop = asyncio.new_event_loop()
        asyncio.set_event_loop(loop)
        _THREAD_LOCAL.closer = _Closer(loop)
    return loop
