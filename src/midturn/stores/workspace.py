"""A workspace is a directory with `.midturn/`, which contains configuration.

Its conversations are stored in the user's data directory. Therefore, cloned or unpacked files
cannot contain conversations of the workspace, and sandboxed tools cannot access them. In this
directory, each workspace has a folder that is named after its real path. This path is the only key.
The folder also records the workspace's directory, so that all workspaces can be listed, and so that
a moved or renamed workspace is recognized (by device, inode and creation time) and its user can
assign the conversations to the new path.
"""

from __future__ import annotations

import os
import re
import stat
from pathlib import Path
from typing import Final, Self
from urllib.parse import unquote, urlsplit

from msgspec import Struct
from msgspec.structs import replace

from midturn.errors import ConfigError, StoreError
from midturn.question.text import sha256
from midturn.security.private_files import ensure_private, read_private, user_data
from midturn.stores.folder import Folder, reporting_os_errors
from midturn.stores.metadata import conversation_id

NAME: Final = ".midturn"
_RECORD: Final = "workspace"
_CURRENT: Final = "current"
_ID = r"[0-9]{1,20}"
_IGNORE = """\
# Only the configuration in this directory is committed.
*
!.gitignore
!config.toml
!config.d/
!config.d/**
"""


class Workspace:
    """The directory `root` with its `.midturn/`; `home` is the path of `.midturn/`."""

    def __init__(self, root: Path) -> None:
        self.root = root.absolute()
        self.home = self.root / NAME

    @classmethod
    def find(cls, start: Path) -> Workspace | None:
        """Return the workspace of `start`: `start` or the nearest parent directory that has a
        `.midturn/`.

        A `.midturn/` that another user created in a shared directory such as `/tmp` is ignored.

        Raises:
            StoreError: `.midturn/` is a symbolic link.
        """
        absolute = start.absolute()
        return next((cls(root) for root in (absolute, *absolute.parents) if _is_ours(root)), None)

    @classmethod
    def make(cls, root: Path) -> Workspace:
        """Make `root` a workspace, unless it is already a workspace.

        Raises:
            StoreError: `.midturn/` cannot be created.
        """
        workspace = cls(root)
        _is_ours(workspace.root)
        with reporting_os_errors("create", workspace.home):
            ensure_private(workspace.home)
            _write_ignore(workspace.home)
        return workspace

    @property
    def conversations(self) -> Path:
        """The folder of the workspace's conversations.

        Raises:
            ConfigError: The user's data directory is unknown.
            StoreError: The folder is a symbolic link, belongs to another user, or is writable by
                everyone.
        """
        return trustworthy(_folders() / _named(os.path.realpath(self.root)))

    @property
    def brought(self) -> Path | None:
        """The folder of conversations inside the workspace that an older version or a colleague
        wrote. None if there is no such folder.

        These conversations can only be imported.
        """
        folder = self.home / "conversations"
        try:
            with os.scandir(folder) as entries:
                return folder if any(conversation_id(entry.name) for entry in entries) else None
        except OSError:
            return None

    def found(self) -> None:
        """Create the folder of the workspace's conversations, and record the workspace's directory
        in it.

        Raises:
            ConfigError: The folder cannot be written.
        """
        folder = self.conversations
        found_folder(folder)
        if not _is_written(folder / _RECORD):
            _put(folder, _RECORD, _record(self.root).encode())


def own_conversations() -> Path:
    """Return the folder of conversations that were started outside a workspace.

    Raises:
        ConfigError: The user's data directory is unknown.
        StoreError: The folder is a symbolic link, belongs to another user, or is writable by
            everyone.
    """
    return trustworthy(user_data() / "conversations")


def check_outside(folder: Path, root: Path, by: str) -> None:
    """Refuse a store in a workspace, because tools may write there and could forge events. `by` is
    the name of the setting, for the message.

    The user's own data directory is allowed, because tools cannot access it.

    Raises:
        ConfigError: The store is in a workspace.
    """
    real, own = os.path.realpath(folder), os.path.realpath(user_data())
    if _is_in(real, os.path.realpath(root)) and not _is_in(real, own):
        advice = (
            "Use a directory outside it, or pass `trusted=True` to accept the risk."
            if by == "open_store"
            else "Remove the setting to keep conversations in your own data directory, or name a"
            " directory elsewhere."
        )
        raise ConfigError(
            f"`{by}`: {folder} is in the workspace {root}, where tools may write. {advice}"
        )


SERVERS: Final = ("postgresql", "postgres")
"""Schemes of store addresses on a server."""


def folder_of(path: str | os.PathLike[str]) -> Path | None:
    """Return the path of a store on this machine, given its path or address. Return None if the
    store is on a server.

    Stores of installed packages may use files, so the path in their addresses is returned as well.
    """
    scheme = scheme_of(path)
    if not scheme:
        return Path(path)
    if scheme in SERVERS:
        return None
    where = unquote(urlsplit(str(path)).path)
    return Path(where) if where.strip("/") else None


