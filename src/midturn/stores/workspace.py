"""A workspace is a directory with `.midturn/`, which holds configuration; its conversations live in the user's data directory.

Nothing that is cloned, pulled, unpacked or built brings a conversation along, and no tool in its sandbox reaches one. A workspace has a
folder there, named after its real path: the path alone is the key. Beside its conversations stands which directory it is of, so that all
can be listed, and so that one that was moved or renamed can be told (by device, inode and time of birth) and brought along if its user
says so.
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
from midturn.stores.folder import Folder, telling
from midturn.stores.metadata import conversation_id

NAME: Final = ".midturn"
_RECORD: Final = "workspace"
_CURRENT: Final = "current"
_ID = r"[0-9]{1,20}"
_IGNORE = """\
# Nothing in here is committed but the configuration.
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
        """The folder of the workspace's conversations.

        Raises:
            ConfigError: Nothing says where the user's own files are.
            StoreError: It is a symbolic link, belongs to another user, or is writable for all.
        """
        return trustworthy(_folders() / _named(os.path.realpath(self.root)))

    @property
    def brought(self) -> Path | None:
        """Conversations that lie in the workspace itself: an older version's, a colleague's. They are only ever imported."""
        folder = self.home / "conversations"
        try:
            with os.scandir(folder) as entries:
                return folder if any(conversation_id(entry.name) for entry in entries) else None
        except OSError:
            return None

    def found(self) -> None:
        """Make the folder of its conversations, with the record of which directory it is of.

        Raises:
            ConfigError: It cannot be written.
        """
        folder = self.conversations
        found_folder(folder)
        if not _is_written(folder / _RECORD):
            _put(folder, _RECORD, _record(self.root).encode())


def own_conversations() -> Path:
    """Return where conversations live that were begun outside of any workspace.

    Raises:
        ConfigError: Nothing says where the user's own files are.
        StoreError: It is a symbolic link, belongs to another user, or is writable for all.
    """
    return trustworthy(user_data() / "conversations")


def check_outside(folder: Path, root: Path, by: str) -> None:
    """Refuse a store in a workspace: tools may write there, so that what is recorded would be what they say. `by` says what names it.

    The user's own data directory is kept from tools wherever it lies.

    Raises:
        ConfigError: It lies there.
    """
    real, own = os.path.realpath(folder), os.path.realpath(user_data())
    if _is_in(real, os.path.realpath(root)) and not _is_in(real, own):
        raise ConfigError(
            f"`{by}`: {folder} lies in the workspace {root}, where tools may write. Leave it out, and conversations are kept in your own "
            "data directory; or name a directory elsewhere."
        )


SERVERS: Final = ("postgresql", "postgres")
"""Schemes of addresses of stores that a server has."""


def folder_of(path: str | os.PathLike[str]) -> Path | None:
    """Return where on this machine a store lies: the path itself, or that of an address; None where a server has the conversations.

    What packages add may lie in files, so the path in each of their addresses counts.
    """
    scheme = scheme_of(path)
    if not scheme:
        return Path(path)
    if scheme in SERVERS:
        return None
    where = unquote(urlsplit(str(path)).path)
    return Path(where) if where.strip("/") else None


def scheme_of(path: str | os.PathLike[str]) -> str:
    """Return the scheme of a store's address; empty where it is a path."""
    return path.partition("://")[0].lower() if isinstance(path, str) and "://" in path else ""


def check_place(folder: str | os.PathLike[str]) -> None:
    """Refuse a store that lies in a workspace, as `check_outside` does for the one where a command was given.

    Raises:
        ConfigError: It lies in one.
    """
    path = Path(folder)
    if workspace := Workspace.find(path.parent):
        check_outside(path, workspace.root, "open_store")


