"""A directory that is held open: its files are reached through it, privately, and never through a symbolic link."""

from __future__ import annotations

import errno
import fcntl
import os
import re
import stat
import sys
from collections.abc import Generator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from types import TracebackType
from typing import Self

from midturn.errors import StoreError
from midturn.security.process_ancestry import boot as boot_id

_BLOCK = 65_536
_LARGEST = 64 * 1024 * 1024  # bytes of a file that is no log; an answer that is handed over is a few MiB at most
PRIVATE = 0o600
DIRECTORY = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
# O_NONBLOCK: a fifo that was put in our way must not hang us before we have seen that it is not ours.
_FILE = os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK


def sync(fd: int) -> None:
    """Wait until what was written to a file is on the disk, its length included."""
    if sys.platform == "darwin":
        fcntl.fcntl(fd, fcntl.F_FULLFSYNC)
    else:
        os.fdatasync(fd)


class telling:  # noqa: N801  it reads as what it does: `with telling("open", path):`
    """Turn an error of the system into a `StoreError` that names the file: `where`, or `name` in the directory `where`."""

    __slots__ = ("_doing", "_name", "_where")

    def __init__(self, doing: str, where: Path | Folder, name: str = "") -> None:
        self._doing = doing
        self._where = where
        self._name = name

    def __enter__(self) -> None: ...

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        if isinstance(error, OSError):
            path = self._where.path if isinstance(self._where, Folder) else self._where
            raise refusal(self._doing, path / self._name if self._name else path, error) from error


def refusal(doing: str, path: Path, error: OSError) -> StoreError:
    """Return what the system's error means to a user of the store."""
    return StoreError(f"Cannot {doing} {path}: {_reason(error)}.")


_ROOM = "Make room on the disk, then try again; what was recorded before is safe"
_RIGHTS = "Give yourself the right to write there, then try again"
_LOCKS = "This file system has no locks, so two processes could write one conversation; keep the store on one that has"
_ADVICE = {
    errno.ENOSPC: _ROOM,
    errno.EDQUOT: _ROOM,
    errno.EIO: "The disk failed; see that it is sound, then try again. What was recorded before is safe",
    errno.EROFS: _RIGHTS,
    errno.EACCES: _RIGHTS,
    errno.ENOLCK: _LOCKS,
    errno.EOPNOTSUPP: _LOCKS,
}


