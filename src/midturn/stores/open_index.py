"""Index of the conversations of a folder that have an open turn: `open/<id>`, so that finished
conversations need not be examined.

The index is a hint. A turn is added before its first event is written, and removed after its last
event. These changes are not synced. The index also stores the kernel's boot ID for each host. If
this ID has changed, there may have been a power cut, and the folder is scanned once. Readers
verify each name.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from contextlib import suppress
from functools import cached_property
from pathlib import Path

from midturn.errors import StoreError
from midturn.stores.folder import Folder, boot, host, refusal
from midturn.stores.index_cache import CachedList, IdList, IndexCache

OPEN = "open"
_EMPTY = ".empty"


class OpenIndex:
    """The index of the folder `conversations`."""

    def __init__(self, conversations: Path) -> None:
        self._conversations = conversations

    @cached_property
    def _names(self) -> CachedList:
        return CachedList(
            IndexCache(self._conversations, OPEN, IdList),
            [self._conversations / OPEN],
            self._listing,
        )

    def begin(self) -> None:
        """Mark the index of a new folder as complete."""
        self._renew(set())

    def mark(self) -> tuple[int, int] | None:
        """Return time stamps that change when a conversation is added to the index or removed from
        it, or when `notify` is called for it, on any host; None if there is no index.
        """
        folder = self._conversations / OPEN
        try:
            return folder.stat().st_mtime_ns, (folder / _EMPTY).lstat().st_ctime_ns
        except OSError:
            return None

    def ids(self, scan: Callable[[], Iterable[str]]) -> list[str]:
        """Return the conversations that the index names, oldest first. If the index is
        incomplete, `scan` returns the conversations with an open turn.

        The index is listed again only if a name was added or removed: when a turn begins or ends.
        """
        try:
            with (
                Folder.at(self._conversations) as conversations,
                conversations.inside(OPEN) as folder,
            ):
                is_whole = _is_whole(folder)
            if is_whole:
                return self._names.ids()
        except (
            OSError,
            StoreError,
            UnicodeDecodeError,
        ):  # the index does not exist, or cannot be read
            pass
        found = sorted(scan())
        self._renew(set(found))
        return found

    def is_empty(self) -> bool:
        """Return whether no turn is open, according to the index alone. The index is read only up
        to its first name.
        """
        if not os.path.lexists(self._conversations):  # the folder has no conversations
            return True
        try:
            with (
                Folder.at(self._conversations) as conversations,
                conversations.inside(OPEN) as folder,
                os.scandir(folder.fd) as entries,
            ):
                return _is_whole(folder) and not any(_is_id(entry.name) for entry in entries)
        except (OSError, StoreError, UnicodeDecodeError):  # the index cannot be trusted
            return False

    def _listing(self) -> list[str]:
        with Folder.at(self._conversations) as conversations, conversations.inside(OPEN) as folder:
            return sorted(filter(_is_id, folder.names()))

    def renew(self, ids: Iterable[str]) -> None:
        """Add these conversations to the index, and mark it as complete."""
        self._renew(set(ids))

    def _renew(self, ids: set[str]) -> None:
        """Write the index again. Names are only added. A stale name is removed by the next reader
        of its conversation.
        """
        with (
            suppress(OSError, StoreError),  # a store that cannot be written is scanned each time
            Folder.at(self._conversations) as conversations,
            index_in(conversations) as folder,
        ):
            with suppress(FileExistsError):
                folder.write_unsynced(_EMPTY, b"")
            for number in ids:
                _touch(folder, number)
            temporary = f".boot.{os.getpid()}"
            with suppress(FileNotFoundError):
                folder.remove(temporary)
            folder.write_unsynced(temporary, boot().encode())
            os.replace(temporary, f".boot-{host()}", src_dir_fd=folder.fd, dst_dir_fd=folder.fd)


def _is_whole(folder: Folder) -> bool:
    return folder.read(f".boot-{host()}").decode() == boot()


def _is_id(name: str) -> bool:
    return name.isdecimal() and name.isascii()


def name_open(conversation: Folder, id: str) -> None:
    """Add a conversation to the index next to it. The directory of the conversation is open, so
    this works even if the directory was moved.

    Raises:
        StoreError: The index cannot be written. The turn must not begin, because it could not be
            found again.
    """
    try:
        try:
            folder = conversation.inside(f"../{OPEN}")
        except FileNotFoundError:
            with conversation.inside("..") as conversations:
                folder = index_in(conversations)
        try:
            _touch(folder, id)
        finally:
            folder.close()
    except OSError as error:
        raise refusal("record the open turn of", conversation.path, error) from error


def name_finished(conversation: Folder, id: str) -> None:
    """Remove a conversation from the index. The conversation must be locked, because otherwise a
    turn may begin at the same time.
    """
    try:
        folder = conversation.inside(f"../{OPEN}")
    except OSError:
        return  # there is no index
    try:
        folder.remove(id)
    except OSError:
        # the name is not in the index, or the index is not writable; a later reader removes the
        # name
        return
    finally:
        folder.close()


def notify(conversation: Folder, id: str) -> None:
    """Notify watchers of a conversation. Called when the conversation is answered while it is
    unlocked, and when a process locks it, because that process may die with queued answers.

    This updates the time stamp of the conversation's file in the index, which inotify reports, and
    the time stamp of a file for all conversations, which other hosts compare (`OpenIndex.mark`).
    """
    with suppress(OSError):  # waiters also poll once a second
        for name in (id, _EMPTY):
            path, base = conversation.located(f"../{OPEN}/{name}")
            os.utime(path, dir_fd=base, follow_symlinks=False)


def is_named(conversation: Folder, id: str) -> bool:
    """Return whether the index next to a conversation names it."""
    path, base = conversation.located(f"../{OPEN}/{id}")
    return os.access(
        path, os.F_OK, dir_fd=base
    )  # `access` takes half the time of `stat`, because it returns no details


def index_in(conversations: Folder) -> Folder:
    """Open the directory of the index, and create it if it is missing.

    Raises:
        OSError: The directory cannot be opened or created.
    """
    try:
        return conversations.inside(OPEN)
    except FileNotFoundError:
        _make(conversations)
        return conversations.inside(OPEN)


def _make(conversations: Folder) -> None:
    with suppress(FileExistsError):
        os.mkdir(OPEN, 0o700, dir_fd=conversations.fd)
        os.chmod(OPEN, 0o700, dir_fd=conversations.fd)


def _touch(folder: Folder, id: str) -> None:
    """Create a name as a hard link to an empty file, which is faster than a new file."""
    try:
        os.link(_EMPTY, id, src_dir_fd=folder.fd, dst_dir_fd=folder.fd, follow_symlinks=False)
    except FileExistsError:  # the conversation is already in the index
        return
    except OSError:
        # an index of an older version has no empty file, some file systems have no hard links, and
        # all limit the number of links
        with suppress(FileExistsError):
            os.close(folder.open(id, os.O_WRONLY | os.O_CREAT | os.O_EXCL))