def check_owner(folder: str | os.PathLike[str]) -> None:
    """Refuse a store that another user owns, or that everybody may write or replace: what is recorded there may be anybody's.

    A directory of root is taken, and root takes every owner's. One that does not exist yet is made with mode 0700, so only the directory
    in which it is made is checked.

    Raises:
        ConfigError: Others may write it.
    """
    path = Path(folder).absolute()
    while not path.exists() and path != path.parent:
        path = path.parent
    is_there = path == Path(folder).absolute()
    status, user = path.stat(), os.geteuid()
    mode = stat.S_IMODE(status.st_mode)
    if is_there and user and status.st_uid not in (0, user):
        raise ConfigError(
            f"The store {path} belongs to another user (user {status.st_uid}; you are user {user}): they may change what is recorded. "
            f"Name a directory of your own, or take this one over as root: chown -R {user} {path}"
        )
    if mode & stat.S_IWOTH and (is_there or not mode & stat.S_ISVTX):
        what = f"The store {path}" if is_there else f"The directory {path}, in which the store would be made,"
        raise ConfigError(
            f"{what} may be written by everybody (mode {mode:04o}, owner: user {status.st_uid}): anybody may change what is recorded. "
            f"Take that right away: chmod o-w {path}"
        )
    above = path.parent.stat()
    if is_there and above.st_mode & stat.S_IWOTH and not above.st_mode & stat.S_ISVTX:
        raise ConfigError(
            f"The store {path} may be replaced by everybody: {path.parent} has mode {stat.S_IMODE(above.st_mode):04o} (owner: user "
            f"{above.st_uid}). Take that right away: chmod o-w {path.parent}, or chmod +t {path.parent}, as /tmp has it."
        )


def _is_in(real: str, folder: str) -> bool:
    return f"{real}/".startswith(f"{folder.rstrip('/')}/")


def found_folder(folder: Path) -> None:
    """Make a folder in the user's data directory.

    Raises:
        ConfigError: It cannot be written: conversations go nowhere else unless their user says so.
    """
    try:
        ensure_private(folder)
        if not os.access(folder, os.W_OK | os.X_OK):
            raise PermissionError(13, "Permission denied")
    except OSError as error:
        raise ConfigError(
            f"Conversations cannot be kept in {folder}: {error.strerror or error}. Make it writable, or name another place with "
            "`conversation.store` in your own configuration, or with MIDTURN_CFG_CONVERSATION__STORE."
        ) from error


# Every workspace ----------------------------------------------------------------------------------------------------------


class _Record(Struct, frozen=True):
    """The directory that a folder belongs to. `born` is in nanoseconds, 0 where the system does not tell."""

    path: str
    device: int = 0
    inode: int = 0
    born: int = 0

    def encode(self) -> bytes:
        """Return the record as it is kept: three numbers, and the path in the line below, whatever its bytes are."""
        return f"{self.device} {self.inode} {self.born}\n".encode() + os.fsencode(self.path) + b"\n"

    @classmethod
    def decode(cls, text: bytes) -> Self:
        """Read one.

        Raises:
            ValueError: It is none.
        """
        numbers, _, path = text.removesuffix(b"\n").partition(b"\n")
        device, inode, born = map(int, numbers.split())
        return cls(os.fsdecode(path), device, inode, born)


class Known(Struct, frozen=True):
    """A workspace that has conversations: the folder that they are in, and its directory, which may be gone (`is_there`)."""

    folder: Path
    root: Path
    is_there: bool


def known_workspaces() -> list[Known]:
    """Return all of them, in the order of their paths."""
    try:
        folders = [Path(entry.path) for entry in os.scandir(_folders()) if entry.is_dir(follow_symlinks=False)]
    except OSError:  # there is none yet
        return []
    found = [_known(folder) for folder in folders]
    return sorted((known for known in found if known), key=lambda known: known.root)


def formerly(root: Path) -> Known | None:
    """Return the workspace that this very directory was under another path; None where it has a folder of its own, or was none."""
    if os.path.lexists(_folders() / _named(os.path.realpath(root))):
        return None
    here = _record(root)
    same = (known for known in known_workspaces() if not known.is_there)
    return next((known for known in same if here.inode and _read(known.folder) == replace(here, path=str(known.root))), None)


