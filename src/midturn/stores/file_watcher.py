"""Change feed of a file store, with immediate notification when a turn on disk is answered.

Examining each of 100,000 conversations four times a second would take a whole core. Therefore,
`FileChangeFeed` examines only the conversations for which the watcher received a notification, and
the conversations that a process has locked, because running turns send no notifications. In
addition, each call examines a few other conversations with an open turn, until all were examined (a
rotation). The rotation finds changes made by another host or by an editor. If notifications may
have been lost, or the index of open turns (`open_index.py`) has changed without a notification, all
conversations are examined.

Notification is an optimization. Without it (other kernels, no inotify watch left) the store is
polled once a second.

inotify is called directly, because the kernel then reports whether its queue has overflowed. The
library `watchfiles` does not report an overflow. In a test with 40,000 changes while the process
was stopped, the library lost 1,808 of 10,000 conversations without an error. Only the rotation
would find these conversations, after up to 40 seconds.
"""

from __future__ import annotations

import ctypes
import os
import select
import struct
import sys
from collections import deque
from collections.abc import Iterable, Sequence
from contextlib import suppress
from itertools import islice
from pathlib import Path
from threading import Lock
from typing import Final

from msgspec import Struct

from midturn.errors import StoreError
from midturn.stores import lock
from midturn.stores.log_tail import NAME as LOG, EventReader
from midturn.stores.open_index import OPEN
from midturn.stores.open_turns import OpenTurns
from midturn.stores.port import ChangeCursor

# inotify flags. IN_ATTRIB: a conversation was answered. IN_MOVED_TO, IN_CREATE, IN_DELETE: a turn
# begins or ends
_EVENTS = 0x4 | 0x80 | 0x100 | 0x200
_ONLY_DIRECTORIES = 0x01000000
# IN_Q_OVERFLOW: notifications were lost. IN_IGNORED: the index was removed
_LOST_EVENTS = 0x4000 | 0x8000
_EVENT = struct.Struct("iIII")
_READ_SIZE = 65_536


class DirectoryWatcher:
    """Notifies waiters when a conversation in one of several folders is answered. The watch starts
    with the first wait.
    """

    def __init__(self, folders: Iterable[Path]) -> None:
        self._folders = tuple(folders)
        self._fd = -1
        self._watched: dict[Path, int] = {}
        self._names: set[str] = set()
        self._may_have_missed = True
        self._mutex = Lock()  # one thread may wait while another one reads the notifications

    async def wait(self, most: float) -> None:
        """Wait until a conversation is answered, at most `most` seconds."""
        self.start()
        asyncio = sys.modules.get("asyncio")
        if asyncio is None or asyncio._get_running_loop() is None:  # noqa: SLF001  documented for such uses
            select.select([self._fd] if self._fd >= 0 else [], [], [], most)
        elif self._fd < 0:
            await asyncio.sleep(most)
        else:
            await self._wait_in_loop(most)
        self._read_events()

    async def _wait_in_loop(self, most: float) -> None:
        import asyncio  # a loop is running, so asyncio is already imported

        loop, heard = asyncio.get_running_loop(), asyncio.Event()
        own = os.dup(self._fd)  # several callers may wait, each in its own loop
        try:
            loop.add_reader(own, heard.set)
            with suppress(TimeoutError):
                async with asyncio.timeout(most):
                    await heard.wait()
        finally:
            loop.remove_reader(own)
            os.close(own)

    def start(self) -> None:
        """Start watching, so that the next `wait` also returns for events that happen before it is
        called. Only indexes that exist are watched.
        """
        with self._mutex:
            self._start()

    def _start(self) -> None:
        missing = [folder for folder in self._folders if folder not in self._watched]
        if not missing or not sys.platform.startswith("linux"):
            return

        libc = ctypes.CDLL(None, use_errno=True)
        if self._fd < 0:
            self._fd = libc.inotify_init1(os.O_NONBLOCK | os.O_CLOEXEC)
        for folder in missing:
            watch = (
                libc.inotify_add_watch(
                    self._fd, os.fsencode(folder / OPEN), _EVENTS | _ONLY_DIRECTORIES
                )
                if self._fd >= 0
                else -1
            )
            if watch >= 0:
                self._watched[folder] = watch
                self._may_have_missed = True

    def notified(self) -> set[str] | None:
        """Return the conversations with a notification since the last call; None in the first call,
        and if notifications may have been lost.
        """
        self.start()
        self._read_events()
        with self._mutex:
            names, may_have_missed = self._names, self._may_have_missed
            self._names, self._may_have_missed = set(), False
        return None if may_have_missed else names

    def _read_events(self) -> None:
        """Read the pending events."""
        with self._mutex, suppress(BlockingIOError):
            while self._fd >= 0 and (events := os.read(self._fd, _READ_SIZE)):
                self._note_events(events)

    def _note_events(self, events: bytes) -> None:
        place = 0
        while place < len(events):
            watch, mask, _, length = _EVENT.unpack_from(events, place)
            place += _EVENT.size + length
            name = os.fsdecode(events[place - length : place].rstrip(b"\0"))
            if mask & _LOST_EVENTS:
                self._may_have_missed = True
                self._watched = {
                    folder: number for folder, number in self._watched.items() if number != watch
                }
            elif name.isdecimal():
                self._names.add(name)

    def __del__(self) -> None:
        if self._fd >= 0:
            os.close(self._fd)


