"""Writing beneath the workspace: whole or not at all, and only over the content that was shown."""

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

FileIdentity: TypeAlias = tuple[int, str]  # an open folder, and a name in it

_NEW = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
_WRITABLE = stat.S_IWUSR | stat.S_IWGRP | stat.S_IWOTH
_LOOK = os.O_RDONLY | os.O_NONBLOCK | os.O_NOFOLLOW | os.O_CLOEXEC


class Changed(Exception):  # noqa: N818 (a finding: the writer asks again)
    """The file is no longer what was shown."""


def read_to_change(beneath: Beneath, path: PurePosixPath) -> bytes:
    """Return the content of a file that may be written.

    Raises:
        Missing: There is none.
        Rejected: It may not, or is not a regular file.
    """
    with beneath.parent(path) as folder, explained(path):
        _changeable((folder, path.name), path)
    return beneath.read(path)


def check_free(beneath: Beneath, path: PurePosixPath) -> None:
    """Check that a file may be created.

    Raises:
        Rejected: There is something already, or the path is not writable.
    """
    check_name(path)
    with suppress(Missing), beneath.parent(path) as folder, explained(path):
        os.stat(path.name, dir_fd=folder, follow_symlinks=False)
        raise Rejected(f"{shown(str(path))} exists; choose another path, or delete it first.")


def create(beneath: Beneath, path: PurePosixPath, content: bytes) -> None:
    """Create a file, and the folders that it is missing.

    Raises:
        Changed: There is a file by now.
        Rejected: The path is not writable.
    """
    with beneath.made_parent(path) as folder, explained(path), _temporary(folder, content) as temporary:
        try:
            _move((folder, temporary), (folder, path.name))
        except FileExistsError:
            raise Changed from None


def replace(beneath: Beneath, path: PurePosixPath, content: bytes, expected: bytes) -> None:
    """Put `content` in place of a file that holds `expected`; its owner and permissions stay.

    The two files change places in one step. What came out is looked at then: a change that slipped in between goes back.

    Raises:
        Changed: The file holds something else.
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
    """Put back what was taken out by mistake. What was saved meanwhile comes out then: it is newer, and goes back, too."""
    inside: bytes | None = ours
    outside = _content(taken)
    while True:
        exchange(taken, place)
        expected, inside, outside = inside, outside, _content(taken)
        if outside == expected:
            return


def remove(beneath: Beneath, path: PurePosixPath, expected: bytes) -> None:
    """Delete a file that holds `expected`.

    Raises:
        Changed: The file holds something else.
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
    """Move a file; the folders that the destination is missing are created.

    Raises:
        Rejected: The destination exists, or one of the paths is not writable.
    """
    with beneath.parent(source) as here:
        with explained(source):
            _changeable((here, source.name), source)
        with beneath.made_parent(destination) as there, explained(destination):
            try:
                _move((here, source.name), (there, destination.name))
            except FileExistsError:
                raise Rejected(f"{shown(str(destination))} exists; choose another destination, or delete it first.") from None


def _check(place: FileIdentity, path: PurePosixPath, expected: bytes) -> os.stat_result:
    """Return what is known of a file that holds `expected`."""
    found = _changeable(place, path)
    if _content(place) != expected:
        raise Changed
    return found


def _changeable(place: FileIdentity, path: PurePosixPath) -> os.stat_result:
    """Return what is known of a regular file that may be written: a rename would get around missing permissions."""
    found = os.stat(place[1], dir_fd=place[0], follow_symlinks=False)
    if not stat.S_ISREG(found.st_mode):
        raise Rejected(f"{shown(str(path))} is {kind_of(found.st_mode)}; file tools change regular files only.")
    if not found.st_mode & _WRITABLE:
        raise Rejected(f"{shown(str(path))} is read-only; file tools leave it as it is.")
    return found


def _content(place: FileIdentity) -> bytes | None:
    """Return what a file holds; None where it is not a regular file any more."""
    with suppress(OSError):
        descriptor = os.open(place[1], _LOOK, dir_fd=place[0])
        with os.fdopen(descriptor, "rb") as file:
            return file.read() if stat.S_ISREG(os.fstat(descriptor).st_mode) else None
    return None


def _move(source: FileIdentity, destination: FileIdentity) -> None:
    """Rename, never over a file.

    Raises:
        FileExistsError: There is one.
    """
    try:
        rename_exclusively(source, destination)
    except Unsupported:
        os.link(source[1], destination[1], src_dir_fd=source[0], dst_dir_fd=destination[0], follow_symlinks=False)
        os.unlink(source[1], dir_fd=source[0])


@contextmanager
def _temporary(folder: int, content: bytes, like: os.stat_result | None = None) -> Generator[str, None, None]:
    """Write a file beside the one that it will become, with the permissions of any new file, or owner and permissions of `like`.

    Whatever has its name at the end is removed.
    """
    name = _name()
    descriptor = os.open(name, _NEW, 0o666 if like is None else 0o600, dir_fd=folder)
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(content)
            file.flush()
            if like is not None:
                with suppress(PermissionError):  # only root may give a file away; ours are ours already
                    os.fchown(descriptor, like.st_uid, like.st_gid)
                os.fchmod(descriptor, stat.S_IMODE(like.st_mode))
            os.fsync(descriptor)
        yield name
    finally:
        with suppress(FileNotFoundError):
            os.unlink(name, dir_fd=folder)


def _name() -> str:
    return f".midturn-{os.urandom(8).hex()}.tmp"
