"""Index of the conversations of a folder that have an open turn: `open/<id>` beside them, so that finished ones need no look.

The index is a hint that cannot lie for long. A turn is named in it before its first event is written and until its last one is; that is
not synced. Beside the names stands, for each host, the kernel's boot id: where it differs, the power may have been cut, and the folder is
scanned once. Readers check what the index names.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from contextlib import suppress
from functools import cached_property
from pathlib import Path

from midturn.errors import StoreError
from midturn.stores.folder import Folder, boot, host, refusal
from midturn.stores.index_cache import Derived, KeptList, Listed

OPEN = "open"
_EMPTY = ".empty"


class OpenIndex:
    """The index of the folder `conversations`."""

    def __init__(self, conversations: Path) -> None:
        self._conversations = conversations

    @cached_property
    def _names(self) -> KeptList:
        return KeptList(Derived(self._conversations, OPEN, Listed), [self._conversations / OPEN], self._listing)

    def begin(self) -> None:
        """Note that the index is whole: there is no conversation yet that it could lack."""
        self._renew(set())

    def mark(self) -> tuple[int, int] | None:
        """Return what changes when a name is added, taken away or rung for, on whichever host; None where there is no index."""
        folder = self._conversations / OPEN
        try:
            return folder.stat().st_mtime_ns, (folder / _EMPTY).lstat().st_ctime_ns
        except OSError:
            return None

    def ids(self, scan: Callable[[], Iterable[str]]) -> list[str]:
        """Return the conversations that the index names, the oldest first. Where it cannot be trusted, `scan` says which have an open turn.

        The index is listed again only where a name was added or taken away: a turn that begins is named, one that ends is not any more.
        """
        try:
            with Folder.at(self._conversations) as conversations, conversations.inside(OPEN) as folder:
                is_whole = _is_whole(folder)
            if is_whole:
                return self._names.ids()
        except (OSError, StoreError, UnicodeDecodeError):  # there is none yet, or none that can be read
            pass
        found = sorted(scan())
        self._renew(set(found))
        return found

    def is_empty(self) -> bool:
        """Say whether no turn is open, as far as the index alone can tell: it is read up to its first name, however many there are."""
        if not os.path.lexists(self._conversations):  # no conversation was ever begun here
            return True
        try:
            with Folder.at(self._conversations) as conversations, conversations.inside(OPEN) as folder, os.scandir(folder.fd) as entries:
                return _is_whole(folder) and not any(_is_id(entry.name) for entry in entries)
        except (OSError, StoreError, UnicodeDecodeError):  # it cannot be trusted
            return False

    def _listing(self) -> list[str]:
        with Folder.at(self._conversations) as conversations, conversations.inside(OPEN) as folder:
            return sorted(filter(_is_id, folder.names()))

    def renew(self, ids: Iterable[str]) -> None:
        """Have the index name these conversations, too, and be whole from now on."""
        self._renew(set(ids))

    def _renew(self, ids: set[str]) -> None:
        """Write the index anew. Names are only added: a stale one is taken away by the next reader of its conversation."""
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
    """Name a conversation in the index beside it: its directory is held, wherever it has been moved to.

    Raises:
        StoreError: That cannot be done: no turn may begin here that could not be found again.
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
        raise refusal("note the open turn of", conversation.path, error) from error


def name_finished(conversation: Folder, id: str) -> None:
    """Take a conversation out of the index. Call it while the conversation is locked: else a turn may begin meanwhile."""
    try:
        folder = conversation.inside(f"../{OPEN}")
    except OSError:
        return  # there is none
    try:
        folder.remove(id)
    except OSError:
        return  # it is not named, or stays until a reader comes that may write here
    finally:
        folder.close()


def ring(conversation: Folder, id: str) -> None:
    """Ring for a conversation: it was answered while it was free, or a process holds it now and may die with what others hand over to it.

    Its name is touched, and then what all names have in common: of that it is seen on other hosts.
    """
    with suppress(OSError):  # who waits looks once a second
        os.utime(f"../{OPEN}/{id}", dir_fd=conversation.fd, follow_symlinks=False)
        os.utime(f"../{OPEN}/{_EMPTY}", dir_fd=conversation.fd, follow_symlinks=False)


def is_named(conversation: Folder, id: str) -> bool:
    """Say whether the index beside a conversation names it."""
    return os.access(f"../{OPEN}/{id}", os.F_OK, dir_fd=conversation.fd)  # in half the time of `stat`: nothing is told of what is there


def index_in(conversations: Folder) -> Folder:
    """Open the directory of the index; it is made where there is none.

    Raises:
        OSError: That cannot be done.
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
    """Make a name: one more of an empty file, which takes the disk a part of the time that a new file does."""
    try:
        os.link(_EMPTY, id, src_dir_fd=folder.fd, dst_dir_fd=folder.fd, follow_symlinks=False)
    except FileExistsError:  # it is named
        return
    except OSError:  # an older index has no such file, some file systems have no links, and none has any number of them
        with suppress(FileExistsError):
            os.close(folder.open(id, os.O_WRONLY | os.O_CREAT | os.O_EXCL))
