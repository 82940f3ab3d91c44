"""A workspace: a directory with `.midturn/`, where its conversations live and one of them is the current one."""

from __future__ import annotations

import hashlib
import os
import re
import stat
from pathlib import Path

from midturn.errors import StoreError
from midturn.files.private import ensure_private
from midturn.store.file_conversations import FileConversations
from midturn.store.folder import Folder, telling

NAME = ".midturn"
_ID = re.compile(r"[0-9]{1,20}")
_IGNORE = """\
# Nothing in here is committed but the configuration. To share conversations as well, add these lines at the end. They leave out what
# belongs to one machine: the index of open turns, locks, links, and answers that are on their way.
#   !conversations/
#   !conversations/*-*/
#   !conversations/*-*/events.jsonl
#   !conversations/*-*/metadata.json
*
!.gitignore
!config.toml
!config.d/
!config.d/**
"""


class Workspace:
    """The directory `root` with its `.midturn/`; `home` is the latter."""

    def __init__(self, root: Path) -> None:
        self.root = root.absolute()
        self.home = self.root / NAME

    @classmethod
    def find(cls, start: Path) -> Workspace | None:
        """Return the workspace that `start` lies in: the nearest directory from there upwards that has a `.midturn/`.

        One that another user has put into a shared directory such as `/tmp` does not count.

        Raises:
            StoreError: It is a symbolic link.
        """
        absolute = start.absolute()
        return next((cls(root) for root in (absolute, *absolute.parents) if _is_ours(root)), None)

    @classmethod
    def make(cls, root: Path) -> Workspace:
        """Make `root` a workspace, unless it is one.

        Raises:
            StoreError: `.midturn/` cannot be made.
        """
        workspace = cls(root)
        _is_ours(workspace.root)
        with telling("create", workspace.home):
            ensure_private(workspace.home)
            _write_ignore(workspace.home)
        return workspace

    @property
    def conversations(self) -> Path:
        """Where the workspace's conversations live.

        Raises:
            StoreError: It is a symbolic link, somebody else's, or everybody may write there.
        """
        return _trustworthy(self.home / "conversations")

    def local_conversations(self, data: Path) -> Path:
        """Return where they live with `--local`: in the user's data directory `data`, apart from those of other workspaces."""
        digest = hashlib.sha256(os.fsencode(self.root)).hexdigest()[:12]
        name = re.sub(r"[^A-Za-z0-9]+", "-", self.root.name)[:40].strip("-") or "workspace"
        return data / "workspaces" / f"{name}-{digest}" / "conversations"

    def current(self, files: FileConversations) -> str | None:
        """Return the id of the conversation that commands act on: the chosen one, else the newest; None where there is none."""
        chosen = self._chosen()
        return chosen if chosen and files.has(chosen) else files.newest()

    def set_current(self, id: str) -> None:
        """Choose the conversation that commands act on. Not synced: without it, the newest is the current one."""
        if not _ID.fullmatch(id):
            raise StoreError(f"{id!r} is not an id of a conversation; one has digits only.")
        with telling("write", self.home / "current"), self._open() as home:
            temporary = f".current.{os.urandom(6).hex()}"
            home.write_unsynced(temporary, f"{id}\n".encode())
            os.replace(temporary, "current", src_dir_fd=home.fd, dst_dir_fd=home.fd)

    def _chosen(self) -> str | None:
        try:
            with self._open() as home:
                text = home.read("current").decode("ascii", "replace").strip()
        except (OSError, StoreError):  # absent, or not to be read: the newest will do
            return None
        return text if _ID.fullmatch(text) else None

    def _open(self) -> Folder:
        return Folder.at(self.home.resolve())


def _write_ignore(home: Path) -> None:
    with Folder.at(home.resolve()) as folder:
        try:
            folder.write_new(".gitignore", _IGNORE.encode())  # synced: an empty one would have everything committed
        except FileExistsError:
            return  # it is the user's by now


def _is_ours(root: Path) -> bool:
    """Say whether there is a `.midturn/` that belongs to us, to root, or to whoever owns the directory it is in.

    Raises:
        StoreError: It is a symbolic link: what was approved where it leads to was not approved here.
    """
    home = root / NAME
    try:
        found = home.lstat()
        ours = found.st_uid in {os.geteuid(), 0, root.stat().st_uid}
    except OSError:  # nothing there, or nothing that we may see
        return False
    if ours and stat.S_ISLNK(found.st_mode):
        raise StoreError(f"{home} is a symbolic link. A workspace must hold the directory itself: put it there, or remove the link.")
    return ours and stat.S_ISDIR(found.st_mode)


def _trustworthy(folder: Path) -> Path:
    """Return a directory that others cannot have filled, or none yet."""
    try:
        found = folder.lstat()
    except OSError:  # it is made with the first conversation
        return folder
    if stat.S_ISLNK(found.st_mode):
        raise StoreError(f"{folder} is a symbolic link. A workspace must hold the directory itself: put it there, or remove the link.")
    if found.st_uid not in {os.geteuid(), 0}:
        raise StoreError(
            f"{folder} belongs to another user (number {found.st_uid}), so what is in it is not yours. Work in a copy of yours."
        )
    if found.st_mode & stat.S_IWOTH:
        raise StoreError(f"Everybody may write in {folder}, so what is in it could be anybody's. `chmod o-w` it first.")
    return folder
