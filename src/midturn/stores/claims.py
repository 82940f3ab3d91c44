"""Named locks for operations that only one process may run at a time, and the pauses before a
worker claims a failed turn again.

The kernel releases the lock of a process that dies.
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
from midturn.stores.folder import Folder, refusal, reporting_os_errors
from midturn.stores.open_index import index_in

T = TypeVar("T")
PATIENCE: Final = 10.0
"""Maximum seconds to wait for a named lock: enough time for its holder to scan a whole store. A
suspended holder blocks other processes no longer than this.
"""
_RETRY_DELAY = 0.01  # seconds between two attempts to take a named lock
# number of lock files. A name always uses the same file, and several names share one file
_LOCKS = 64


async def patiently(take: Callable[[], Awaitable[T | None]]) -> T:
    """Call `take` until it returns a lock. `take` returns None while another process has the lock.

    Raises:
        Busy: Another process kept the lock for `PATIENCE` seconds.
    """
    until = time.monotonic() + PATIENCE
    while (taken := await take()) is None:
        if time.monotonic() > until:
            raise Busy(
                "Only one process at a time may do this, and another process has been doing it for"
                f" {PATIENCE:.0f} s. Check that it is not stuck, or end it; then try again."
            )
        await pause(_RETRY_DELAY)
    return taken


@asynccontextmanager
async def alone_among_files(conversations: Path, name: str) -> AsyncGenerator[None]:
    """Run the block under the lock `name`, which is a lock file in `conversations`.

    Raises:
        Busy: Another process kept the lock for `PATIENCE` seconds.
        StoreError: The lock cannot be created.
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


# --------------------------------------------------------------------------------------------------
# Pauses before a worker claims a failed turn again. Each claim without a new event doubles the
# pause. The number of claims is stored in the conversation's directory, so that all workers wait
# longer before they retry a turn that kills its worker.


NAME = ".tries"
FIRST = 0.25
"""Minimum seconds between the first and the second claim of a turn. Each later pause is twice as
long.
"""
LONGEST = 300.0


class Tries(Struct, frozen=True):
    """Failed attempts by workers to continue a turn.

    Args:
        after: ID of the turn's last event at these attempts. A new event resets the count.
        count: Number of times that workers claimed the turn since this event.
        at: Time of the last claim, in seconds since the Unix epoch.
    """

    after: str = ""
    count: int = 0
    at: float = 0.0

    def allow(self, after: str, now: float) -> bool:
        """Return whether the pause is over. A new event, or a clock that was set back, also ends
        the pause.
        """
        return after != self.after or not self.at <= now < self.at + min(
            LONGEST, pause_after(self.count) * _spread(after)
        )

    def once_more(self, after: str, now: float) -> Tries:
        """Return the attempts including a new one."""
        return Tries(after, self.count + 1 if after == self.after else 1, now)


def pause_after(tries: int) -> float:
    """Return the minimum seconds before the next claim: 0.25, doubled with each claim, at most five
    minutes.
    """
    return min(LONGEST, FIRST * 2.0 ** min(tries - 1, 20)) if tries else 0.0


def _spread(event_id: str) -> float:
    """Return a factor from 1 to 2 for a turn's pauses, so that turns that failed together are not
    claimed at the same time again.
    """
    return 1.0 + zlib.crc32(event_id.encode(errors="surrogatepass")) / (1 << 32)


def may_try(folder: Folder, last_event: str) -> bool:
    """Return whether the pause of a ready conversation is over, so that a worker may continue it.

    If so, the claim is counted before the turn continues, because the turn may kill the process.
    """
    now = time.time()
    tries = _read(folder)
    if not tries.allow(last_event, now):
        return False
    with reporting_os_errors("write", folder, NAME):
        with suppress(FileNotFoundError):
            folder.remove(NAME)
        folder.write_unsynced(NAME, msgspec.json.encode(tries.once_more(last_event, now)))
    return True


def _read(folder: Folder) -> Tries:
    try:
        return msgspec.json.decode(folder.read(NAME), type=Tries)
    except (
        FileNotFoundError,
        msgspec.DecodeError,
    ):  # the turn was never claimed, or a power cut left an incomplete file
        return Tries()
