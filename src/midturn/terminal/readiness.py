"""Waiting for a descriptor inside an asyncio loop, also where the loop's selector refuses terminals."""

from __future__ import annotations

import asyncio
import os
import select


async def until_readable(fd: int) -> None:
    """Wait until `fd` can be read; cancelling stops the waiting at once."""
    loop = asyncio.get_running_loop()
    ready: asyncio.Future[None] = loop.create_future()
    try:
        loop.add_reader(fd, _resolve, ready)
    except (OSError, NotImplementedError):
        await _in_thread(fd)  # kqueue cannot poll every terminal, and a proactor has no readers
        return
    try:
        await ready
    finally:
        loop.remove_reader(fd)


async def readable_within(fd: int, seconds: float) -> bool:
    """Wait for input, but not longer than `seconds`; tell whether there is any."""
    try:
        async with asyncio.timeout(seconds):
            await until_readable(fd)
    except TimeoutError:
        return False
    return True


def readable_now(fd: int) -> bool:
    """Tell whether input is waiting."""
    return bool(select.select([fd], [], [], 0)[0])


async def _in_thread(fd: int) -> None:
    wake_up, waker = os.pipe()
    waiting = asyncio.get_running_loop().run_in_executor(None, _select, fd, wake_up)
    try:
        await asyncio.shield(waiting)
    finally:
        os.write(waker, b"\0")
        await asyncio.wait([waiting])
        os.close(wake_up)
        os.close(waker)


def _select(fd: int, wake_up: int) -> None:
    select.select([fd, wake_up], [], [])


def _resolve(ready: asyncio.Future[None]) -> None:
    if not ready.done():
        ready.set_result(None)
