"""Waiting for a condition that another task, thread or process makes true."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable


async def until(arrived: Callable[[], object], *, seconds: float = 120) -> None:
    """Return as soon as `arrived()` is true; fail after `seconds`."""
    async with asyncio.timeout(seconds):
        while not arrived():  # noqa: ASYNC110  there is no event to wait for
            await asyncio.sleep(0.005)


def wait_until(arrived: Callable[[], object], *, seconds: float = 120) -> None:
    """Return as soon as `arrived()` is true; fail after `seconds`, which only guards against a
    hang.
    """
    deadline = time.monotonic() + seconds
    while not arrived():
        assert time.monotonic() < deadline, f"still not true after {seconds:g} s"
        time.sleep(0.05)