def scheme_of(path: str | os.PathLike[str]) -> str:
    """Return the scheme of a store's address; empty for a path."""
    return path.partition("://")[0].lower() if isinstance(path, str) and "://" in path else ""


def check_place(folder: str | os.PathLike[str]) -> None:
    """Refuse a store in any workspace. `check_outside` checks only the workspace of the command.

    Raises:
        ConfigError: The store is in a workspace.
    """
    path = Path(folder)
    if workspace := Workspace.find(path.parent):
        check_outside(path, workspace.root, "open_store")


def check_owner(folder: str | os.PathLike[str]) -> None:
    """Refuse a store that another user owns, or that everybody may write or replace, because
    anybody could forge its events.

    A directory that root owns is accepted, and root accepts directories of any owner. A directory
    that does not exist yet is created with mode 0700, so only its parent is checked.

    Raises:
        ConfigError: Other users may write the store.
    """
    path = Path(folder).absolute()
    while not path.exists() and path != path.parent:
        path = path.parent
    is_there = path == Path(folder).absolute()
    status, user = path.stat(), os.geteuid()
    mode = stat.S_IMODE(status.st_mode)
    if is_there and user and status.st_uid not in (0, user):
        raise ConfigError(
            f"The store {path} belongs to another user (user {status.st_uid}; you are user {user}):"
            " that user may change the recorded events. Name a directory of your own, or take this"
            f" one over as root: chown -R {user} {path}"
        )
    if mode & stat.S_IWOTH and (is_there or not mode & stat.S_ISVTX):
        what = (
            f"The store {path}"
            if is_there
            else f"The directory {path}, in which the store would be created,"
        )
        raise ConfigError(
            f"{what} may be written by everybody (mode {mode:04o}, owner: user {status.st_uid}):"
            f" anybody may change the recorded events. Remove this permission: chmod o-w {path}"
        )
    above = path.parent.stat()
    if is_there and above.st_mode & stat.S_IWOTH and not above.st_mode & stat.S_ISVTX:
        raise ConfigError(
            f"The store {path} may be replaced by everybody: {path.parent} has mode"
            f" {stat.S_IMODE(above.st_mode):04o} (owner: user {above.st_uid}). Remove this"
            f" permission: chmod o-w {path.parent}, or chmod +t {path.parent}, as /tmp has it."
        )


def _is_in(real: str, folder: str) -> bool:
    return f"{real}/".startswith(f"{folder.rstrip('/')}/")


def found_folder(folder: Path) -> None:
    """Create a folder in the user's data directory.

    Raises:
        ConfigError: The folder cannot be written. Conversations are never stored elsewhere
            without the user's consent.
    """
    try:
        ensure_private(folder)
        if not os.access(folder, os.W_OK | os.X_OK):
            raise PermissionError(13, "Permission denied")
    except OSError as error:
        raise ConfigError(
            f"Conversations cannot be kept in {folder}: {error.strerror or error}. Make it"
            " writable, or name another place with `conversation.store` in your own configuration,"
            " or with MIDTURN_CFG_CONVERSATION__STORE."
        ) from error


# Every workspace
# --------------------------------------------------------------------------------------------------


class _Record(Struct, frozen=True):
    """The directory of a workspace. `born` is its creation time in nanoseconds; 0 if the time is
    unknown.
    """

    path: str
    device: int = 0
    inode: int = 0
    born: int = 0

    def encode(self) -> bytes:
        """Encode the record: three numbers, and the path on the next line, as bytes."""
        return f"{self.device} {self.inode} {self.born}\n".encode() + os.fsencode(self.path) + b"\n"

    @classmethod
    def decode(cls, text: bytes) -> Self:
        """Decode a record.

        Raises:
            ValueError: The text is not a valid record.
        """
        numbers, _, path = text.removesuffix(b"\n").partition(b"\n")
        device, inode, born = map(int, numbers.split())
        return cls(os.fsdecode(path), device, inode, born)


class Known(Struct, frozen=True):
    """A workspace with conversations: their folder, and its directory, which may have been
    removed (`is_there`).
    """

    folder: Path
    root: Path
    is_there: bool


def known_workspaces() -> list[Known]:
    """Return all workspaces, sorted by path."""
    try:
        folders = [
            Path(entry.path)
            for entry in os.scandir(_folders())
            if entry.is_dir(follow_symlinks=False)
        ]
    except OSError:  # there is no data directory yet
        return []
    found = [_known(folder) for folder in folders]
    return sorted((known for known in found if known), key=lambda known: known.root)


def formerly(root: Path) -> Known | None:
    """Return the workspace of this directory from before the directory was moved or renamed, or
    None.
    """
    if os.path.lexists(_folders() / _named(os.path.realpath(root))):
        return None
    here = _record(root)
    same = (known for known in known_workspaces() if not known.is_there)
    return next(
        (
            known
            for known in same
            if here.inode and _read(known.folder) == replace(here, path=str(known.root))
        ),
        None,
    )


