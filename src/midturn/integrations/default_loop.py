"""The event loop of a thread, for programs without asyncio."""

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
    """Run work to its end in the default event loop of this thread, which stays open as long as the thread runs.

    The synchronous functions of the frameworks use this loop, too: clients and locks that a first run has made are bound to it.

    Args:
        work: The work. What interrupts the wait for it, such as Ctrl-C, cancels it.
        name: The name of the function that blocks, for the error.
        instead: What to write instead where an event loop is running.

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
    """Closes an event loop when the thread that it belongs to has ended."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop

    def __del__(self) -> None:
        self._loop.close()


_OF_THREAD = threading.local()


def _default_loop() -> asyncio.AbstractEventLoop:
    """Return the default event loop of this thread; made here if there is none, it is closed with the thread."""
    loop: asyncio.AbstractEventLoop | None = None
    with warnings.catch_warnings(), suppress(RuntimeError):
        warnings.simplefilter("ignore", DeprecationWarning)  # some versions of Python warn about the first use in the main thread
        loop = asyncio.get_event_loop()
    if loop is None or loop.is_closed():
        loop = asyncio.new_event_loop()
        asyncio.set_event_loop(loop)
        _OF_THREAD.closer = _Closer(loop)
    return loop
