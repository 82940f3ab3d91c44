"""An open directory. Its files are private. They are opened relative to the directory, and never
through a symbolic link.
"""

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
# maximum size in bytes of a file that is not a log; the largest are queued answers with a few MiB
_MAX_FILE_SIZE = 64 * 1024 * 1024
PRIVATE = 0o600
DIRECTORY = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
# O_NONBLOCK: opening a fifo that another user has put here must not block.
_FILE = os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK


def sync(fd: int) -> None:
    """Wait until the content and the length of a file are on the disk."""
    if sys.platform == "darwin":
        fcntl.fcntl(fd, fcntl.F_FULLFSYNC)
    else:
        os.fdatasync(fd)


class reporting_os_errors:  # noqa: N801  used like a function: `with reporting_os_errors(…):`
    """Turn an `OSError` into a `StoreError` that names the file: `where`, or `name` in the
    directory `where`.
    """

    __slots__ = ("_doing", "_name", "_where")

    def __init__(self, doing: str, where: Path | Folder, name: str = "") -> None:
        self._doing = doing
        self._where = where
        self._name = name

    def __enter__(self) -> None: ...

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if isinstance(error, OSError):
            path = self._where.path if isinstance(self._where, Folder) else self._where
            raise refusal(self._doing, path / self._name if self._name else path, error) from error


def refusal(doing: str, path: Path, error: OSError) -> StoreError:
    """Return a `StoreError` that explains an `OSError` and says what to do."""
    return StoreError(f"Cannot {doing} {path}: {_reason(error)}.")


_DISK_FULL = "Free some disk space, then try again; everything recorded before is safe"
_NO_WRITE_PERMISSION = "Give yourself write permission, then try again"
_LOCKS = (
    "This file system has no locks, so two processes could write one conversation; use a file"
    " system with locks"
)
_ADVICE = {
    errno.ENOSPC: _DISK_FULL,
    errno.EDQUOT: _DISK_FULL,
    errno.EIO: (
        "The disk failed. Check the disk, then try again; everything recorded before is safe"
    ),
    errno.EROFS: _NO_WRITE_PERMISSION,
    errno.EACCES: _NO_WRITE_PERMISSION,
    errno.EMFILE: (
        "This process has reached its limit of open files. Raise the limit (`ulimit -n`), or run"
        " fewer turns in one process"
    ),
    errno.ENOLCK: _LOCKS,
    errno.EOPNOTSUPP: _LOCKS,
}


