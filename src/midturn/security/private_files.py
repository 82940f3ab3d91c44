"""Small files of the user's own: written whole, and believed only where no other user can have written them."""

from __future__ import annotations

import errno
import os
import pwd
import stat
from collections.abc import Iterable
from pathlib import Path
from typing import BinaryIO

from midturn.errors import ConfigError

# ----------------------------------------------------------------------------------------------------------------------
# What this process keeps conversations in, and reads its configuration from: no tool writes there, however it is reached


_KNOWN: set[str] = set()


def keep(path: str | os.PathLike[str]) -> str:
    """Count a file or a directory, there or not, among what is our own from now on; return its real path.

    What is known by its real path is not looked at again: should a link stand there by now, `is_kept` sees where it leads.
    """
    if (given := os.fspath(path)) in _KNOWN:
        return given
    real = os.path.realpath(path)
    _KNOWN.add(real)
    return real


def kept() -> tuple[Path, ...]:
    """Return what is our own, as it really is."""
    return tuple(map(Path, sorted(_KNOWN)))


def is_kept(path: Path, root: Path) -> bool:
    """Say whether a path is, or lies in, what is our own. What the whole workspace `root` lies in does not count: it cannot be meant."""
    workspace = os.path.realpath(root)
    return _leads_into(path, [one for one in _KNOWN if not _is_in(workspace, one)])


def is_within(path: Path, *folders: Path) -> bool:
    """Say whether a path is, or lies in, one of these: by where it leads, and by what is there (device and inode).

    What is not there is known by the directory that it would be in.
    """
    return _leads_into(path, [os.path.realpath(folder) for folder in folders])


def _leads_into(path: Path, ours: list[str]) -> bool:
    """Look at where a path leads, and at what is there. `ours` are free of links: a process may have opened a thousand stores."""
    real = os.path.realpath(path)
    if any(_is_in(real, one) for one in ours):
        return True
    there = {identity for one in ours if (identity := _identity(one))}
    return any(_identity(place) in there for place in (real, *Path(real).parents))


def _is_in(path: str, folder: str) -> bool:
    return path == folder or path.startswith(folder.rstrip("/") + "/")


def _identity(path: str | Path) -> tuple[int, int] | None:
    try:
        found = os.stat(path)  # noqa: PTH116 - a Path for each of a thousand takes as long as looking
    except OSError:
        return None
    return found.st_dev, found.st_ino


# ----------------------------------------------------------------------------------------------------------------------
# Where a user's own files are: the XDG rules, on every system.
# Every command asks for these at its start. The rules are a dozen lines; the library for them loads compression and temporary files first.


_OURS = "midturn"


def user_config() -> Path:
    """Return `~/.config/midturn`, or the one under `XDG_CONFIG_HOME`.

    Raises:
        ConfigError: Neither the variable nor a home directory says where.
    """
    return _directory("XDG_CONFIG_HOME", ".config")


def user_state() -> Path:
    """Return `~/.local/state/midturn`, or the one under `XDG_STATE_HOME`.

    Raises:
        ConfigError: As for `user_config`.
    """
    return _directory("XDG_STATE_HOME", ".local/state")


def user_data() -> Path:
    """Return `~/.local/share/midturn`, or the one under `XDG_DATA_HOME`.

    Raises:
        ConfigError: As for `user_config`.
    """
    return _directory("XDG_DATA_HOME", ".local/share")


def user_cache() -> Path:
    """Return `~/.cache/midturn`, or the one under `XDG_CACHE_HOME`.

    Raises:
        ConfigError: As for `user_config`.
    """
    return _directory("XDG_CACHE_HOME", ".cache")


def own_directories() -> tuple[Path, ...]:
    """Return where the user's configuration, state and data are: what no tool reaches.

    Raises:
        ConfigError: As for `user_config`.
    """
    return (user_config(), user_state(), user_data())


def _directory(variable: str, below_home: str) -> Path:
    """Take what the variable says, unless that is relative: then it does not count, as XDG has it."""
    given = os.environ.get(variable, "")
    return Path(given, _OURS) if given.startswith("/") else Path(_home(variable), below_home, _OURS)


def _home(variable: str) -> str:
    """Return the user's home; where `HOME` is no absolute path, the system knows it."""
    home = os.environ.get("HOME", "")
    if home.startswith("/"):
        return home

    try:
        return pwd.getpwuid(os.getuid()).pw_dir
    except KeyError:
        raise ConfigError(f"Nothing says where your own files are. Set `HOME` or `{variable}` to an absolute path.") from None


# ----------------------------------------------------------------------------------------------------------------------
# Files and directories that only their user may read and write, whatever the umask


_LARGEST = 65_536
_MEGABYTE = 1024 * 1024
LONGEST_IMPORT = 1024 * _MEGABYTE
"""Bytes of a conversation that is taken in from a single file."""


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


def read_regular(path: str | os.PathLike[str], at_most: int) -> bytes:
    """Read a file of any owner, whole. A pipe, a device or a file without end in its place neither hangs us nor fills the memory.

    Raises:
        OSError: It cannot be opened, is a link or no regular file, or has more bytes than `at_most`.
    """
    with _regular(path) as file:
        size = os.fstat(file.fileno()).st_size
        content = file.read(at_most + 1) if size <= at_most else b""
        if len(content) > at_most or size > at_most:
            raise OSError(errno.EFBIG, f"Larger than {at_most // _MEGABYTE} MiB", os.fspath(path))
        return content


def read_first_line(path: str | os.PathLike[str], at_most: int) -> bytes:
    """Read the first line of a file of any owner, or as many bytes of it as `at_most` says, in the same safety.

    Raises:
        OSError: It cannot be opened, is a link or no regular file.
    """
    with _regular(path) as file:
        return file.readline(at_most)


def _regular(path: str | os.PathLike[str]) -> BinaryIO:
    """Open a regular file to read it, without waiting for another end that a pipe has."""
    file = open(os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NOCTTY | os.O_NOFOLLOW | os.O_NONBLOCK), "rb")  # noqa: PTH123, SIM115
    if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
        file.close()
        raise OSError(errno.EINVAL, "Not a regular file", os.fspath(path))
    return file


def write_private(path: Path, data: bytes) -> None:
    """Write a file (0600) whole or not at all, in place of the former one."""
    write_parts_private(path, (data,))


def write_parts_private(path: Path, parts: Iterable[bytes]) -> None:
    """Write a file (0600) that comes in parts, whole or not at all, in place of the former one."""
    new = _temporary(path.parent, parts)
    try:
        new.replace(path)
    finally:
        new.unlink(missing_ok=True)


def create_private(path: Path, data: bytes) -> None:
    """Write a file (0600) whole; one that is already there stays."""
    new = _temporary(path.parent, (data,))
    try:
        path.hardlink_to(new)
    except FileExistsError:
        pass  # another process was first
    finally:
        new.unlink(missing_ok=True)


def _temporary(directory: Path, parts: Iterable[bytes]) -> Path:
    import tempfile  # only a file that is written needs it

    descriptor, name = tempfile.mkstemp(dir=directory, prefix=".new-")
    try:
        with open(descriptor, "wb") as file:  # noqa: PTH123 (`mkstemp` opened it)
            os.fchmod(descriptor, 0o600)
            file.writelines(parts)
            file.flush()
            os.fsync(descriptor)
    except BaseException:
        Path(name).unlink(missing_ok=True)
        raise
    return Path(name)
