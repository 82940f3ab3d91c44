"""What is being recorded is recorded, whoever is cancelled meanwhile."""

from __future__ import annotations

import asyncio

import pytest

from midturn.runtime.loop_thread import uncut


def test_who_is_cancelled_while_something_is_recorded_is_so_when_it_is_done() -> None:
    async def once() -> None:
        begun, may_end, recorded = asyncio.Event(), asyncio.Event(), list[str]()

        async def record() -> None:
            begun.set()
            await may_end.wait()
            recorded.append("it")

        recording = asyncio.create_task(uncut(record()))
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


def test_what_goes_wrong_is_raised() -> None:
    async def fail() -> None:
        raise ValueError("no")

    with pytest.raises(ValueError, match="no"):
        asyncio.run(uncut(fail()))
