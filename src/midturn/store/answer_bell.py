"""Hearing at once that a turn on disk was answered: its name in the index is touched (`open_index.ring`), and the kernel tells who waits.

Only for speed: who hears nothing (another kernel, no room for one more watch) looks once a second.
"""

from __future__ import annotations

import ctypes
import os
import select
import struct
import sys
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path
from threading import Lock

from midturn.store.open_index import OPEN

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
