"""Private files of the user.

They are written atomically, and trusted only if no other user could have written them.
"""

from __future__ import annotations

import errno
import os
import pwd
import stat
from collections.abc import Iterable
from pathlib import Path
from typing import BinaryIO

from midturn.errors import ConfigError

# --------------------------------------------------------------------------------------------------
# Paths that tools may not write: the stores and the configuration files of this process


_protected_paths: set[str] = set()


def protect(path: str | os.PathLike[str]) -> str:
    """Protect a file or directory from tools, even if it does not exist yet. Return its real path.

    A real path that is already protected is not resolved again. If the path becomes a link later,
    `is_protected` follows the link.
    """
    if (given := os.fspath(path)) in _protected_paths:
        return given
    real = os.path.realpath(path)
    _protected_paths.add(real)
    return real


def protected_paths() -> tuple[Path, ...]:
    """Return the real paths of all protected files and directories."""
    return tuple(map(Path, sorted(_protected_paths)))


def is_protected(path: Path, root: Path) -> bool:
    """Return whether a path is protected, or is inside a protected directory.

    Protected directories that contain the whole workspace `root` are ignored, because they would
    block every file.
    """
    workspace = os.path.realpath(root)
    return _leads_into(
        path, [protected for protected in _protected_paths if not _is_in(workspace, protected)]
    )


def is_within(path: Path, *folders: Path) -> bool:
    """Return whether a path is one of `folders` or inside one of them.

    Paths are compared by real path and by device and inode. If a path does not exist, its parent
    directories are compared.
    """
    return _leads_into(path, [os.path.realpath(folder) for folder in folders])


def _leads_into(path: Path, folders: list[str]) -> bool:
    """Return whether a path is in one of the real paths `folders`, compared by name and by inode.

    There can be a thousand folders, for example one for each store.
    """
    real = os.path.realpath(path)
    if any(_is_in(real, folder) for folder in folders):
        return True
    identities = {identity for folder in folders if (identity := _identity(folder))}
    return any(_identity(parent) in identities for parent in (real, *Path(real).parents))


def _is_in(path: str, folder: str) -> bool:
    return path == folder or path.startswith(folder.rstrip("/") + "/")


def _identity(path: str | Path) -> tuple[int, int] | None:
    try:
        found = os.stat(path)  # noqa: PTH116 - building a thousand Path objects takes as long as the calls
    except OSError:
        return None
    return found.st_dev, found.st_ino


# --------------------------------------------------------------------------------------------------
# The user's directories, by the XDG rules on every system.
# Every command needs them at start-up, and the library for these rules is slow to import.


_APP_NAME = "midturn"


def user_config() -> Path:
    """Return `~/.config/midturn`, or `$XDG_CONFIG_HOME/midturn`.

    Raises:
        ConfigError: Neither the variable nor a home directory is known.
    """
    return _directory("XDG_CONFIG_HOME", ".config")


def user_state() -> Path:
    """Return `~/.local/state/midturn`, or `$XDG_STATE_HOME/midturn`.

    Raises:
        ConfigError: See `user_config`.
    """
    return _directory("XDG_STATE_HOME", ".local/state")


def user_data() -> Path:
    """Return `~/.local/share/midturn`, or `$XDG_DATA_HOME/midturn`.

    Raises:
        ConfigError: See `user_config`.
    """
    return _directory("XDG_DATA_HOME", ".local/share")


def user_cache() -> Path:
    """Return `~/.cache/midturn`, or `$XDG_CACHE_HOME/midturn`.

    Raises:
        ConfigError: See `user_config`.
    """
    return _directory("XDG_CACHE_HOME", ".cache")


def own_directories() -> tuple[Path, ...]:
    """Return the user's configuration, state and data directories. Tools cannot access them.

    Raises:
        ConfigError: See `user_config`.
    """
    return (user_config(), user_state(), user_data())


def _directory(variable: str, below_home: str) -> Path:
    """Resolve an XDG variable. A relative value is ignored, as the XDG specification requires."""
    given = os.environ.get(variable, "")
    return (
        Path(given, _APP_NAME)
        if given.startswith("/")
        else Path(_home(variable), below_home, _APP_NAME)
    )


