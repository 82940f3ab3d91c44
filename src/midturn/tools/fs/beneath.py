"""The workspace's folder: everything is opened beneath it, whatever links and races try."""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Generator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path, PurePosixPath
from typing import BinaryIO, Self

from midturn.tools.fs.git import git_folders
from midturn.tools.fs.paths import check_not_of_git, check_writable, shown
from midturn.tools.fs.problems import Missing, explained, kind_of
from midturn.tools.fs.system_calls import Unsupported, open_beneath
from midturn.tools.returned import Rejected

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
