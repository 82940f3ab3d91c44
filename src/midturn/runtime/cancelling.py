"""Whose cancellation it is: ours, which is passed on, or somebody's code cancelled itself, which is a failure like any other."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any


def is_cancelled() -> bool:
    """Whether the present task was asked to stop; otherwise what it waits for has cancelled itself, and nobody would ever hear of it."""
    task = asyncio.current_task()
    return task is None or task.cancelling() > 0


async def uncut(work: Coroutine[Any, Any, None]) -> None:
    """Do something to its end; who is cancelled meanwhile is so when it is done.

    A statement that is under way is not taken back by cancelling whoever waits for it: what comes next has to know what became of it.
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
        task.exception()  # it is nobody's any more
    if cancelled is not None:
        raise cancelled
