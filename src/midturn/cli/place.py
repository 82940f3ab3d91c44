"""Where a command acts: the workspace, and the store of its conversations."""

from __future__ import annotations

import os
from collections.abc import Coroutine
from pathlib import Path
from typing import Any, TypeVar

from msgspec import Struct
from msgspec.structs import replace
from platformdirs.unix import Unix

from midturn.core.limits import Limits
from midturn.errors import StoreError
from midturn.store.file_conversations import FileConversations
from midturn.store.store import ConversationStore
from midturn.store.stores import FileStore
from midturn.store.sync_forms import drive
from midturn.store.workspace import Workspace

T = TypeVar("T")


class Place(Struct, frozen=True, kw_only=True):
    """`workspace` is None outside of any; new conversations go into the first of `folders`.

    `is_own_store`: the folder was named with `--store`, so that no workspace remembers which of its conversations is the current one.
    """

    workspace: Workspace | None
    folders: tuple[Path, ...]
    files: FileConversations
    store: ConversationStore
    cwd: Path
    is_own_store: bool = False

    @property
    def root(self) -> Path:
        """Where tools work."""
        return self.workspace.root if self.workspace else self.cwd

    def under(self, limits: Limits) -> Place:
        """Return the same place with the configured limits."""
        store = FileStore(*self.folders, limits=limits)
        return replace(self, store=store, files=store.files)

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        """Run something that the store does to its end."""
        return drive(work)

    def conversation(self, id: str | None) -> str:
        """Return the id of the conversation that is meant: a full id or its unique beginning, else the current one.

        Raises:
            StoreError: There is none.
        """
        if id is None:
            return self._the_current()
        fitting = [known for known in self.store.ids_sync() if known.startswith(id)]
        if id in fitting or len(fitting) == 1:
            return id if id in fitting else fitting[0]
        what = f"There is no conversation {id!r}" if not fitting else f"{len(fitting)} conversations begin with {id!r}"
        raise StoreError(f"{what}. `midturn conversation ls` lists them.")

    @property
    def current(self) -> str | None:
        """The conversation that commands act on by default: the chosen one, or else the newest."""
        if self.workspace and not self.is_own_store:
            return self.workspace.current(self.files)
        return self.files.newest()

    def directory(self, conversation: str) -> str:
        """Return the real path of a conversation's directory: what its user's flags are sealed for."""
        return str(self.files.path(conversation).resolve())

    def set_current(self, id: str) -> None:
        """Have commands act on this conversation by default."""
        if self.workspace and not self.is_own_store:
            self.workspace.set_current(id)

    def _the_current(self) -> str:
        current = self.current
        if current is None:
            raise StoreError('There is no conversation yet. `midturn query "…"` begins one.')
        return current


def find_place(store: Path | None = None, *, local: bool = False) -> Place:
    """Find the workspace that the command was given in; outside of any, the user's own store is meant."""
    return place_in(Path.cwd(), store, local=local)


def place_in(cwd: Path, store: Path | None = None, *, local: bool = False) -> Place:
    """Find the place of a command that is given in `cwd`."""
    workspace = Workspace.find(cwd)
    if store is not None:
        return _place(workspace, (store,), cwd, is_own_store=True)
    return own_place(cwd) if workspace is None else place_of(workspace, cwd, local=local)


def own_place(cwd: Path | None = None) -> Place:
    """Return the user's own store, which is meant outside of any workspace."""
    return _place(None, (user_data() / "conversations",), cwd or Path.cwd(), is_own_store=False)


def place_of(workspace: Workspace, cwd: Path, *, local: bool = False) -> Place:
    """Return the place of a workspace; with `local`, new conversations go into the user's data directory."""
    shared, private = workspace.conversations, workspace.local_conversations(user_data())
    folders = (private, shared) if local else (shared, private)
    return _place(workspace, folders, cwd, is_own_store=False)


def _place(workspace: Workspace | None, folders: tuple[Path, ...], cwd: Path, *, is_own_store: bool) -> Place:
    store = FileStore(*folders)
    return Place(workspace=workspace, folders=folders, files=store.files, store=store, cwd=cwd, is_own_store=is_own_store)


def user_data() -> Path:
    """Return the user's data directory (XDG)."""
    return Unix("midturn", appauthor=False).user_data_path


def environment() -> dict[str, str]:
    """Return the environment as it is now."""
    return dict(os.environ)
