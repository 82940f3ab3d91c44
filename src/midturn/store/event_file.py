"""`events.jsonl`, held for writing: whole batches go in, and nothing is changed afterwards.

A batch is one `write` and one sync. On Linux, whose file systems keep the order in which names and files came to be, the first sync of
a new file makes its name and those of its new directories durable, too; elsewhere they are synced on their own, once.
"""

from __future__ import annotations

import os
import stat
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from midturn.clock import now_in_a_name
from midturn.errors import StoreError
from midturn.store.folder import PRIVATE, Folder, refusal, sync, telling, write_durably
from midturn.store.tail import NAME, FileEnd, read_ending


class EventFile:
    """The one writer's hand on the file: everything up to `end` (bytes) is on the disk; `syncs` counts what that took."""

    def __init__(self, folder: Folder) -> None:
        """Open the file, create it where it is missing, and cut a torn end (kept beside as `events.torn-<time>`).

        Raises:
            StoreError: It cannot be opened or repaired.
        """
        self._folder = folder
        self.syncs = 0
        self._broken = ""
        try:
            self.fd, self._opened = folder.opened(NAME, os.O_RDWR | os.O_APPEND | os.O_CREAT)
            try:
                if stat.S_IMODE(self._opened.st_mode) != PRIVATE:
                    os.fchmod(self.fd, PRIVATE)
                self.found = FileEnd(self.fd, self._opened.st_size)
                """Content of the file when it was opened."""
                self.ending = read_ending(self.found, folder)
                """Its end at that time."""
                self.end = self.ending.end
                if self.end < self.found.size:
                    self._cut_torn_end()
            except BaseException:
                os.close(self.fd)
                raise
        except OSError as error:
            raise refusal("open", self.path, error) from error

    @property
    def path(self) -> Path:
        """Path of the file."""
        return self._folder.path / NAME

    def close(self) -> None:
        """Let go of the file."""
        if self.fd >= 0:
            os.close(self.fd)
            self.fd = -1

    def append(self, lines: Sequence[bytes]) -> None:
        """Write the lines of one batch, each with its newline; they are on the disk when this returns.

        Raises:
            StoreError: The disk refused, or another program changed the file: nothing of the batch is recorded, everything before it is.
        """
        self.check_ours()
        batch = b"".join(lines)
        try:
            write_durably(self.fd, batch)
            self.syncs += 1
            if self.end == 0:
                self._sync_names()
        except OSError as error:
            self._take_back()
            raise StoreError(
                f"Cannot write {self.path}: {error.strerror or error}. The {self.end:,} bytes that were recorded before are safe on disk; "
                "what came last is not recorded. Make room on the disk, or repair it, then open the conversation again."
            ) from error
        self.end += len(batch)

    def check_ours(self) -> None:
        """Refuse to write where another program has written: what is in memory would no longer be what is on disk."""
        if self._broken:
            raise StoreError(self._broken)
        if self.fd < 0:
            raise StoreError(f"{self.path} is closed: nothing more can be recorded by this writer.")
        try:
            there = os.stat(NAME, dir_fd=self._folder.fd, follow_symlinks=False)
        except OSError as error:
            raise refusal("write", self.path, error) from error
        if there.st_ino != self._opened.st_ino or there.st_dev != self._opened.st_dev:
            self._refuse("was replaced by another file")
        if there.st_size != self.end:
            self._refuse(f"has {there.st_size:,} bytes instead of the {self.end:,} that were recorded")

    def _refuse(self, what: str) -> None:
        raise StoreError(
            f"{self.path} {what} while this process was writing it. Nothing more is recorded here, so that nothing is lost: "
            "keep the version that you want under this name, then open the conversation again."
        )

    def _take_back(self) -> None:
        """Cut what a failed write left. If even that fails, nothing may follow it until the file is opened and looked at again."""
        try:
            os.ftruncate(self.fd, self.end)
            self._sync(self.fd)
        except OSError as error:
            self._broken = f"{self.path} can no longer be written ({error.strerror or error}). Open the conversation again."

    def _cut_torn_end(self) -> None:
        torn = self.found.read(self.end, self.found.size)
        with telling("repair", self._folder, NAME):
            self._folder.write_new(f"events.torn-{now_in_a_name()}", torn)
            self._folder.sync()
            os.ftruncate(self.fd, self.end)
            self._sync(self.fd)
        self.syncs += 2  # those of the torn copy

    def _sync(self, fd: int) -> None:
        self.syncs += 1
        sync(fd)

    def _sync_names(self) -> None:
        if sys.platform == "linux":
            return
        parent = os.open("..", os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC, dir_fd=self._folder.fd)
        try:
            for fd in (self._folder.fd, parent):
                self.syncs += 1
                os.fsync(fd)
        finally:
            os.close(parent)


# ----------------------------------------------------------------------------------------------------------------------
# Recognition of folders of `jp`: cheap, because it is asked of every conversation


EVENTS: Final = "events.json"


def is_jp(folder: Path) -> bool:
    """Say whether `jp` alone recorded what is in this folder."""
    place = os.fspath(folder)  # asked of each conversation that is listed, and nearly always answered by the first look
    return not os.path.exists(f"{place}/{NAME}") and os.path.isfile(f"{place}/{EVENTS}")  # noqa: PTH110, PTH113
