"""The workspace's folder: everything is opened beneath it, whatever links and races try."""

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
from midturn.tools.fs.paths import Missing, check_not_of_git, check_writable, explained, kind_of, shown
from midturn.tools.returned import Rejected

# ----------------------------------------------------------------------------------------------------------------------
# Two Linux system calls that Python does not offer: `openat2` and `renameat2`


_OPENAT2 = 437  # the same number on every architecture
_NO_MAGICLINKS, _BENEATH = 0x02, 0x08
_NOREPLACE, _EXCHANGE = 1, 2
_TRIES = 16  # a path that is renamed while it is walked is refused with EAGAIN
_MISSING = frozenset({errno.ENOSYS, errno.EPERM, errno.EINVAL, errno.EOPNOTSUPP})

_Function: TypeAlias = Callable[..., int]


class Unsupported(Exception):  # noqa: N818 (a finding, not a failure)
    """The system does not offer this call, or not for this file system."""


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
    """Open `path` below the folder; the kernel refuses whatever leads out of it, at every step of the walk.

    Raises:
        OSError: As `open`; EXDEV where the path leaves the folder.
        Unsupported: There is no `openat2`.
    """
    how = _OpenHow(flags | os.O_CLOEXEC, 0, _BENEATH | _NO_MAGICLINKS)
    for _ in range(_TRIES):
        found = _function("syscall")(_OPENAT2, folder, os.fsencode(path), ctypes.byref(how), ctypes.sizeof(how))
        if found >= 0:
            return found
        if ctypes.get_errno() != errno.EAGAIN:
            break
    raise _error({errno.ENOSYS, errno.EPERM}, path)


def rename_exclusively(source: tuple[int, str], destination: tuple[int, str]) -> None:
    """Rename, unless the destination exists.

    Raises:
        FileExistsError: It does.
        Unsupported: The system cannot tell in one step.
    """
    _rename(source, destination, _NOREPLACE)


def exchange(source: tuple[int, str], destination: tuple[int, str]) -> None:
    """Let two files change places in one step.

    Raises:
        Unsupported: The system cannot.
    """
    _rename(source, destination, _EXCHANGE)


def _rename(source: tuple[int, str], destination: tuple[int, str], flags: int) -> None:
    (from_folder, from_name), (to_folder, to_name) = source, destination
    if _function("renameat2")(from_folder, os.fsencode(from_name), to_folder, os.fsencode(to_name), flags):
        raise _error(_MISSING, to_name)


def _error(missing: frozenset[int] | set[int], path: str) -> Exception:
    number = ctypes.get_errno()
    if number in missing:
        return Unsupported(os.strerror(number))
    return OSError(number, os.strerror(number), path)


# ----------------------------------------------------------------------------------------------------------------------
# Git's knowledge of a file, asked so that nothing configured by a repository runs


_SAFELY = ("-c", "core.fsmonitor=false", "-c", "core.hooksPath=/dev/null")  # both may name programs
_SECONDS = 10.0
_SHA1_DIGITS = 40


class Committed(Struct, frozen=True):
    """A file in the last commit; None where it holds no such file, or cannot show it."""

    content: bytes | None


