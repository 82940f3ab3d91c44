"""A write is completed even if the caller is cancelled."""

from __future__ import annotations

import asyncio

import pytest

from midturn.runtime.loop_thread import shielded


def test_a_cancellation_during_a_write_takes_effect_after_it() -> None:
    async def once() -> None:
        begun, may_end, recorded = asyncio.Event(), asyncio.Event(), list[str]()

        async def record() -> None:
            begun.set()
            await may_end.wait()
            recorded.append("it")

        recording = asyncio.create_task(shielded(record()))
        await begun.wait()
        recording.cancel()
        await asyncio.sleep(0)
        recording.cancel()
        await asyncio.sleep(0)
        assert not recording.done()
        may_end.set()
        with pytest.raises(asyncio.CancelledError):
            await recording
        assert recorded == ["it"]

    asyncio.run(once())


def test_errors_of_the_write_are_raised() -> None:
    async def fail() -> None:
        raise ValueError("no")

    with pytest.raises(ValueError, match="no"):
        asyncio.run(shielded(fail()))
