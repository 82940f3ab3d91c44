"""A clock that a test sets forward moves whoever waits by it, in whatever order the two come."""

from __future__ import annotations

import asyncio

import pytest

from midturn.clock import SYSTEM
from support.clocks import HurriedClock

AN_HOUR = 3600


async def waited(clock: HurriedClock) -> float:
    """Wait an hour; return how much has passed."""
    began = clock.monotonic()
    await clock.sleep(AN_HOUR)
    return clock.monotonic() - began


def test_who_waits_already_has_waited_long_enough() -> None:
    async def scene() -> float:
        clock = HurriedClock(SYSTEM)
        waiting = asyncio.ensure_future(waited(clock))
        await asyncio.sleep(0)
        clock.hurry(AN_HOUR)
        return await waiting

    assert asyncio.run(scene()) >= AN_HOUR


def test_who_begins_to_wait_after_that_has_waited_long_enough() -> None:
    async def scene() -> float:
        clock = HurriedClock(SYSTEM)
        clock.hurry(AN_HOUR)
        return await waited(clock)

    assert asyncio.run(scene()) >= AN_HOUR


def test_it_is_set_forward_once() -> None:
    async def scene() -> None:
        clock = HurriedClock(SYSTEM)
        clock.hurry(AN_HOUR)
        await waited(clock)
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(waited(clock), 0.01)

    asyncio.run(scene())
