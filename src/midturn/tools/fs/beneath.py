"""Access to files beneath the workspace root, safe against links and races."""

from __future__ import annotations

import ctypes
import errno
import functools
import hashlib
import os
import stat
import subprocess
import sys
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path, PurePosixPath
from typing import BinaryIO, Self, TypeAlias

from msgspec import Struct

from midturn.tools.command import CommandError, find_executable
from midturn.tools.fs.paths import (
    Missing,
    check_not_of_git,
    check_writable,
    explained,
    kind_of,
    shown,
)
from midturn.tools.returned import Rejected

# --------------------------------------------------------------------------------------------------
# Two Linux system calls that Python does not support: `openat2` and `renameat2`


_OPENAT2 = 437  # system call number, the same on every architecture
_NO_MAGICLINKS, _BENEATH = 0x02, 0x08
_NOREPLACE, _EXCHANGE = 1, 2
# maximum number of attempts to open a path. EAGAIN means that a path was renamed during resolution
_MAX_ATTEMPTS = 16
_UNSUPPORTED_ERRORS = frozenset({errno.ENOSYS, errno.EPERM, errno.EINVAL, errno.EOPNOTSUPP})

_Function: TypeAlias = Callable[..., int]


class Unsupported(Exception):  # noqa: N818 (not a failure)
    """The system or the file system does not support this call."""


class _OpenHow(ctypes.Structure):
    _fields_ = (("flags", ctypes.c_uint64), ("mode", ctypes.c_uint64), ("resolve", ctypes.c_uint64))


@functools.cache
def _function(name: str) -> _Function:
    if not sys.platform.startswith("linux"):
        raise Unsupported(name)
    try:
        return getattr(ctypes.CDLL(None, use_errno=True), name)
    except (AttributeError, OSError):
        raise Unsupported(name) from None


def open_beneath(folder: int, path: str, flags: int) -> int:
    """Open `path` below a folder. The kernel rejects the path if any component leads out of the
    folder.

    Raises:
        OSError: The same errors as for `open`, and EXDEV if the path leaves the folder.
        Unsupported: `openat2` is not available.
    """
    how = _OpenHow(flags | os.O_CLOEXEC, 0, _BENEATH | _NO_MAGICLINKS)
    for _ in range(_MAX_ATTEMPTS):
        found = _function("syscall")(
            _OPENAT2, folder, os.fsencode(path), ctypes.byref(how), ctypes.sizeof(how)
        )
        if found >= 0:
            return found
        if ctypes.get_errno() != errno.EAGAIN:
            break
    raise _error({errno.ENOSYS, errno.EPERM}, path)


def rename_exclusively(source: tuple[int, str], destination: tuple[int, str]) -> None:
    """Rename a file, unless the destination exists.

    Raises:
        FileExistsError: The destination exists.
        Unsupported: The system does not support this atomically.
    """
    _rename(source, destination, _NOREPLACE)


def exchange(source: tuple[int, str], destination: tuple[int, str]) -> None:
    """Exchange two files atomically.

    Raises:
        Unsupported: The system does not support it.
    """
    _rename(source, destination, _EXCHANGE)


def _rename(source: tuple[int, str], destination: tuple[int, str], flags: int) -> None:
    (from_folder, from_name), (to_folder, to_name) = source, destination
    if _function("renameat2")(
        from_folder, os.fsencode(from_name), to_folder, os.fsencode(to_name), flags
    ):
        raise _error(_UNSUPPORTED_ERRORS, to_name)


def _error(missing: frozenset[int] | set[int], path: str) -> Exception:
    number = ctypes.get_errno()
    if number in missing:
        return Unsupported(os.strerror(number))
    return OSError(number, os.strerror(number), path)


# --------------------------------------------------------------------------------------------------
# Queries to git. The options prevent git from starting programs that a repository configures


# both settings can name a program
_SAFE_OPTIONS = ("-c", "core.fsmonitor=false", "-c", "core.hooksPath=/dev/null")
_GIT_TIMEOUT = 10.0
_SHA1_DIGITS = 40


class Committed(Struct, frozen=True):
    """A file in the last commit. `content` is None if the file is not in the commit or cannot be
    read.
    """

    content: bytes | None


def uncommitted(root: Path, path: PurePosixPath, content: bytes) -> Committed | None:
    """Return the committed version of a file with uncommitted changes. Return None if no change
    would be lost, or if git is not in use.

    The contents are compared in this function, because `git status` would run filters from the
    repository's configuration. Ignored and untracked files count as uncommitted, because there is
    no other copy.
    """
    folder, name = (root / path).parent, path.name
    if not folder.is_dir() or not _is_repository(folder):
        return None
    found = _git(folder, "rev-parse", "--verify", "--quiet", f"HEAD:./{name}")
    identity = found.decode().strip() if found else ""
    if identity and identity == _identity(content, identity):
        return None
    committed = _git(folder, "cat-file", "blob", identity) if identity else None
    if committed is not None and committed == content.replace(b"\r\n", b"\n"):
        return None  # the text differs only in its line ends
    return Committed(committed)