def uncommitted(root: Path, path: PurePosixPath, content: bytes) -> Committed | None:
    """Return the committed version of a file whose content differs from it; None where nothing would be lost, or git is not in use.

    The contents are compared here: `git status` would run the filters that a repository's configuration names. A file that git
    ignores or does not know counts as uncommitted, for there is no other copy.
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
        return None  # checked out with other line ends
    return Committed(committed)


def ignored(folder: Path) -> frozenset[str]:
    """Return what git ignores below a folder, by path relative to it; folders end in a slash."""
    listed = _git(folder, "ls-files", "--others", "--ignored", "--exclude-standard", "--directory", "-z")
    return frozenset(os.fsdecode(path) for path in (listed or b"").split(b"\0") if path)


def git_folders(path: Path) -> tuple[Path, ...]:
    """Return where git keeps itself and finds its hooks, for a writer at `path`: not always in a folder called `.git`."""
    folder = next((above for above in path.parents if above.is_dir()), path)
    asked = ("--git-dir", "--git-common-dir", "--git-path", "hooks")
    said = _git(folder, "rev-parse", *asked, safely=("-c", "core.fsmonitor=false"))
    return tuple(folder / os.fsdecode(line) for line in (said or b"").splitlines())


def _is_repository(folder: Path) -> bool:
    """Say whether git watches over this folder; if git fails for another reason (another owner), assume that it does."""
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


def _git(folder: Path, *words: str, safely: Sequence[str] = _SAFELY) -> bytes | None:
    """Run git; None where it is missing, fails or hangs."""
    kept = {name: value for name, value in os.environ.items() if name in ("PATH", "HOME")}
    environment = {**kept, "LC_ALL": "C", "GIT_OPTIONAL_LOCKS": "0", "GIT_TERMINAL_PROMPT": "0", "GIT_NO_LAZY_FETCH": "1"}
    command: Sequence[str] = (_program(), *safely, *words) if _has_git() else ()
    if not command:
        return None
    try:
        done = subprocess.run(  # noqa: S603 (an absolute program, and words that no shell reads)
            command,
            cwd=folder,
            env=environment,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=_SECONDS,
            check=False,
            start_new_session=True,
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    return done.stdout if done.returncode == 0 else None


def _identity(content: bytes, like: str) -> str:
    """Return the name that git gives to a content, in the kind of hash that `like` is."""
    algorithm = hashlib.sha1 if len(like) == _SHA1_DIGITS else hashlib.sha256  # git's choice
    return algorithm(b"blob %d\0" % len(content) + content, usedforsecurity=False).hexdigest()


LARGEST = 32 * 1024 * 1024  # bytes of a file that is read
_LOOK = os.O_PATH if hasattr(os, "O_PATH") else os.O_RDONLY | os.O_NONBLOCK
_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC
_READ = os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY


class FileTooLarge(Rejected):
    """The file has more bytes than are held."""


class Beneath:
    """The folder at `root`, held open; use it as a context manager."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self._gits: dict[PurePosixPath, tuple[Path, ...]] = {}

    def __enter__(self) -> Self:
        self._folder = os.open(self.root, _FOLDER)
        return self

    def __exit__(self, *_: object) -> None:
        os.close(self._folder)

    def read(self, path: PurePosixPath) -> bytes:
        """Return the content of a regular file.

        Raises:
            Rejected: There is no such file, it is not a regular one, or the path leads out of the workspace.
        """
        with self.opened(path) as file:
            content = file.read(LARGEST + 1)
        if len(content) > LARGEST:
            raise FileTooLarge(f"{shown(str(path))} is larger than {LARGEST // 2**20} MiB; file tools do not change or compare it.")
        return content

    @contextmanager
    def opened(self, path: PurePosixPath) -> Generator[BinaryIO, None, None]:
        """Open a regular file, however large, to read some of it.

        Raises:
            Rejected: As `read`.
        """
        with self._opened(path, _LOOK) as looked:  # what is not a regular file is not even opened: a device may react to that
            _check_regular(looked, path)
        with self._opened(path, _READ) as descriptor:
            _check_regular(descriptor, path)
            with explained(path), open(descriptor, "rb", closefd=False) as file:
                yield file

    @contextmanager
    def folder(self, path: PurePosixPath) -> Generator[int, None, None]:
        """Open a folder to look around in it.

        Raises:
            Rejected: It is not a folder, or the path leads out of the workspace.
        """
        with self._opened(path, _FOLDER) as descriptor:
            yield descriptor

    @contextmanager
    def parent(self, path: PurePosixPath) -> Generator[int, None, None]:
        """Open the folder of a file that is to be written.

        Raises:
            Rejected: The folder is missing, ours, or outside; the check is made on what was opened, not on what the path says.
        """
        check_writable(path, self.root)
        with self._parent(path, path.parent, ()) as descriptor:
            yield descriptor

    @contextmanager
    def made_parent(self, path: PurePosixPath) -> Generator[int, None, None]:
        """Open the folder of a file that is to be written, and create what is missing of it.

        Raises:
            Rejected: The folder is ours, or outside; the check is made on what was opened, not on what the path says.
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
    def _parent(self, path: PurePosixPath, folder: PurePosixPath, missing: Sequence[str]) -> Generator[int, None, None]:
        with self._opened(folder, _FOLDER) as descriptor:
            real = PurePosixPath(self._real(descriptor, folder), *missing, path.name)
            check_writable(real, self.root)
            check_not_of_git(real, self.root, self._of_git(folder))
            made = _made(descriptor, folder, missing)
            try:
                yield made
            finally:
                os.close(made)

    def _of_git(self, folder: PurePosixPath) -> tuple[Path, ...]:
        """Return what git keeps for a folder; it is asked once, so that a change follows soon upon its check."""
        if folder not in self._gits:
            self._gits[folder] = git_folders(self.root / folder / "file")
        return self._gits[folder]

    def _is_there(self, path: PurePosixPath) -> bool:
        try:
            with self._opened(path, _FOLDER):
                return True
        except Missing:
            return False

    def _real(self, descriptor: int, folder: PurePosixPath) -> PurePosixPath:
        """Return where an open folder really is. Without `/proc` there was no link on the way, so that it is where the path says."""
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
        raise Rejected(f"{shown(str(path))} has another name elsewhere (a hard link), which may be outside of the workspace.")


def _walk(folder: int, path: PurePosixPath, flags: int) -> int:
    """Open `path` one component at a time and follow no link: for systems without `openat2`.

    Raises:
        OSError: As `open`.
    """
    if ".." in path.parts or path.is_absolute():
        raise OSError(errno.EXDEV, os.strerror(errno.EXDEV), str(path))
    *above, last = path.parts or (".",)
    here = os.dup(folder)
    try:
        for part in above:
            inner = os.open(part, _FOLDER | os.O_NOFOLLOW, dir_fd=here)
            os.close(here)
            here = inner
        return os.open(last, flags | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=here)
    finally:
        os.close(here)


def _made(folder: int, path: PurePosixPath, names: Sequence[str]) -> int:
    """Open a chain of new folders below an open one."""
    here = os.dup(folder)
    for name in names:
        path = path / name
        try:
            with explained(path):
                with suppress(FileExistsError):
                    os.mkdir(name, dir_fd=here)
                inner = os.open(name, _FOLDER | os.O_NOFOLLOW, dir_fd=here)
        finally:
            os.close(here)
        here = inner
    return here
