"""`AdjustableClock` releases its waiters, whether it is advanced before or after they start to
wait.
"""

from __future__ import annotations

import asyncio

import pytest

from midturn.clock import SYSTEM
from support.clocks import AdjustableClock

AN_HOUR = 3600


async def waited(clock: AdjustableClock) -> float:
    began = clock.monotonic()
    await clock.sleep(AN_HOUR)
    return clock.monotonic() - began


def test_who_waits_already_has_waited_long_enough() -> None:
    async def scene() -> float:
        clock = AdjustableClock(SYSTEM)
        waiting = asyncio.ensure_future(waited(clock))
        await asyncio.sleep(0)
        clock.advance(AN_HOUR)
        return await waiting

    assert asyncio.run(scene()) >= AN_HOUR


def test_who_begins_to_wait_after_that_has_waited_long_enough() -> None:
    async def scene() -> float:
        clock = AdjustableClock(SYSTEM)
        clock.advance(AN_HOUR)
        return await waited(clock)

    assert asyncio.run(scene()) >= AN_HOUR


def test_it_is_set_forward_once() -> None:
    async def scene() -> None:
        clock = AdjustableClock(SYSTEM)
        clock.advance(AN_HOUR)
        await waited(clock)
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(waited(clock), 0.01)

    asyncio.run(scene())
