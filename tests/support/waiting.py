"""Waiting in an event loop for something that another task does."""

from __future__ import annotations

import asyncio
from collections.abc import Callable


async def until(arrived: Callable[[], object], *, seconds: float = 20) -> None:
    """Return as soon as `arrived()` is true; fail when it never is."""
    async with asyncio.timeout(seconds):
        while not arrived():  # noqa: ASYNC110  what is waited for has no event to wait on
            await asyncio.sleep(0.005)