def move(known: Known, root: Path) -> Path:
    """Make a workspace's conversations those of the directory `root`; return their folder.

    Raises:
        StoreError: `root` has conversations of its own.
    """
    folder = Workspace(root).conversations
    with telling("move", known.folder):
        if os.path.lexists(folder):
            adding = f"`midturn conversation import {known.folder}` there adds those of {known.root}."
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
    except ValueError:  # damaged, or none: its conversations are there, but nothing says whose they are
        return None


def _is_written(record: Path) -> bool:
    try:
        return record.stat().st_size > 0
    except OSError:
        return False


def _record(root: Path) -> _Record:
    real = os.path.realpath(root)
    try:
        found = os.stat(real)  # noqa: PTH116  it is text already
    except OSError:
        return _Record(real)
    return _Record(real, found.st_dev, found.st_ino, int(getattr(found, "st_birthtime", 0) * 1_000_000_000))


def _named(real: str) -> str:
    """Return the name of a workspace's folder, by its real path."""
    name = re.sub(r"[^A-Za-z0-9]+", "-", Path(real).name)[:40].strip("-") or "workspace"
    return f"{name}-{sha256(os.fsencode(real))[:16]}"


def _folders() -> Path:
    return user_data() / "workspaces"


# The current conversation -------------------------------------------------------------------------------------------------


def chosen(folder: Path) -> str | None:
    """Return the id of the conversation that was chosen in a folder of conversations, there or not."""
    try:
        with Folder.at(folder) as opened:
            text = opened.read(_CURRENT).decode("ascii", "replace").strip()
    except (OSError, StoreError):  # absent, or not to be read: the newest will do
        return None
    return text if re.fullmatch(_ID, text) else None


def choose(folder: Path, id: str) -> None:
    """Choose the conversation that commands act on. Not synced: without it, the newest is the current one."""
    if not re.fullmatch(_ID, id):
        raise StoreError(f"{id!r} is not an id of a conversation; one has digits only.")
    _put(folder, _CURRENT, f"{id}\n".encode())


def _put(folder: Path, name: str, content: bytes) -> None:
    """Write a file whole or not at all, in place of the former one."""
    with telling("write", folder / name), Folder.at(folder) as opened:
        temporary = f".{name}.{os.urandom(6).hex()}"
        opened.write_unsynced(temporary, content)
        os.replace(temporary, name, src_dir_fd=opened.fd, dst_dir_fd=opened.fd)


# What is ours -------------------------------------------------------------------------------------------------------------


def _write_ignore(home: Path) -> None:
    with Folder.at(home.resolve()) as folder:
        try:
            folder.write_new(".gitignore", _IGNORE.encode())  # synced: an empty one would have everything committed
        except FileExistsError:
            return  # it is the user's by now


def _is_ours(root: Path) -> bool:
    """Say whether there is a `.midturn/` that belongs to us, to root, or to the owner of the directory it is in.

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


def trustworthy(folder: Path) -> Path:
    """Return a directory that others cannot have filled, or none yet.

    Raises:
        StoreError: It is a symbolic link, belongs to another user, or is writable for all.
    """
    try:
        found = folder.lstat()
    except OSError:  # it is made with the first conversation
        return folder
    if stat.S_ISLNK(found.st_mode):
        raise StoreError(f"{folder} is a symbolic link. Conversations must lie in the directory itself: put it there, or remove the link.")
    if found.st_uid not in {os.geteuid(), 0}:
        raise StoreError(
            f"{folder} belongs to another user (number {found.st_uid}), so what is in it is not yours. Work in a copy of yours."
        )
    if found.st_mode & stat.S_IWOTH:
        raise StoreError(f"Everybody may write in {folder}, so what is in it could be anybody's. `chmod o-w` it first.")
    return folder
