"""When a worker tries a turn again that got nowhere: after a pause that doubles, and progress resets it.

Kept beside the conversation, so that a turn that kills its worker is tried ever more rarely, whichever worker comes next.
"""

from __future__ import annotations

import time
import zlib
from contextlib import suppress

import msgspec
from msgspec import Struct

from midturn.store.folder import Folder, telling

NAME = ".tries"
FIRST = 0.25
"""Seconds before the second try."""
LONGEST = 300.0


class Tries(Struct, frozen=True):
    """How often the turn was claimed since its last event (`after`), and when that was last (seconds since the Unix epoch)."""

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
