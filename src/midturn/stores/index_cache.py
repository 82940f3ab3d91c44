"""Caches computed from logs, so that the next process need not read all conversations: the files
`index/<name>-<host>`.

A cache can be deleted at any time. A cache is computed again if it is missing, broken, from another
version, or from before the last boot. An entry for a conversation is valid only while the
conversation's files are unchanged. The file is replaced atomically by rename, so concurrent and
killed writers do no harm. The file is never synced, and write errors are ignored. Each host has its
own file, because time stamps of hosts differ.

Why no database: SQLite loads 100,000 such rows in 100 ms and writes them in 120 ms, after 14 ms for
its module; this file is loaded in 40 ms and written in 10 ms. SQLite changes a single row faster,
but a log may change without an update of its row, so all rows are compared anyway.
"""

from __future__ import annotations

import fcntl
import os
import time
import zlib
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import cached_property
from itertools import dropwhile
from pathlib import Path
from typing import Final, Generic, TypeAlias, TypeVar

import msgspec
from msgspec import Struct

from midturn.errors import StoreError
from midturn.stores.folder import KEPT, STEPS, Folder, boot, host

_VERSION: Final = 2
# nanoseconds: longer than the resolution of any file system's clock
_CLOCK_STEP: Final = 2_000_000_000
_MIN_SAVED_NAMES: Final = 1_000  # minimum number of names for which the list is saved
_SAVE_INTERVAL: Final = 60.0  # minimum seconds between two saves of the same list by one process
_MAX_STEPS_SIZE: Final = 100_000  # size in bytes above which no more steps are recorded
_T = TypeVar("_T")


class IndexCache(Generic[_T]):
    """The cache file `name` of the folder `conversations`."""

    def __init__(self, conversations: Path, name: str, kind: type[_T]) -> None:
        self._conversations = conversations
        self._name = name
        self._kind = kind

    def load(self) -> _T | None:
        """Return the content of the file, or None if it cannot be used."""
        try:
            with (
                Folder.at(self._conversations) as conversations,
                conversations.inside(KEPT) as folder,
            ):
                head, _, content = folder.read(self._file).partition(b"\n")
            return (
                msgspec.msgpack.decode(content, type=self._kind) if head == _head(content) else None
            )
        except (
            OSError,
            StoreError,
            ValueError,
        ):  # the file is missing or broken (msgspec's errors are ValueErrors)
            return None

    def save(self, held: _T) -> None:
        """Replace the file, if possible."""
        content = msgspec.msgpack.encode(held)
        with suppress(OSError, StoreError), Folder.at(self._conversations) as conversations:
            with suppress(FileExistsError):
                os.mkdir(KEPT, 0o700, dir_fd=conversations.fd)
            with conversations.inside(KEPT) as folder:
                _sweep(folder, f".{self._file}.")
                temporary = f".{self._file}.{os.getpid()}"
                folder.write_unsynced(temporary, b"%s\n%s" % (_head(content), content))
                os.replace(temporary, self._file, src_dir_fd=folder.fd, dst_dir_fd=folder.fd)

    @property
    def _file(self) -> str:
        return f"{self._name}-{host()}"

    # Steps: changes since the file was saved
    # ----------------------------------------------------------------------------------------------

    def begin_steps(self) -> None:
        """Start to record steps. Earlier steps belong to an earlier file."""
        with (
            suppress(OSError, StoreError),
            Folder.at(self._conversations) as conversations,
            conversations.inside(KEPT) as folder,
        ):
            temporary = f".{self._file}{STEPS}.{os.getpid()}"
            with suppress(FileExistsError):
                folder.write_unsynced(temporary, b"")
            os.replace(
                temporary, f"{self._file}{STEPS}", src_dir_fd=folder.fd, dst_dir_fd=folder.fd
            )

    @contextmanager
    def noting(self, folder: Path) -> Generator[list[str]]:
        """Yield a list to which the block appends the ID of a conversation that it creates in
        `folder`. The ID is then recorded as a step, if steps are recorded.

        If two processes change the folder at the same time, the second process stops the recording,
        because neither can determine the state of the folder after its own change.
        """
        made: list[str] = []
        fd = self._opened_steps()
        if fd < 0:
            yield made
            return
        try:
            before = folder_state(folder)
            yield made
            step = Step(before, folder_state(folder), "".join(made))
            if step.is_alone:
                with suppress(OSError):
                    os.write(fd, msgspec.json.encode(step) + b"\n")
        finally:
            os.close(fd)

    def _opened_steps(self) -> int:
        """Open the file of steps with an exclusive lock; -1 if steps are not recorded."""
        with (
            suppress(OSError, StoreError),
            Folder.at(self._conversations) as conversations,
            conversations.inside(KEPT) as folder,
        ):
            fd, found = folder.opened(f"{self._file}{STEPS}", os.O_WRONLY | os.O_APPEND)
            try:
                fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError:
                os.close(fd)
                folder.remove(f"{self._file}{STEPS}")
                return -1
            if found.st_size < _MAX_STEPS_SIZE:
                return fd
            os.close(fd)
        return -1

    def steps(self) -> list[Step]:
        """Return all steps, or no steps if one of them cannot be read."""
        try:
            with (
                Folder.at(self._conversations) as conversations,
                conversations.inside(KEPT) as folder,
            ):
                lines = folder.read(f"{self._file}{STEPS}").splitlines()
            return [msgspec.json.decode(line, type=Step) for line in lines]
        except (OSError, StoreError, ValueError):  # as in `load`
            return []


