"""Work that is done by one process at a time, by the name of what it is about. A process that dies in it is out of it."""

from __future__ import annotations

import fcntl
import os
import time
import zlib
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Final, TypeVar

from midturn.clock import pause
from midturn.errors import Busy
from midturn.store.folder import Folder, refusal
from midturn.store.open_index import index_in

T = TypeVar("T")
PATIENCE: Final = 10.0
"""Seconds that somebody else is waited for: long enough for a look at a whole store, and no process that was stopped is waited for."""
_STEP = 0.01  # seconds between two tries
_LOCKS = 64  # files, so that a process that was stopped holds up few others; a name has always the same one


async def patiently(take: Callable[[], Awaitable[T | None]]) -> T:
    """Try to take a place until it is free; `take` returns None where somebody else has it.

    Raises:
        Busy: Somebody else does not get on with it.
    """
    until = time.monotonic() + PATIENCE
    while (taken := await take()) is None:
        if time.monotonic() > until:
            raise Busy(f"Another process has been at the same for {PATIENCE:.0f} s. See that it goes on, or end it; then try again.")
        await pause(_STEP)
    return taken


@asynccontextmanager
async def alone_among_files(conversations: Path, name: str) -> AsyncGenerator[None]:
    """Let no other block run for this name. The kernel lets go of the lock of whoever dies.

    Raises:
        Busy: See `patiently`.
        StoreError: There can be no lock.
    """
    lock = f".alone-{zlib.crc32(name.encode('utf-8', 'surrogatepass')) % _LOCKS:02x}"

    async def take() -> int | None:
        return _taken(conversations, lock)

    fd = await patiently(take)
    try:
        yield
    finally:
        os.close(fd)


def _taken(conversations: Path, lock: str) -> int | None:
    with Folder.at(conversations) as folder:
        try:
            with index_in(folder) as index:
                fd = index.open(lock, os.O_RDWR | os.O_CREAT)
        except OSError as error:
            raise refusal("lock", conversations / lock, error) from error
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(fd)
        return None
    except OSError as error:
        os.close(fd)
        raise refusal("lock", conversations / lock, error) from error
    return fd