class Folder:
    """A directory, by descriptor. Its files are 0600, and opened without following a link in the last component."""

    def __init__(self, path: Path, fd: int, name: str = "") -> None:
        """Hold `fd`, the directory at `path`, or at `name` from there."""
        self._path = path
        self._name = name
        self.fd = fd

    @property
    def path(self) -> Path:
        """Path of the directory, put together only on demand."""
        if self._name:
            self._path, self._name = self._path / self._name, ""
        return self._path

    @path.setter
    def path(self, path: Path) -> None:
        self._path, self._name = path, ""

    @property
    def name(self) -> str:
        """Name of the directory."""
        return self._name.rpartition("/")[2] if self._name else self._path.name

    @property
    def place(self) -> str:
        """Path of the directory, as a text."""
        return f"{self._path}/{self._name}" if self._name else str(self._path)

    @classmethod
    def at(cls, path: Path) -> Self:
        """Open the directory at `path`, which must not be a symbolic link itself.

        Raises:
            StoreError: It cannot be opened.
        """
        with telling("open", path):
            return cls(path, os.open(path, DIRECTORY))

    def inside(self, name: str) -> Folder:
        """Open a directory in here.

        Raises:
            OSError: As `os.open`.
        """
        return Folder(self._path, os.open(name, DIRECTORY, dir_fd=self.fd), f"{self._name}/{name}" if self._name else name)

    def make_inside(self, name: str) -> None:
        """Create a directory in here that only its owner may enter, and wait until its name is on the disk; one that is there will do."""
        try:
            os.mkdir(name, 0o700, dir_fd=self.fd)
        except FileExistsError:
            return
        os.chmod(name, 0o700, dir_fd=self.fd)
        self.sync()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.close()

    def close(self) -> None:
        """Let go of the directory."""
        if self.fd >= 0:
            os.close(self.fd)
            self.fd = -1

    def open(self, name: str, flags: int) -> int:
        """Open a regular file in here; one that is created is 0600.

        Raises:
            OSError: As `os.open`; `ELOOP` for a symbolic link, `EINVAL` for anything else that is not a regular file.
        """
        return self.opened(name, flags)[0]

    def opened(self, name: str, flags: int) -> tuple[int, os.stat_result]:
        """Open a regular file as `open` does; return what it was then, too."""
        fd = self.unchecked(name, flags)
        try:
            found = os.fstat(fd)
            check_regular(found)
            if flags & os.O_EXCL and stat.S_IMODE(found.st_mode) != PRIVATE:
                os.fchmod(fd, PRIVATE)  # what the umask took away
        except BaseException:
            os.close(fd)
            raise
        return fd, found

    def unchecked(self, name: str, flags: int) -> int:
        """Open whatever has this name as `open` does; see what it is (`check_regular`) before anything is read from it or written."""
        return os.open(name, flags | _FILE, PRIVATE, dir_fd=self.fd)

    def read(self, name: str) -> bytes:
        """Return what a small file in here holds.

        Raises:
            OSError: As `open`; `EFBIG` where it is larger than anything of ours is.
        """
        fd, found = self.opened(name, os.O_RDONLY)
        try:
            if found.st_size > _LARGEST:
                raise OSError(errno.EFBIG, os.strerror(errno.EFBIG), name)
            parts = [os.read(fd, _BLOCK)]
            while parts[-1]:
                parts.append(os.read(fd, _BLOCK))
        finally:
            os.close(fd)
        return b"".join(parts)

    def write_new(self, name: str, content: bytes) -> None:
        """Create a file with this content, and wait until it is on the disk; an existing one is an error."""
        with self._created(name, content) as fd:
            sync(fd)

    def write_unsynced(self, name: str, content: bytes) -> None:
        """Create a file with this content, which a loss of power may take away again; an existing one is an error."""
        with self._created(name, content):
            pass

    def replace(self, name: str, content: bytes) -> None:
        """Put a whole new file in the place of `name`, durably: readers see the old one or the new one."""
        temporary = f".{name}.{os.urandom(6).hex()}"
        self.write_new(temporary, content)
        try:
            os.replace(temporary, name, src_dir_fd=self.fd, dst_dir_fd=self.fd)
        except BaseException:
            self.remove(temporary)
            raise
        self.sync()

    def has(self, name: str) -> bool:
        """Say whether something lies here under this name.

        Raises:
            StoreError: It cannot be found out.
        """
        try:
            os.stat(name, dir_fd=self.fd, follow_symlinks=False)
        except FileNotFoundError:
            return False
        except OSError as error:
            raise refusal("look at", self.path / name, error) from error
        return True

    def names(self) -> list[str]:
        """Return the names of everything in here."""
        return os.listdir(self.fd)  # noqa: PTH208 (pathlib lists no descriptors)

    def remove(self, name: str) -> None:
        """Take a file's name away."""
        os.unlink(name, dir_fd=self.fd)

    def sync(self) -> None:
        """Wait until the names in here are on the disk."""
        os.fsync(self.fd)

    @contextmanager
    def _created(self, name: str, content: bytes) -> Generator[int]:
        """Create a file and fill it; it goes away again where anything fails."""
        fd = self.open(name, os.O_WRONLY | os.O_CREAT | os.O_EXCL)
        try:
            write_all(fd, content)
            yield fd
        except BaseException:
            self.remove(name)
            raise
        finally:
            os.close(fd)


def check_regular(found: os.stat_result) -> None:
    """Refuse what is not a regular file.

    Raises:
        OSError: `EINVAL`.
    """
    if not stat.S_ISREG(found.st_mode):
        raise OSError(errno.EINVAL, "it is not a regular file")


def write_all(fd: int, content: bytes) -> None:
    """Write everything. A disk that takes only a part refuses the rest, and that error says why."""
    written = os.write(fd, content)
    while written < len(content):
        written += os.write(fd, memoryview(content)[written:])


def write_durably(fd: int, content: bytes) -> None:
    """Write everything, and wait until it is on the disk."""
    write_all(fd, content)
    sync(fd)


def _reason(error: OSError) -> str:
    if error.errno == errno.ELOOP:
        return "it is a symbolic link, and links inside the store are not followed; put the file itself there"
    said, advice = error.strerror or str(error), _ADVICE.get(error.errno or 0)
    return f"{said}. {advice}" if advice else said


# ----------------------------------------------------------------------------------------------------------------------
# What one host keeps beside conversations for its own processes (`derived`)


KEPT = "index"
"""The directory that it is in."""
STEPS = ".since"
"""Suffix of files that say what has become of others."""


def boot() -> str:
    """Return what must not have changed for what is not synced to be trusted: without a boot id, only the process itself."""
    return boot_id() or f"process {os.getpid()}"


@cache
def host() -> str:
    """Return this host's name as a part of a file's."""
    return re.sub(r"[^A-Za-z0-9.-]", "_", os.uname().nodename)[:64]
