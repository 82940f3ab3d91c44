"""Files and directories that only their user may read and write, whatever the umask."""

from __future__ import annotations

import hashlib
import os
import stat
from contextlib import suppress
from pathlib import Path

from midturn.files.user_directories import user_state

_LARGEST = 65_536


def ensure_private(path: Path) -> None:
    """Create a directory that only its owner may enter, and what is missing above it; one that is there is left as it is.

    Raises:
        FileExistsError: There is something else of this name.
    """
    if path.is_dir():
        return
    ensure_private(path.parent)
    try:
        make_private(path)
    except FileExistsError:
        if not path.is_dir():
            raise


def make_private(path: Path) -> None:
    """Create a directory that only its owner may enter, whatever the umask.

    Raises:
        FileExistsError: There is something of this name.
    """
    path.mkdir(mode=0o700)
    path.chmod(0o700)


def read_private(path: Path) -> bytes | None:
    """Read a small file that only its user can have written; None if there is none, or if others could have."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK)
    except OSError:
        return None  # absent, a link, or not ours to read: nothing that this user has written
    try:
        status = os.fstat(descriptor)
        ours = stat.S_ISREG(status.st_mode) and status.st_uid == os.geteuid() and not status.st_mode & 0o022
        return os.read(descriptor, _LARGEST) if ours else None
    finally:
        os.close(descriptor)


def write_private(path: Path, data: bytes) -> None:
    """Write a file (0600) whole or not at all, in place of the former one."""
    new = _temporary(path.parent, data)
    try:
        new.replace(path)
    finally:
        new.unlink(missing_ok=True)


def create_private(path: Path, data: bytes) -> None:
    """Write a file (0600) whole; one that is already there stays."""
    new = _temporary(path.parent, data)
    try:
        path.hardlink_to(new)
    except FileExistsError:
        pass  # another process was first
    finally:
        new.unlink(missing_ok=True)


def first_time(about: Path, what: str) -> bool:
    """Say whether this user is told `what` of a directory for the first time; where that cannot be kept, it always is."""
    real = os.fsencode(os.path.realpath(about))
    note = user_state() / "told" / f"{what}-{hashlib.sha256(real).hexdigest()[:16]}"
    if note.exists():
        return False
    with suppress(OSError):
        ensure_private(note.parent)
        create_private(note, real)
    return True


def _temporary(directory: Path, data: bytes) -> Path:
    import tempfile  # only a file that is written needs it

    descriptor, name = tempfile.mkstemp(dir=directory, prefix=".new-")
    try:
        with open(descriptor, "wb") as file:  # noqa: PTH123 (`mkstemp` opened it)
            os.fchmod(descriptor, 0o600)
            file.write(data)
            file.flush()
            os.fsync(descriptor)
    except BaseException:
        Path(name).unlink(missing_ok=True)
        raise
    return Path(name)