def ignored(folder: Path) -> frozenset[str]:
    """Return the paths below a folder that git ignores, relative to the folder. Paths of folders
    end with a slash.
    """
    listed = _git(
        folder, "ls-files", "--others", "--ignored", "--exclude-standard", "--directory", "-z"
    )
    return frozenset(os.fsdecode(path) for path in (listed or b"").split(b"\0") if path)


def git_folders(path: Path) -> tuple[Path, ...]:
    """Return the git directories and the hooks directory for a file at `path`. These directories
    are not always named `.git`.
    """
    folder = next((above for above in path.parents if above.is_dir()), path)
    asked = ("--git-dir", "--git-common-dir", "--git-path", "hooks")
    output = _git(folder, "rev-parse", *asked, safely=("-c", "core.fsmonitor=false"))
    return tuple(folder / os.fsdecode(line) for line in (output or b"").splitlines())


def _is_repository(folder: Path) -> bool:
    """Return whether a folder is in a git repository. Also return True if git fails but there is a
    `.git`, for example because the repository has another owner.
    """
    if _git(folder, "rev-parse", "--is-inside-work-tree") == b"true\n":
        return True
    return _has_git() and any((above / ".git").exists() for above in (folder, *folder.parents))


def _has_git() -> bool:
    try:
        return bool(_program())
    except CommandError:
        return False


def _program() -> str:
    return str(find_executable("git", Path("/"), os.environ.get("PATH", os.defpath)))


