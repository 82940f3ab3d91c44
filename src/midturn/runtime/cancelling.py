"""Whose cancellation it is: ours, which is passed on, or somebody's code cancelled itself, which is a failure like any other."""

from __future__ import annotations

import asyncio


def is_cancelled() -> bool:
    """Whether the present task was asked to stop; otherwise what it waits for has cancelled itself, and nobody would ever hear of it."""
    task = asyncio.current_task()
    return task is None or task.cancelling() > 0
