"""A file beside conversations that is computed from their logs, so that the next process need not read all: `index/<name>-<host>`.

It can be thrown away at any time. What is missing, broken, of another version or of before the machine was started is made again, and what
it says of a conversation counts only while the files of that are as they were when they were read. It is written in one go, by rename: two
processes that make it at once do not meet, and one that is killed leaves the old one. It is never synced, and where it cannot be written,
it is not there. It is one host's own, as time stamps are.

Why no database: SQLite loads 100,000 such rows in 100 ms and writes them in 120, after 14 ms for its module; this is loaded in 40 and
written in 10. A row alone is changed faster there; but logs change without a word to any index, so all of them are compared anyway.
"""

from __future__ import annotations

import os
import zlib
from contextlib import suppress
from pathlib import Path
from typing import Final, Generic, TypeVar

import msgspec

from midturn.errors import StoreError
from midturn.store.folder import Folder
from midturn.store.open_index import boot, host

FOLDER: Final = "index"
_VERSION: Final = 1
_T = TypeVar("_T")


class Derived(Generic[_T]):
    """One such file: the one with this name in the folder `conversations`."""

    def __init__(self, conversations: Path, name: str, kind: type[_T]) -> None:
        self._conversations = conversations
        self._name = name
        self._kind = kind

    def load(self) -> _T | None:
        """Return what the file holds; None where it cannot be used."""
        try:
            with Folder.at(self._conversations) as conversations, conversations.inside(FOLDER) as folder:
                head, _, content = folder.read(self._file).partition(b"\n")
            return msgspec.msgpack.decode(content, type=self._kind) if head == _head(content) else None
        except (OSError, StoreError, ValueError):  # there is none, or it is broken: msgspec's errors are ValueErrors
            return None

    def save(self, held: _T) -> None:
        """Put a whole new file in the place of the old one, where that can be done."""
        content = msgspec.msgpack.encode(held)
        with suppress(OSError, StoreError), Folder.at(self._conversations) as conversations:
            with suppress(FileExistsError):
                os.mkdir(FOLDER, 0o700, dir_fd=conversations.fd)
            with conversations.inside(FOLDER) as folder:
                _sweep(folder, f".{self._file}.")
                temporary = f".{self._file}.{os.getpid()}"
                folder.write_unsynced(temporary, b"%s\n%s" % (_head(content), content))
                os.replace(temporary, self._file, src_dir_fd=folder.fd, dst_dir_fd=folder.fd)

    @property
    def _file(self) -> str:
        return f"{self._name}-{host()}"


def _sweep(folder: Folder, beginning: str) -> None:
    """Take away what processes have left half written that were killed; the one that writes right now makes it again the next time."""
    for left in folder.names():
        if left.startswith(beginning):
            with suppress(FileNotFoundError):
                folder.remove(left)


def _head(content: bytes) -> bytes:
    """Return the first line: what a file must begin with to hold this content, written since the machine was started."""
    return b"midturn %d %s %08x" % (_VERSION, boot().encode(), zlib.crc32(content))
