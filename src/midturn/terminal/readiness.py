"""Waiting for a descriptor inside an asyncio loop, also where the loop's selector refuses terminals."""

from __future__ import annotations

import asyncio
import os
import select
import threading
from collections.abc import Callable, Generator
from contextlib import contextmanager


@contextmanager
def watched(fd: int, readable: Callable[[], None]) -> Generator[None]:
    """Call `readable` in the running loop whenever `fd` can be read, while the block runs."""
    loop = asyncio.get_running_loop()
    try:
        loop.add_reader(fd, readable)
    except (OSError, NotImplementedError):  # kqueue cannot poll every terminal, and a proactor has no readers
        with _watched_by_thread(fd, readable, loop):
            yield
        return
    try:
        yield
    finally:
        loop.remove_reader(fd)


async def until_readable(fd: int) -> None:
    """Wait until `fd` can be read; cancelling stops the waiting at once."""
    ready: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    def resolve() -> None:
        if not ready.done():
            ready.set_result(None)

    with watched(fd, resolve):
        await ready


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


@contextmanager
def _watched_by_thread(fd: int, readable: Callable[[], None], loop: asyncio.AbstractEventLoop) -> Generator[None]:
    wake_up, waker = os.pipe()
    taken = threading.Semaphore(0)

    def call() -> None:
        try:
            readable()
        finally:
            taken.release()

    def watch() -> None:
        while wake_up not in select.select([fd, wake_up], [], [])[0]:
            loop.call_soon_threadsafe(call)
            taken.acquire()  # until it was read, it stays readable

    thread = threading.Thread(target=watch, name="midturn-terminal", daemon=True)
    thread.start()
    try:
        yield
    finally:
        os.write(waker, b"\0")
        taken.release()
        thread.join()
        os.close(wake_up)
        os.close(waker)