class Folder:
    """An open directory, identified by its descriptor. Its files have mode 0600, and are opened
    without following a link in the last path component.
    """

    def __init__(self, path: Path, fd: int, name: str = "") -> None:
        """Take ownership of the descriptor `fd` of the directory `path`, or of `name` in it."""
        self._path = path
        self._name = name
        self._is_by_path = False
        self.fd = fd

    def close_descriptor(self) -> None:
        """Close the descriptor and open files by path from now on.

        Used by a process with few free descriptors.
        """
        self._path, self._name = self.path, ""
        self.close()
        self._is_by_path = True

    def located(self, name: str) -> tuple[str, int | None]:
        """Return the path of a file in this directory, and the `dir_fd` that it is relative to."""
        return (f"{self._path}/{name}", None) if self._is_by_path else (name, self.fd)

    @property
    def path(self) -> Path:
        """Path of the directory, built on demand."""
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
        """Path of the directory, as a string."""
        return f"{self._path}/{self._name}" if self._name else str(self._path)

    @classmethod
    def at(cls, path: Path) -> Self:
        """Open the directory at `path`, which must not be a symbolic link itself.

        Raises:
            StoreError: The directory cannot be opened.
        """
        with reporting_os_errors("open", path):
            return cls(path, os.open(path, DIRECTORY))

    def inside(self, name: str) -> Folder:
        """Open a subdirectory.

        Raises:
            OSError: As `os.open`.
        """
        path, base = self.located(name)
        return Folder(
            self._path,
            os.open(path, DIRECTORY, dir_fd=base),
            f"{self._name}/{name}" if self._name else name,
        )

    def make_inside(self, name: str) -> None:
        """Create a private directory in this one, unless it exists, and wait until its name is
        on the disk.
        """
        try:
            os.mkdir(name, 0o700, dir_fd=self.fd)
        except FileExistsError:
            return
        os.chmod(name, 0o700, dir_fd=self.fd)
        self.sync()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def close(self) -> None:
        """Close the descriptor."""
        if self.fd >= 0:
            os.close(self.fd)
            self.fd = -1

    def open(self, name: str, flags: int) -> int:
        """Open a regular file in this directory; a new one gets mode 0600.

        Raises:
            OSError: As `os.open`; `ELOOP` for a symbolic link, `EINVAL` for anything else that is
                not a regular file.
        """
        return self.opened(name, flags)[0]

    def opened(self, name: str, flags: int) -> tuple[int, os.stat_result]:
        """Open a regular file as `open` does, and also return its status."""
        fd = self.unchecked(name, flags)
        try:
            found = os.fstat(fd)
            check_regular(found)
            if flags & os.O_EXCL and stat.S_IMODE(found.st_mode) != PRIVATE:
                os.fchmod(fd, PRIVATE)  # the umask may have removed bits
        except BaseException:
            os.close(fd)
            raise
        return fd, found

    def unchecked(self, name: str, flags: int) -> int:
        """Open any file as `open` does. Check its type with `check_regular` before reading or
        writing it.
        """
        path, base = self.located(name)
        return os.open(path, flags | _FILE, PRIVATE, dir_fd=base)

    def read(self, name: str) -> bytes:
        """Return the content of a small file in this directory.

        Raises:
            OSError: As `open`; `EFBIG` if the file is larger than 64 MiB.
        """
        fd, found = self.opened(name, os.O_RDONLY)
        try:
            if found.st_size > _MAX_FILE_SIZE:
                raise OSError(errno.EFBIG, os.strerror(errno.EFBIG), name)
            parts = [os.read(fd, _BLOCK)]
            while parts[-1]:
                parts.append(os.read(fd, _BLOCK))
        finally:
            os.close(fd)
        return b"".join(parts)

    def write_new(self, name: str, content: bytes) -> None:
        """Create a file with this content, and wait until it is on the disk. The file must not
        exist.
        """
        with self._created(name, content) as fd:
            sync(fd)

    def write_unsynced(self, name: str, content: bytes) -> None:
        """Create a file without a sync, so that a power cut may remove it. The file must not
        exist.
        """
        with self._created(name, content):
            pass

    def replace(self, name: str, content: bytes) -> None:
        """Replace the file `name` atomically and durably: readers get either the old or the new
        content.
        """
        temporary = f".{name}.{os.urandom(6).hex()}"
        self.write_new(temporary, content)
        try:
            os.replace(temporary, name, src_dir_fd=self.fd, dst_dir_fd=self.fd)
        except BaseException:
            self.remove(temporary)
            raise
        self.sync()

    def has(self, name: str) -> bool:
        """Return whether a file with this name exists.

        Raises:
            StoreError: The existence of the file cannot be determined.
        """
        path, base = self.located(name)
        try:
            os.stat(path, dir_fd=base, follow_symlinks=False)
        except FileNotFoundError:
            return False
        except OSError as error:
            raise refusal("access", self.path / name, error) from error
        return True

    def names(self) -> list[str]:
        """Return the names of all entries."""
        return os.listdir(self.fd)  # noqa: PTH208 (pathlib lists no descriptors)

    def remove(self, name: str) -> None:
        """Remove a file."""
        os.unlink(name, dir_fd=self.fd)

    def sync(self) -> None:
        """Wait until the names in this directory are on the disk, unless its file system cannot
        sync directories.
        """
        try:
            os.fsync(self.fd)
        except OSError as error:
            if error.errno != errno.EINVAL:
                raise

    @contextmanager
    def _created(self, name: str, content: bytes) -> Generator[int]:
        """Create and fill a file. The file is removed if anything fails."""
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
    """Refuse a file that is not regular.

    Raises:
        OSError: `EINVAL`.
    """
    if not stat.S_ISREG(found.st_mode):
        raise OSError(errno.EINVAL, "it is not a regular file")


def write_all(fd: int, content: bytes) -> None:
    """Write all bytes. A partial write reports no error; the next write raises it."""
    written = os.write(fd, content)
    while written < len(content):
        written += os.write(fd, memoryview(content)[written:])


def write_durably(fd: int, content: bytes) -> None:
    """Write all bytes, and wait until they are on the disk."""
    write_all(fd, content)
    sync(fd)


def _reason(error: OSError) -> str:
    if error.errno == errno.ELOOP:
        return (
            "it is a symbolic link, and links inside the store are not followed; put the file"
            " itself there"
        )
    said, advice = error.strerror or str(error), _ADVICE.get(error.errno or 0)
    return f"{said}. {advice}" if advice else said


# --------------------------------------------------------------------------------------------------
# Files that each host keeps for its own processes (`index_cache`)


KEPT = "index"
"""Name of the directory with the files that a host keeps for its own processes."""
STEPS = ".since"
"""Suffix of the files that record changes to another file."""


def boot() -> str:
    """Return the boot ID, or an ID of this process if there is no boot ID. Unsynced files are
    trusted only while the ID is the same.
    """
    return boot_id() or f"process {os.getpid()}"


@cache
def host() -> str:
    """Return this host's name as a part of a file name."""
    return re.sub(r"[^A-Za-z0-9.-]", "_", os.uname().nodename)[:64]
