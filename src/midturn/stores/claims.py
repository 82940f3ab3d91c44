"""Claims: work that one process does at a time, by the name of what it is about, and pauses before a failed turn is claimed again.

A process that dies in such work is out of it.
"""

from __future__ import annotations

import fcntl
import os
import time
import zlib
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Final, TypeVar

import msgspec
from msgspec import Struct

from midturn.clock import pause
from midturn.errors import Busy
from midturn.stores.folder import Folder, refusal, telling
from midturn.stores.open_index import index_in

T = TypeVar("T")
PATIENCE: Final = 10.0
"""Seconds to wait for another process: long enough for a look at a whole store, and no process that was stopped is waited for."""
_STEP = 0.01  # seconds between two tries
_LOCKS = 64  # files, so that a process that was stopped holds up few others; a name has always the same one


async def patiently(take: Callable[[], Awaitable[T | None]]) -> T:
    """Try to take a place until it is free; `take` returns None where another process has it.

    Raises:
        Busy: The other process does not get on with it.
    """
    until = time.monotonic() + PATIENCE
    while (taken := await take()) is None:
        if time.monotonic() > until:
            raise Busy(f"Another process has been at the same for {PATIENCE:.0f} s. See that it goes on, or end it; then try again.")
        await pause(_STEP)
    return taken


@asynccontextmanager
async def alone_among_files(conversations: Path, name: str) -> AsyncGenerator[None]:
    """Let no other block run for this name. The kernel releases the lock of a process that dies.

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


# ----------------------------------------------------------------------------------------------------------------------
# Pauses before a failed turn is tried again: doubled each time, reset by progress
# Kept beside the conversation, so that a turn that kills its worker is tried ever more rarely, whichever worker comes next.


NAME = ".tries"
FIRST = 0.25
"""Seconds before the second try."""
LONGEST = 300.0


class Tries(Struct, frozen=True):
    """Claims of the turn since its last event (`after`), and the time of the last one (seconds since the Unix epoch)."""

    after: str = ""
    count: int = 0
    at: float = 0.0

    def allow(self, after: str, now: float) -> bool:
        """Say whether the pause is over; where something was recorded since, there is none. A clock that was set back ends it, too."""
        return after != self.after or not self.at <= now < self.at + min(LONGEST, pause_after(self.count) * _spread(after))

    def once_more(self, after: str, now: float) -> Tries:
        """Return what is so once it is tried again."""
        return Tries(after, self.count + 1 if after == self.after else 1, now)


def pause_after(tries: int) -> float:
    """Return the least seconds between a try and the next one: a quarter of a second, doubled with each, five minutes at most."""
    return min(LONGEST, FIRST * 2.0 ** min(tries - 1, 20)) if tries else 0.0


def _spread(event_id: str) -> float:
    """Return by how much a turn's pauses are longer, once to twice: what died together is not tried together again."""
    return 1.0 + zlib.crc32(event_id.encode(errors="surrogatepass")) / (1 << 32)


def may_try(folder: Folder, last_event: str) -> bool:
    """Say whether a conversation that is due may be tried now; if so, it is noted, before anything can go wrong."""
    now = time.time()
    tries = _read(folder)
    if not tries.allow(last_event, now):
        return False
    with telling("write", folder, NAME):
        with suppress(FileNotFoundError):
            folder.remove(NAME)
        folder.write_unsynced(NAME, msgspec.json.encode(tries.once_more(last_event, now)))
    return True


def _read(folder: Folder) -> Tries:
    try:
        return msgspec.json.decode(folder.read(NAME), type=Tries)
    except (FileNotFoundError, msgspec.DecodeError):  # it was never tried, or a power cut left half of a note
        return Tries()
