"""Growth of files, for those who watch a store; and hearing at once that a turn on disk was answered.

A look at each of a hundred thousand, four times a second, would take a core. So a look is for those whose bell rang (`answer_bell`), for
those that a process holds, since what a turn records rings no bell, and for the next few of all that are named: what another host or an
editor has written is found by and by. Where bells may have been missed, or the index has changed and nothing rang, the look is for all.

Only for speed: who hears nothing (another kernel, no room for one more watch) looks once a second.
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
from midturn.stores.port import Growth

_HEARD = 0x4 | 0x80 | 0x100 | 0x200  # IN_ATTRIB: rung for; IN_MOVED_TO, IN_CREATE, IN_DELETE: its turn begins or ends
_ONLY_DIRECTORIES = 0x01000000
_LOST = 0x4000 | 0x8000  # IN_Q_OVERFLOW: there was too much to tell; IN_IGNORED: the index is another one now
_EVENT = struct.Struct("iIII")
_MUCH = 65_536


class FolderBell:
    """Rings when a conversation in one of several folders was answered. Made where it is first waited for."""

    def __init__(self, folders: Iterable[Path]) -> None:
        self._folders = tuple(folders)
        self._fd = -1
        self._watched: dict[Path, int] = {}
        self._names: set[str] = set()
        self._has_missed = True
        self._mutex = Lock()  # one thread waits, another one asks what was heard

    async def wait(self, most: float) -> None:
        """Return when it rings, at the latest after `most` seconds."""
        self.listen()
        asyncio = sys.modules.get("asyncio")
        if asyncio is None or asyncio._get_running_loop() is None:  # noqa: SLF001  documented for such uses
            select.select([self._fd] if self._fd >= 0 else [], [], [], most)
        elif self._fd < 0:
            await asyncio.sleep(most)
        else:
            await self._wait_in_loop(most)
        self._hear()

    async def _wait_in_loop(self, most: float) -> None:
        import asyncio  # a loop runs, so it is loaded

        loop, heard = asyncio.get_running_loop(), asyncio.Event()
        own = os.dup(self._fd)  # several may wait, each in a loop of its own
        try:
            loop.add_reader(own, heard.set)
            with suppress(TimeoutError):
                async with asyncio.timeout(most):
                    await heard.wait()
        finally:
            loop.remove_reader(own)
            os.close(own)

    def listen(self) -> None:
        """Listen from now on: the next wait hears what rings before it begins. Indexes are watched that are there by now."""
        with self._mutex:
            self._listen()

    def _listen(self) -> None:
        missing = [folder for folder in self._folders if folder not in self._watched]
        if not missing or not sys.platform.startswith("linux"):
            return

        libc = ctypes.CDLL(None, use_errno=True)
        if self._fd < 0:
            self._fd = libc.inotify_init1(os.O_NONBLOCK | os.O_CLOEXEC)
        for folder in missing:
            watch = libc.inotify_add_watch(self._fd, os.fsencode(folder / OPEN), _HEARD | _ONLY_DIRECTORIES) if self._fd >= 0 else -1
            if watch >= 0:
                self._watched[folder] = watch
                self._has_missed = True

    def heard(self) -> set[str] | None:
        """Return which conversations it rang for since the last time; None where that cannot be told, at first for one."""
        self.listen()
        self._hear()
        with self._mutex:
            names, has_missed = self._names, self._has_missed
            self._names, self._has_missed = set(), False
        return None if has_missed else names

    def _hear(self) -> None:
        """Take down what has rung."""
        with self._mutex, suppress(BlockingIOError):
            while self._fd >= 0 and (told := os.read(self._fd, _MUCH)):
                self._note(told)

    def _note(self, told: bytes) -> None:
        place = 0
        while place < len(told):
            watch, mask, _, length = _EVENT.unpack_from(told, place)
            place += _EVENT.size + length
            name = os.fsdecode(told[place - length : place].rstrip(b"\0"))
            if mask & _LOST:
                self._has_missed = True
                self._watched = {folder: number for folder, number in self._watched.items() if number != watch}
            elif name.isdecimal():
                self._names.add(name)

    def __del__(self) -> None:
        if self._fd >= 0:
            os.close(self._fd)


_WATCHED: Final = 0.25  # seconds between two looks for what turns have recorded that run
_COMPARED: Final = 100  # conversations in one look that nothing was heard of
_KEPT: Final = 10_000  # bells that are kept for slow watchers


class _Place(Struct, frozen=True):
    """Position of a watcher.

    Args:
        heard: How many bells it has heard.
        rang: Whether one rang just before: it has changed the indexes, which were looked at earlier.
        marks: What the indexes were.
        held: What was held.
        names: The conversations with an open turn, as they were when this round through them began.
        compared: How many of these were compared.
    """

    heard: int
    rang: bool
    marks: tuple[object, ...]
    held: frozenset[str]
    names: Sequence[str]
    compared: int


class FileGrowing:
    """Lengths of conversations that may have grown.

    Args:
        turns: The conversations with an open turn.
        bell: Rings for them, and for no one else: who hears a bell silences it.
    """

    def __init__(self, turns: OpenTurns, bell: FolderBell) -> None:
        self._turns = turns
        self._directories = turns.directories
        self._bell = bell
        self._rung: deque[str] = deque(maxlen=_KEPT)
        self._count = 0
        self._lost = 0
        self._mutex = Lock()

    async def stirred(self, since: int) -> int:
        """Return when a turn that waits was answered, or when it is time to look: what a turn that runs records rings no bell."""
        if since:
            await self._bell.wait(_WATCHED)
        else:
            self._bell.listen()
        return since + 1

    async def lengths(self, since: Growth | None = None) -> Growth:
        """Return how long the files are that may have changed since an earlier look; everything at first."""
        place = since.token if since and isinstance(since.token, _Place) else None
        with self._mutex:
            marks = self._turns.marks()
            heard = self._heard(place.heard if place else -1)
            count = self._count
        if place is None or heard is None or (marks != place.marks and not heard and not place.rang):
            lengths, _, held = self._look(self._directories.ids())
            return Growth(lengths, _Place(count, bool(heard), marks, held, self._turns.ids(), 0), is_whole=True)
        names, compared = (place.names, place.compared) if place.compared < len(place.names) else (self._turns.ids(), 0)
        some = names[compared : compared + _COMPARED]
        lengths, gone, held = self._look({*heard, *place.held, *some})
        return Growth(lengths, _Place(count, bool(heard), marks, held, names, compared + len(some)), gone)

    async def events_within(self, id: str, length: int) -> int:
        """Count the events in the first bytes of the file."""
        with self._directories.open(id) as folder, EventReader(folder) as events:
            return len(events.lines(length))

    def _heard(self, count: int) -> set[str] | None:
        """Return for which it rang since this many bells; None where some of them were missed. It is called by one at a time."""
        names = self._bell.heard()
        if names is None:
            self._lost = self._count = self._count + 1
            self._rung.clear()
        else:
            self._rung.extend(names)
            self._count += len(names)
        missed = self._count - count
        if count < self._lost or missed > len(self._rung):
            return None
        return set(islice(reversed(self._rung), missed))

    def _look(self, ids: Iterable[str]) -> tuple[dict[str, int], list[str], frozenset[str]]:
        lengths: dict[str, int] = {}
        gone: list[str] = []
        held: list[str] = []
        for id in ids:  # noqa: A001  what it is everywhere here
            place = self._directories.place(id)
            length = _size(f"{place}/{LOG}")
            if length is None:  # it has no link, it is gone, or nothing is recorded in it
                length = self._listed(id)
            if length is not None:
                lengths[id] = length
                if _size(f"{place}/{lock.NAME}"):  # who holds it for a turn has signed
                    held.append(id)
            elif not self._is_named(id):  # else its first turn begins right now
                gone.append(id)
        return lengths, gone, frozenset(held)

    def _is_named(self, id: str) -> bool:
        return any(os.access(f"{folder}/{OPEN}/{id}", os.F_OK) for folder in self._directories.folders)

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
