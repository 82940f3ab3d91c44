"""Only one prompt is shown at a time."""

from __future__ import annotations

import asyncio
import threading

import pytest

from midturn.terminal.prompter import TerminalLock


def test_waiters_enter_in_order_of_arrival() -> None:
    turnstile, passed = TerminalLock(), list[int]()

    async def one(number: int) -> None:
        async with turnstile.pass_through():
            await asyncio.sleep(0)
            passed.append(number)

    async def everybody() -> None:
        await asyncio.gather(*map(one, range(5)))

    asyncio.run(everybody())

    assert passed == [0, 1, 2, 3, 4]


def test_a_cancelled_waiter_does_not_block_others() -> None:
    turnstile = TerminalLock()

    async def hold(leave: asyncio.Event) -> None:
        async with turnstile.pass_through():
            await leave.wait()

    async def scene() -> str:
        leave = asyncio.Event()
        first = asyncio.create_task(hold(leave))
        second = asyncio.create_task(hold(leave))
        third = asyncio.create_task(hold(leave))
        await asyncio.sleep(0)
        second.cancel()
        await asyncio.sleep(0)
        leave.set()
        await first
        await third
        return "all through"

    assert asyncio.run(scene()) == "all through"


def test_loops_in_several_threads_share_the_turnstile() -> None:
    turnstile, inside, most = TerminalLock(), list[int](), list[int]()

    async def visit() -> None:
        for _ in range(20):
            async with turnstile.pass_through():
                inside.append(1)
                most.append(len(inside))
                await asyncio.sleep(0)
                inside.pop()

    threads = [threading.Thread(target=asyncio.run, args=(visit(),)) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert len(most) == 80
    assert max(most) == 1


def test_an_error_inside_releases_the_turnstile() -> None:
    turnstile = TerminalLock()

    async def scene() -> bool:
        with pytest.raises(RuntimeError):
            async with turnstile.pass_through():
                raise RuntimeError
        async with turnstile.pass_through():
            return True

    assert asyncio.run(scene())