def _home(variable: str) -> str:
    """Return `$HOME`, or the home directory from the user database if `HOME` is not an absolute
    path.
    """
    home = os.environ.get("HOME", "")
    if home.startswith("/"):
        return home

    try:
        return pwd.getpwuid(os.getuid()).pw_dir
    except KeyError:
        raise ConfigError(
            f"Your home directory is unknown. Set `HOME` or `{variable}` to an absolute path."
        ) from None


# --------------------------------------------------------------------------------------------------
# Files and directories that only their owner may read and write, independent of the umask


_MAX_PRIVATE_BYTES = 65_536
_MEGABYTE = 1024 * 1024
MAX_IMPORT_BYTES = 1024 * _MEGABYTE
"""Maximum size in bytes of a conversation that is imported from one file."""


def ensure_private(path: Path) -> None:
    """Create a directory with mode 0700, and its missing parents.

    The mode of an existing directory is not changed.

    Raises:
        FileExistsError: The path exists and is not a directory.
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
    """Create a directory with mode 0700, independent of the umask.

    Raises:
        FileExistsError: The path exists.
    """
    path.mkdir(mode=0o700)
    path.chmod(0o700)


def read_private(path: Path) -> bytes | None:
    """Read a small file that only its owner could have written.

    Return None if the file is missing or other users can write it.
    """
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK)
    except OSError:
        return None  # the file is missing, a link, or unreadable
    try:
        status = os.fstat(descriptor)
        ours = (
            stat.S_ISREG(status.st_mode)
            and status.st_uid == os.geteuid()
            and not status.st_mode & 0o022
        )
        return os.read(descriptor, _MAX_PRIVATE_BYTES) if ours else None
    finally:
        os.close(descriptor)


def read_regular(path: str | os.PathLike[str], at_most: int) -> bytes:
    """Read a whole file of any owner.

    The call is safe for pipes, devices and endless files: it does not block or exhaust memory.

    Raises:
        OSError: The file cannot be opened, is a link or not a regular file, or is larger than
            `at_most` bytes.
    """
    with _regular(path) as file:
        size = os.fstat(file.fileno()).st_size
        content = file.read(at_most + 1) if size <= at_most else b""
        if len(content) > at_most or size > at_most:
            raise OSError(errno.EFBIG, f"Larger than {at_most // _MEGABYTE} MiB", os.fspath(path))
        return content


def read_first_line(path: str | os.PathLike[str], at_most: int) -> bytes:
    """Read the first line of a file of any owner, at most `at_most` bytes.

    Special files are handled as by `read_regular`.

    Raises:
        OSError: The file cannot be opened, or is a link or not a regular file.
    """
    with _regular(path) as file:
        return file.readline(at_most)


def _regular(path: str | os.PathLike[str]) -> BinaryIO:
    """Open a regular file for reading. Opening a pipe does not block."""
    file = open(  # noqa: PTH123, SIM115
        os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NOCTTY | os.O_NOFOLLOW | os.O_NONBLOCK),
        "rb",
    )
    if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
        file.close()
        raise OSError(errno.EINVAL, "Not a regular file", os.fspath(path))
    return file


def write_private(path: Path, data: bytes) -> None:
    """Replace a file (mode 0600) atomically."""
    write_parts_private(path, (data,))


def write_parts_private(path: Path, parts: Iterable[bytes]) -> None:
    """Replace a file (mode 0600) atomically, with data that arrives in parts."""
    new = _temporary(path.parent, parts)
    try:
        new.replace(path)
    finally:
        new.unlink(missing_ok=True)


def create_private(path: Path, data: bytes) -> None:
    """Write a file (mode 0600) atomically. An existing file is not changed."""
    new = _temporary(path.parent, (data,))
    try:
        path.hardlink_to(new)
    except FileExistsError:
        pass  # another process created the file first
    finally:
        new.unlink(missing_ok=True)


def _temporary(directory: Path, parts: Iterable[bytes]) -> Path:
    import tempfile  # only needed for writing, so most commands never import this module

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