def move(known: Known, root: Path) -> Path:
    """Assign a workspace's conversations to the directory `root`; return their folder.

    Raises:
        StoreError: `root` has conversations of its own.
    """
    folder = Workspace(root).conversations
    with reporting_os_errors("move", known.folder):
        if os.path.lexists(folder):
            adding = (
                f"`midturn conversation import {known.folder}` there adds the conversations of"
                f" {known.root}."
            )
            raise StoreError(f"{root} has conversations of its own, in {folder}. {adding}")
        known.folder.rename(folder)
        (folder / _RECORD).unlink()
    Workspace(root).found()
    return folder


def _known(folder: Path) -> Known | None:
    record = _read(folder)
    if record is None or folder.name != _named(record.path):
        return None
    root = Path(record.path)
    return Known(folder, root, root.is_dir())


def _read(folder: Path) -> _Record | None:
    try:
        return _Record.decode(read_private(folder / _RECORD) or b"")
    except (
        ValueError
    ):  # no valid record: the folder has conversations, but their workspace is unknown
        return None


def _is_written(record: Path) -> bool:
    try:
        return record.stat().st_size > 0
    except OSError:
        return False


def _record(root: Path) -> _Record:
    real = os.path.realpath(root)
    try:
        found = os.stat(real)  # noqa: PTH116  the path is a string already
    except OSError:
        return _Record(real)
    return _Record(
        real, found.st_dev, found.st_ino, int(getattr(found, "st_birthtime", 0) * 1_000_000_000)
    )


def _named(real: str) -> str:
    """Return the name of a workspace's folder, by its real path."""
    name = re.sub(r"[^A-Za-z0-9]+", "-", Path(real).name)[:40].strip("-") or "workspace"
    return f"{name}-{sha256(os.fsencode(real))[:16]}"


def _folders() -> Path:
    return user_data() / "workspaces"


# The current conversation
# --------------------------------------------------------------------------------------------------


def chosen(folder: Path) -> str | None:
    """Return the id of the chosen conversation of a folder, even if it no longer exists."""
    try:
        with Folder.at(folder) as opened:
            text = opened.read(_CURRENT).decode("ascii", "replace").strip()
    except (
        OSError,
        StoreError,
    ):  # missing or unreadable: the newest conversation is the current one
        return None
    return text if re.fullmatch(_ID, text) else None


def choose(folder: Path, id: str) -> None:
    """Choose the conversation that commands act on. The choice is not synced. Without it, the
    newest conversation is the current one.
    """
    if not re.fullmatch(_ID, id):
        raise StoreError(
            f"{id!r} is not the ID of a conversation; a conversation ID has digits only."
        )
    _put(folder, _CURRENT, f"{id}\n".encode())


def _put(folder: Path, name: str, content: bytes) -> None:
    """Replace a file atomically."""
    with reporting_os_errors("write", folder / name), Folder.at(folder) as opened:
        temporary = f".{name}.{os.urandom(6).hex()}"
        opened.write_unsynced(temporary, content)
        os.replace(temporary, name, src_dir_fd=opened.fd, dst_dir_fd=opened.fd)


# Trusted directories
# --------------------------------------------------------------------------------------------------


def _write_ignore(home: Path) -> None:
    with Folder.at(home.resolve()) as folder:
        try:
            folder.write_new(
                ".gitignore", _IGNORE.encode()
            )  # synced, because git would commit everything if a power cut left an empty file
        except FileExistsError:
            return  # the file exists, and the user may have changed it


def _is_ours(root: Path) -> bool:
    """Return whether `root` has a `.midturn/` that belongs to this user, to root, or to the owner
    of `root`.

    Raises:
        StoreError: `.midturn/` is a symbolic link. Only the directory itself can be approved.
    """
    home = root / NAME
    try:
        found = home.lstat()
        ours = found.st_uid in {os.geteuid(), 0, root.stat().st_uid}
    except OSError:  # the directory does not exist or is not accessible
        return False
    if ours and stat.S_ISLNK(found.st_mode):
        raise StoreError(
            f"{home} is a symbolic link. A workspace must contain the directory itself: put it"
            " there, or remove the link."
        )
    return ours and stat.S_ISDIR(found.st_mode)


def trustworthy(folder: Path) -> Path:
    """Return the directory if no other user can write to it, or if it does not exist yet.

    Raises:
        StoreError: The folder is a symbolic link, belongs to another user, or is writable by
            everyone.
    """
    try:
        found = folder.lstat()
    except OSError:  # the directory is created with the first conversation
        return folder
    if stat.S_ISLNK(found.st_mode):
        raise StoreError(
            f"{folder} is a symbolic link. Conversations must be in the directory itself: move it"
            " there, or remove the link."
        )
    if found.st_uid not in {os.geteuid(), 0}:
        raise StoreError(
            f"{folder} belongs to another user (number {found.st_uid}), so its content is not"
            " yours. Work in your own copy."
        )
    if found.st_mode & stat.S_IWOTH:
        raise StoreError(
            f"Everybody may write in {folder}, so its content cannot be trusted. Run `chmod o-w` on"
            " it first."
        )
    return folder
