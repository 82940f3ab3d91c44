"""One writer per conversation: an advisory lock on a file inside its directory.

The kernel releases it when its holder dies, so the text in the file is only there to say who it is: stale text is harmless.
"""

from __future__ import annotations

import fcntl
import os
import time

import msgspec
from msgspec import Struct

from midturn.errors import StoreError, StoreLocked
from midturn.store.clock import now
from midturn.store.folder import Folder, telling

NAME = "lock"
_STEP = 0.005
_TRIES = 100


class Holder(Struct, frozen=True, omit_defaults=True):
    """Who holds a conversation: the process, since when (RFC 3339), and whether only for a moment."""

    pid: int | None = None
    since: str | None = None
    brief: bool = False

    def stays(self) -> bool:
        """Say whether waiting for it is vain: not where it is brief, or where the text is older than the lock (its process is gone)."""
        if self.brief or not self.pid:
            return False
        try:
            os.kill(self.pid, 0)
        except ProcessLookupError:
            return False
        except (PermissionError, OverflowError):
            return True
        return True


class Lock:
    """A conversation's lock, held until `release`."""

    def __init__(self, folder: Folder, holder: Holder) -> None:
        """Take the lock and sign as `holder`; one who holds it only for a moment is waited for.

        Raises:
            StoreLocked: Somebody else holds it: `pid` and `since` say who.
            StoreError: The lock file cannot be opened, or the conversation was removed meanwhile.
        """
        path = folder.path / NAME
        with telling("lock", path):
            self._fd = folder.open(NAME, os.O_RDWR | os.O_CREAT)
        try:
            with telling("lock", path):
                self._take(folder)
                self._sign(holder)
        except BaseException:
            os.close(self._fd)
            raise

    def release(self) -> None:
        """Give the conversation back."""
        if self._fd >= 0:
            os.ftruncate(self._fd, 0)
            os.close(self._fd)
            self._fd = -1

    def _take(self, folder: Folder) -> None:
        for _ in range(_TRIES):
            try:
                fcntl.flock(self._fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                holder = self._read()
                if holder.stays():
                    raise _locked(folder, holder) from None
                time.sleep(_STEP)
            else:
                return _check_there(folder, self._fd)
        raise _locked(folder, self._read())

    def _read(self) -> Holder:
        """Return who signed; whoever has taken the lock and has not signed yet is nobody."""
        try:
            return msgspec.json.decode(os.pread(self._fd, 1_000, 0), type=Holder)
        except ValueError:
            return Holder()

    def _sign(self, holder: Holder) -> None:
        """Say who holds it. Only now, under the lock, is anything changed; the old text is overwritten before it is cut."""
        os.fchmod(self._fd, 0o600)
        text = msgspec.json.encode(holder) + b"\n"
        os.pwrite(self._fd, text, 0)
        os.ftruncate(self._fd, len(text))


def is_held(folder: Folder) -> bool:
    """Say whether somebody writes the conversation just now."""
    with telling("look at", folder.path / NAME):
        try:
            fd = folder.open(NAME, os.O_RDONLY)
        except FileNotFoundError:
            return False
        try:
            fcntl.flock(fd, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except BlockingIOError:
            return True
        finally:
            os.close(fd)
    return False


def for_a_turn() -> Holder:
    """Sign as this process, from now on, until it is done."""
    return Holder(os.getpid(), now())


def for_a_moment() -> Holder:
    """Sign as this process, for one append: whoever comes next may wait."""
    return Holder(os.getpid(), now(), brief=True)


def _check_there(folder: Folder, fd: int) -> None:
    """Notice that the conversation was removed between the opening of the file and the lock."""
    if os.fstat(fd).st_nlink == 0:
        raise StoreError(f"The conversation at {folder.path} was removed.")


def _locked(folder: Folder, holder: Holder) -> StoreLocked:
    who = "this process" if holder.pid == os.getpid() else f"process {holder.pid}" if holder.pid else "another process"
    since = f" since {holder.since}" if holder.since else ""
    return StoreLocked(
        f"The conversation at {folder.path} is being written by {who}{since}. Wait until it is done, or end it; "
        "its open questions can be answered meanwhile (`midturn inbox`).",
        holder.pid,
        holder.since,
    )