def _git(folder: Path, *words: str, safely: Sequence[str] = _SAFE_OPTIONS) -> bytes | None:
    """Run git and return its output. Return None if git is missing, fails or times out."""
    inherited = {name: value for name, value in os.environ.items() if name in ("PATH", "HOME")}
    environment = {
        **inherited,
        "LC_ALL": "C",
        "GIT_OPTIONAL_LOCKS": "0",
        "GIT_TERMINAL_PROMPT": "0",
        "GIT_NO_LAZY_FETCH": "1",
    }
    command: Sequence[str] = (_program(), *safely, *words) if _has_git() else ()
    if not command:
        return None
    try:
        done = subprocess.run(  # noqa: S603 (an absolute program path, and no shell)
            command,
            cwd=folder,
            env=environment,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=_GIT_TIMEOUT,
            check=False,
            start_new_session=True,
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    return done.stdout if done.returncode == 0 else None


def _identity(content: bytes, like: str) -> str:
    """Return git's object id for content. `like` is an id that uses the same hash algorithm."""
    # the algorithm that the repository uses
    algorithm = hashlib.sha1 if len(like) == _SHA1_DIGITS else hashlib.sha256
    return algorithm(b"blob %d\0" % len(content) + content, usedforsecurity=False).hexdigest()


MAX_FILE_BYTES = 32 * 1024 * 1024  # maximum size of a file that is read into memory
_STAT_FLAGS = os.O_PATH if hasattr(os, "O_PATH") else os.O_RDONLY | os.O_NONBLOCK
_FOLDER_FLAGS = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC
_READ_FLAGS = os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY


class FileTooLarge(Rejected):
    """The file is larger than the limit."""


class Beneath:
    """The folder at `root`. It is open while this object is used as a context manager."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self._gits: dict[PurePosixPath, tuple[Path, ...]] = {}

    def __enter__(self) -> Self:
        self._folder = os.open(self.root, _FOLDER_FLAGS)
        return self

    def __exit__(self, *_: object) -> None:
        os.close(self._folder)

    def read(self, path: PurePosixPath) -> bytes:
        """Return the content of a regular file.

        Raises:
            Rejected: The file does not exist, is not a regular file, or is outside of the
                workspace.
        """
        with self.opened(path) as file:
            content = file.read(MAX_FILE_BYTES + 1)
        if len(content) > MAX_FILE_BYTES:
            raise FileTooLarge(
                f"{shown(str(path))} is larger than {MAX_FILE_BYTES // 2**20} MiB; file tools do"
                " not change or compare it."
            )
        return content

    @contextmanager
    def opened(self, path: PurePosixPath) -> Generator[BinaryIO, None, None]:
        """Open a regular file of any size for reading.

        Raises:
            Rejected: The file does not exist, is not a regular file, or is outside of the
                workspace.
        """
        # check before opening for reading, because opening a device may have effects
        with self._opened(path, _STAT_FLAGS) as looked:
            _check_regular(looked, path)
        with self._opened(path, _READ_FLAGS) as descriptor:
            _check_regular(descriptor, path)
            with explained(path), open(descriptor, "rb", closefd=False) as file:
                yield file

    @contextmanager
    def folder(self, path: PurePosixPath) -> Generator[int, None, None]:
        """Open a folder for reading its entries.

        Raises:
            Rejected: The path is not a folder, or is outside of the workspace.
        """
        with self._opened(path, _FOLDER_FLAGS) as descriptor:
            yield descriptor

    @contextmanager
    def parent(self, path: PurePosixPath) -> Generator[int, None, None]:
        """Open the folder of a file that will be written.

        Raises:
            Rejected: The folder is missing, protected or outside of the workspace. Both the given
                path and the real path of the opened folder are checked.
        """
        check_writable(path, self.root)
        with self._parent(path, path.parent, ()) as descriptor:
            yield descriptor

    @contextmanager
    def made_parent(self, path: PurePosixPath) -> Generator[int, None, None]:
        """Open the folder of a file that will be written, and create its missing parts.

        Raises:
            Rejected: The folder is protected or outside of the workspace. Both the given path and
                the real path of the opened folder are checked.
        """
        check_writable(path, self.root)
        missing: list[str] = []
        folder = path.parent
        while folder.parts and not self._is_there(folder):
            missing.insert(0, folder.name)
            folder = folder.parent
        with self._parent(path, folder, missing) as descriptor:
            yield descriptor

    @contextmanager
    def _parent(
        self, path: PurePosixPath, folder: PurePosixPath, missing: Sequence[str]
    ) -> Generator[int, None, None]:
        with self._opened(folder, _FOLDER_FLAGS) as descriptor:
            real = PurePosixPath(self._real(descriptor, folder), *missing, path.name)
            check_writable(real, self.root)
            check_not_of_git(real, self.root, self._of_git(folder))
            target = _make_folders(descriptor, folder, missing)
            try:
                yield target
            finally:
                os.close(target)

    def _of_git(self, folder: PurePosixPath) -> tuple[Path, ...]:
        """Return git's directories for a folder. The result is cached to keep the time between a
        check and the change short.
        """
        if folder not in self._gits:
            self._gits[folder] = git_folders(self.root / folder / "file")
        return self._gits[folder]

    def _is_there(self, path: PurePosixPath) -> bool:
        try:
            with self._opened(path, _FOLDER_FLAGS):
                return True
        except Missing:
            return False

    def _real(self, descriptor: int, folder: PurePosixPath) -> PurePosixPath:
        """Return the real path of an open folder. Systems without `/proc` return the given path,
        because no links were followed.
        """
        try:
            real = Path(f"/proc/self/fd/{descriptor}").readlink()
            return PurePosixPath(real.relative_to(Path(f"/proc/self/fd/{self._folder}").readlink()))
        except FileNotFoundError:
            return folder
        except ValueError:
            raise Rejected(f"{shown(str(folder))} leads out of the workspace.") from None

    @contextmanager
    def _opened(self, path: PurePosixPath, flags: int) -> Generator[int, None, None]:
        with explained(path):
            try:
                descriptor = open_beneath(self._folder, str(path), flags)
            except Unsupported:
                descriptor = _walk(self._folder, path, flags)
        try:
            yield descriptor
        finally:
            os.close(descriptor)


def _check_regular(descriptor: int, path: PurePosixPath) -> None:
    found = os.fstat(descriptor)
    if not stat.S_ISREG(found.st_mode):
        raise Rejected(f"{shown(str(path))} is {kind_of(found.st_mode)}, not a file.")
    if found.st_nlink > 1:
        raise Rejected(
            f"{shown(str(path))} has another name elsewhere (a hard link), which may be outside of"
            " the workspace."
        )


def _walk(folder: int, path: PurePosixPath, flags: int) -> int:
    """Open `path` one component at a time without following links, for systems without `openat2`.

    Raises:
        OSError: The same errors as for `open`.
    """
    if ".." in path.parts or path.is_absolute():
        raise OSError(errno.EXDEV, os.strerror(errno.EXDEV), str(path))
    *above, last = path.parts or (".",)
    current = os.dup(folder)
    try:
        for part in above:
            inner = os.open(part, _FOLDER_FLAGS | os.O_NOFOLLOW, dir_fd=current)
            os.close(current)
            current = inner
        return os.open(last, flags | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=current)
    finally:
        os.close(current)


def _make_folders(folder: int, path: PurePosixPath, names: Sequence[str]) -> int:
    """Create the missing folders below an open folder, and open the innermost one."""
    current = os.dup(folder)
    for name in names:
        path = path / name
        try:
            with explained(path):
                with suppress(FileExistsError):
                    os.mkdir(name, dir_fd=current)
                inner = os.open(name, _FOLDER_FLAGS | os.O_NOFOLLOW, dir_fd=current)
        finally:
            os.close(current)
        current = inner
    return current