def _sweep(folder: Folder, beginning: str) -> None:
    """Remove temporary files of killed processes. If the file of a running process is removed, the
    process writes it again the next time.
    """
    for left in folder.names():
        if left.startswith(beginning):
            with suppress(FileNotFoundError):
                folder.remove(left)


def _head(content: bytes) -> bytes:
    """Return the first line of a cache file with this content. A file that was written by another
    version or before the last boot has a different first line, and is not used.
    """
    return b"midturn %d %s %08x" % (_VERSION, boot().encode(), zlib.crc32(content))


# --------------------------------------------------------------------------------------------------
# Lists of names, for example of all conversations


FolderState: TypeAlias = tuple[int, int, int, int]
"""Inode number, modification time in nanoseconds, number of links, and size in bytes."""
_NOWHERE: Final = (0, 0, 0, 0)


def folder_state(folder: Path) -> FolderState:
    """Return a state that changes when a name is added to a folder or removed from it. Return zeros
    if the folder does not exist.

    Two changes in one tick of the clock are detected as well, because most file systems count
    subdirectories in the number of links, or the bytes of the names in the size.
    """
    try:
        found = os.stat(folder)  # noqa: PTH116  called for each new conversation
    except OSError:
        return _NOWHERE
    return found.st_ino, found.st_mtime_ns, found.st_nlink, found.st_size


class Step(Struct, frozen=True, array_like=True):
    """A change of a folder: the directory of the conversation `id` was added.

    `before` and `after` are the states of the folder.
    """

    before: FolderState
    after: FolderState
    id: str

    @property
    def is_alone(self) -> bool:
        """Whether exactly one directory was added. Only file systems that count subdirectories in
        the number of links can show more than one.
        """
        return (
            bool(self.id)
            and self.before[0] == self.after[0]
            and self.after[2] - self.before[2] == (1 if self.before[2] > 1 else 0)
        )


class IdList(Struct, dict=True):
    """IDs, oldest first, and the states of the folders when they were listed.

    The IDs are stored as lines of one string, so that a command that needs only the newest of
    100,000 IDs reads only the end of the string.
    """

    states: list[FolderState]
    lines: str

    @classmethod
    def of(cls, states: list[FolderState], ids: list[str]) -> IdList:
        """Create a list from ids."""
        listed = cls(states, "\n".join(ids))
        vars(listed)["ids"] = ids
        return listed

    @cached_property
    def ids(self) -> list[str]:
        """All IDs, oldest first."""
        return self.lines.split("\n") if self.lines else []

    def newest_first(self) -> Iterator[str]:
        """Yield the ids, newest first."""
        end = len(self.lines)
        while end > 0:
            begin = self.lines.rfind("\n", 0, end)
            yield self.lines[begin + 1 : end]
            end = begin

    def grown(self, states: list[FolderState], made: Sequence[str]) -> IdList:
        """Return a list with more ids. Usually all new ids are newer than the existing ids."""
        if made and min(made) > next(self.newest_first(), ""):
            return IdList(states, "\n".join([*filter(None, [self.lines]), *sorted(made)]))
        return IdList.of(states, sorted([*self.ids, *made]))


class CachedList:
    """The IDs that folders contain. A folder is listed again only if a name was added or removed,
    even by a process that starts later.

    Args:
        cache: The file in which a long list is saved.
        folders: The folders.
        listing: Lists the IDs.
    """

    def __init__(
        self, cache: IndexCache[IdList], folders: Sequence[Path], listing: Callable[[], list[str]]
    ) -> None:
        self._cache = cache
        self._folders = folders
        self._listing = listing
        self._current: IdList | None = None
        self._saved = -_SAVE_INTERVAL

    def ids(self) -> list[str]:
        """Return the ids, the oldest first."""
        return self.listed().ids

    def listed(self) -> IdList:
        """Return the current list."""
        states, began = [*map(folder_state, self._folders)], time.time_ns()
        kept = self._current = self._current or self._cache.load() or IdList([], "")
        if states == kept.states:
            return kept
        if followed := self._followed(kept, states):
            self._current = followed
            return followed
        found = IdList.of(states, self._listing())
        if _NOWHERE in states or max(state[1] for state in states) + _CLOCK_STEP > began:
            return found  # a change in the same tick of the clock might not be noticed
        self._current = found
        if len(found.ids) >= _MIN_SAVED_NAMES and time.monotonic() - self._saved >= _SAVE_INTERVAL:
            self._saved = time.monotonic()
            self._save(found)
        return found

    def _followed(self, kept: IdList, states: list[FolderState]) -> IdList | None:
        """Return the changed list if it can be computed without listing a folder."""
        del kept, states

    def _save(self, found: IdList) -> None:
        self._cache.save(found)


class ConversationList(CachedList):
    """The IDs of all conversations in folders. If the recorded steps explain every change of the
    first folder since the list was saved, the IDs of the steps are added to the saved list.

    Therefore, the folders are not listed again for a new conversation. They are listed again after
    any other change.
    """

    def _followed(self, kept: IdList, states: list[FolderState]) -> IdList | None:
        if not kept.states or states[1:] != kept.states[1:]:
            return None
        at, made = kept.states[0], list[str]()
        for step in dropwhile(lambda step: step.before != kept.states[0], self._cache.steps()):
            if step.before != at:
                return None
            at = step.after
            made.append(step.id)
        return kept.grown(states, made) if at == states[0] else None

    def _save(self, found: IdList) -> None:
        super()._save(found)
        self._cache.begin_steps()
