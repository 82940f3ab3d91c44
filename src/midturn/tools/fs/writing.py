"""Write files in the workspace atomically. A file is changed only if it still has the content that
was shown to a person.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Generator
from contextlib import contextmanager, suppress
from pathlib import PurePosixPath
from typing import TypeAlias

from midturn.tools.fs.beneath import Beneath, Unsupported, exchange, rename_exclusively
from midturn.tools.fs.paths import Missing, check_name, explained, kind_of, shown
from midturn.tools.returned import Rejected

FileIdentity: TypeAlias = tuple[int, str]  # an open folder and a name in it

_CREATE_FLAGS = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
_WRITE_PERMISSIONS = stat.S_IWUSR | stat.S_IWGRP | stat.S_IWOTH
_READ_FLAGS = os.O_RDONLY | os.O_NONBLOCK | os.O_NOFOLLOW | os.O_CLOEXEC


class Changed(Exception):  # noqa: N818 (not a failure; the caller asks again)
    """The file no longer has the content that was shown."""


def read_to_change(beneath: Beneath, path: PurePosixPath) -> bytes:
    """Return the content of a file that may be written.

    Raises:
        Missing: The file does not exist.
        Rejected: The file may not be written, or is not a regular file.
    """
    with beneath.parent(path) as folder, explained(path):
        _changeable((folder, path.name), path)
    return beneath.read(path)


def check_free(beneath: Beneath, path: PurePosixPath) -> None:
    """Check that a file can be created.

    Raises:
        Rejected: The path exists or is not writable.
    """
    check_name(path)
    with suppress(Missing), beneath.parent(path) as folder, explained(path):
        os.stat(path.name, dir_fd=folder, follow_symlinks=False)
        raise Rejected(f"{shown(str(path))} exists; choose another path, or delete it first.")


def create(beneath: Beneath, path: PurePosixPath, content: bytes) -> None:
    """Create a file and its missing folders.

    Raises:
        Changed: The file exists now.
        Rejected: The path is not writable.
    """
    with (
        beneath.made_parent(path) as folder,
        explained(path),
        _temporary(folder, content) as temporary,
    ):
        try:
            _move((folder, temporary), (folder, path.name))
        except FileExistsError:
            raise Changed from None


def replace(beneath: Beneath, path: PurePosixPath, content: bytes, expected: bytes) -> None:
    """Replace the content of a file if it is still `expected`. The owner and the permissions are
    kept.

    The new file is exchanged with the old one atomically. If the old file has different content,
    the exchange is reversed.

    Raises:
        Changed: The file has different content.
        Rejected: The path is not writable.
    """
    with beneath.parent(path) as folder, explained(path):
        place = (folder, path.name)
        found = _check(place, path, expected)
        with _temporary(folder, content, found) as temporary:
            try:
                exchange((folder, temporary), place)
            except Unsupported:
                os.rename(temporary, path.name, src_dir_fd=folder, dst_dir_fd=folder)
                return
            if _content((folder, temporary)) != expected:
                _put_back((folder, temporary), place, content)
                raise Changed


def _put_back(taken: FileIdentity, place: FileIdentity, ours: bytes) -> None:
    """Reverse an exchange. If the file was saved again in the meantime, the newer version is also
    put back.
    """
    inside: bytes | None = ours
    outside = _content(taken)
    while True:
        exchange(taken, place)
        expected, inside, outside = inside, outside, _content(taken)
        if outside == expected:
            return


def remove(beneath: Beneath, path: PurePosixPath, expected: bytes) -> None:
    """Delete a file if it still has the content `expected`.

    Raises:
        Changed: The file has different content.
        Rejected: The path is not writable.
    """
    with beneath.parent(path) as folder, explained(path):
        place = (folder, path.name)
        _check(place, path, expected)
        taken = (folder, _name())
        os.rename(path.name, taken[1], src_dir_fd=folder, dst_dir_fd=folder)
        if _content(taken) != expected:
            _move(taken, place)
            raise Changed
        os.unlink(taken[1], dir_fd=folder)


def move(beneath: Beneath, source: PurePosixPath, destination: PurePosixPath) -> None:
    """Move a file. Missing folders of the destination are created.

    Raises:
        Rejected: The destination exists, or one of the paths is not writable.
    """
    with beneath.parent(source) as source_folder:
        with explained(source):
            _changeable((source_folder, source.name), source)
        with beneath.made_parent(destination) as destination_folder, explained(destination):
            try:
                _move((source_folder, source.name), (destination_folder, destination.name))
            except FileExistsError:
                raise Rejected(
                    f"{shown(str(destination))} exists; choose another destination, or delete it"
                    " first."
                ) from None


def _check(place: FileIdentity, path: PurePosixPath, expected: bytes) -> os.stat_result:
    """Return the status of a file if it has the content `expected`."""
    found = _changeable(place, path)
    if _content(place) != expected:
        raise Changed
    return found


def _changeable(place: FileIdentity, path: PurePosixPath) -> os.stat_result:
    """Return the status of a regular file with write permission. A rename does not check the
    permission of the file, so this function does.
    """
    found = os.stat(place[1], dir_fd=place[0], follow_symlinks=False)
    if not stat.S_ISREG(found.st_mode):
        raise Rejected(
            f"{shown(str(path))} is {kind_of(found.st_mode)}; file tools change regular files only."
        )
    if not found.st_mode & _WRITE_PERMISSIONS:
        raise Rejected(f"{shown(str(path))} is read-only; file tools leave it as it is.")
    return found


def _content(place: FileIdentity) -> bytes | None:
    """Return the content of a file, or None if it is no longer a regular file."""
    with suppress(OSError):
        descriptor = os.open(place[1], _READ_FLAGS, dir_fd=place[0])
        with os.fdopen(descriptor, "rb") as file:
            return file.read() if stat.S_ISREG(os.fstat(descriptor).st_mode) else None
    return None


def _move(source: FileIdentity, destination: FileIdentity) -> None:
    """Rename a file, unless the destination exists.

    Raises:
        FileExistsError: The destination exists.
    """
    try:
        rename_exclusively(source, destination)
    except Unsupported:
        os.link(
            source[1],
            destination[1],
            src_dir_fd=source[0],
            dst_dir_fd=destination[0],
            follow_symlinks=False,
        )
        os.unlink(source[1], dir_fd=source[0])


@contextmanager
def _temporary(
    folder: int, content: bytes, like: os.stat_result | None = None
) -> Generator[str, None, None]:
    """Write a temporary file in the same folder. It has default permissions, or the owner and
    permissions of the file `like`.

    On exit, the temporary file is deleted if it still exists.
    """
    name = _name()
    descriptor = os.open(name, _CREATE_FLAGS, 0o666 if like is None else 0o600, dir_fd=folder)
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(content)
            file.flush()
            if like is not None:
                # only root can change the owner; the user's own files need no change
                with suppress(PermissionError):
                    os.fchown(descriptor, like.st_uid, like.st_gid)
                os.fchmod(descriptor, stat.S_IMODE(like.st_mode))
            os.fsync(descriptor)
        yield name
    finally:
        with suppress(FileNotFoundError):
            os.unlink(name, dir_fd=folder)


def _name() -> str:
    return f".midturn-{os.urandom(8).hex()}.tmp"
