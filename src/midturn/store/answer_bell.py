"""Hearing at once that a turn on disk was answered: who records an answer touches its name in the index, and the kernel tells who waits.

Only for speed: who hears nothing (another kernel, no room for one more watch) looks once a second.
"""

from __future__ import annotations

import os
import select
import sys
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path

from midturn.store.folder import Folder
from midturn.store.open_index import OPEN

_TOUCHED = 0x4  # IN_ATTRIB
_ONLY_DIRECTORIES = 0x01000000
_MUCH = 65_536


def ring(conversation: Folder, id: str) -> None:
    """Ring for a conversation that was answered while it was free."""
    try:
        os.utime(f"../{OPEN}/{id}", dir_fd=conversation.fd, follow_symlinks=False)
    except OSError:
        return  # who waits looks once a second


class AnswerBell:
    """Rings when a conversation in one of several folders was answered. Made where it is first waited for."""

    def __init__(self, folders: Iterable[Path]) -> None:
        self._folders = tuple(folders)
        self._fd = -1
        self._watched: set[Path] = set()

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
        missing = [folder for folder in self._folders if folder not in self._watched]
        if not missing or not sys.platform.startswith("linux"):
            return
        import ctypes  # only workers wait

        libc = ctypes.CDLL(None, use_errno=True)
        if self._fd < 0:
            self._fd = libc.inotify_init1(os.O_NONBLOCK | os.O_CLOEXEC)
        for folder in missing:
            if self._fd >= 0 and libc.inotify_add_watch(self._fd, os.fsencode(folder / OPEN), _TOUCHED | _ONLY_DIRECTORIES) >= 0:
                self._watched.add(folder)

    def _hear(self) -> None:
        """Forget what has rung."""
        with suppress(BlockingIOError):
            while self._fd >= 0 and os.read(self._fd, _MUCH):
                pass

    def __del__(self) -> None:
        if self._fd >= 0:
            os.close(self._fd)