_POLL_INTERVAL: Final = 0.25  # seconds between two polls for events of running turns
# number of conversations without a notification that are examined in one call
_COMPARED_FILES: Final = 100
_MAX_NOTIFICATIONS: Final = 10_000  # maximum number of notifications that are kept for slow readers


class _FeedState(Struct, frozen=True):
    """State of one reader of the feed after a call of `lengths`.

    Args:
        heard: Number of notifications that the reader has received so far.
        was_notified: Whether this call received a notification. If so, that notification also
            explains a change of the indexes that the next call finds.
        marks: Time stamps of the index folders, which show changes without a notification.
        held: IDs of the locked conversations.
        names: IDs of the conversations that had an open turn when the rotation began.
        compared: Number of conversations in `names` that the rotation has examined.
    """

    heard: int
    was_notified: bool
    marks: tuple[object, ...]
    held: frozenset[str]
    names: Sequence[str]
    compared: int


class FileChangeFeed:
    """Lengths of the conversations that may have changed.

    Args:
        turns: The conversations with an open turn.
        watcher: Watcher of the folders of these conversations. It must not be shared, because a
            notification is removed when it is read.
    """

    def __init__(self, turns: OpenTurns, watcher: DirectoryWatcher) -> None:
        self._turns = turns
        self._directories = turns.directories
        self._watcher = watcher
        self._notified: deque[str] = deque(maxlen=_MAX_NOTIFICATIONS)
        self._count = 0
        self._lost_until = 0
        self._mutex = Lock()

    async def wait_for_change(self, since: int) -> int:
        """Wait until an open turn is answered, or until the next poll, because running turns send
        no notifications.
        """
        if since:
            await self._watcher.wait(_POLL_INTERVAL)
        else:
            self._watcher.start()
        return since + 1

    async def lengths(self, since: ChangeCursor | None = None) -> ChangeCursor:
        """Return the lengths of the files that may have changed since an earlier call. The first
        call returns the lengths of all files.
        """
        place = since.token if since and isinstance(since.token, _FeedState) else None
        with self._mutex:
            marks = self._turns.marks()
            heard = self._notified_since(place.heard if place else -1)
            count = self._count
        if (
            place is None
            or heard is None
            or (marks != place.marks and not heard and not place.was_notified)
        ):
            lengths, _, held = self._measure(self._directories.ids())
            return ChangeCursor(
                lengths,
                _FeedState(count, bool(heard), marks, held, self._turns.ids(), 0),
                is_whole=True,
            )
        names, compared = (
            (place.names, place.compared)
            if place.compared < len(place.names)
            else (self._turns.ids(), 0)
        )
        some = names[compared : compared + _COMPARED_FILES]
        lengths, gone, held = self._measure({*heard, *place.held, *some})
        return ChangeCursor(
            lengths, _FeedState(count, bool(heard), marks, held, names, compared + len(some)), gone
        )

    async def events_within(self, id: str, length: int) -> int:
        """Count the events in the first `length` bytes of the file."""
        with self._directories.open(id) as folder, EventReader(folder) as events:
            return len(events.lines(length))

    def _notified_since(self, count: int) -> set[str] | None:
        """Return the conversations with a notification after the first `count` notifications, or
        None if notifications were lost. Callers hold the mutex.
        """
        names = self._watcher.notified()
        if names is None:
            self._lost_until = self._count = self._count + 1
            self._notified.clear()
        else:
            self._notified.extend(names)
            self._count += len(names)
        missed = self._count - count
        if count < self._lost_until or missed > len(self._notified):
            return None
        return set(islice(reversed(self._notified), missed))

    def _measure(self, ids: Iterable[str]) -> tuple[dict[str, int], list[str], frozenset[str]]:
        lengths: dict[str, int] = {}
        gone: list[str] = []
        held: list[str] = []
        for id in ids:  # noqa: A001  the common name of IDs
            place = self._directories.place(id)
            length = _size(f"{place}/{LOG}")
            if length is None:  # no hidden link leads to the directory, or there is no log
                length = self._listed(id)
            if length is not None:
                lengths[id] = length
                if _size(f"{place}/{lock.NAME}"):  # the lock file names a process that runs a turn
                    held.append(id)
            elif not self._is_named(
                id
            ):  # a conversation in the index without a log is about to begin its first turn
                gone.append(id)
        return lengths, gone, frozenset(held)

    def _is_named(self, id: str) -> bool:
        return any(
            os.access(f"{folder}/{OPEN}/{id}", os.F_OK) for folder in self._directories.folders
        )

    def _listed(self, id: str) -> int | None:
        try:
            return _size(f"{self._directories.path(id)}/{LOG}")
        except StoreError:
            return None


def _size(file: str) -> int | None:
    try:
        return os.lstat(file).st_size
    except OSError:
        return None
