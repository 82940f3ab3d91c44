"""Where a command acts: the workspace, and the store of its conversations."""

from __future__ import annotations

import os
from pathlib import Path

from msgspec import Struct
from msgspec.structs import replace
from platformdirs.unix import Unix

from midturn.core.limits import Limits
from midturn.errors import StoreError
from midturn.store.file_store import FileStore
from midturn.store.workspace import Workspace


class Place(Struct, frozen=True, kw_only=True):
    """`workspace` is None outside of any; new conversations go into the first of `folders`.

    `is_own_store`: the folder was named with `--store`, so that no workspace remembers which of its conversations is the current one.
    """

    workspace: Workspace | None
    folders: tuple[Path, ...]
    store: FileStore
    cwd: Path
    is_own_store: bool = False

    @property
    def root(self) -> Path:
        """Where tools work."""
        return self.workspace.root if self.workspace else self.cwd

    def under(self, limits: Limits) -> Place:
        """Return the same place with the configured limits."""
        return replace(self, store=FileStore(*self.folders, limits=limits))

    def conversation(self, id: str | None) -> str:
        """Return the id of the conversation that is meant: a full id or its unique beginning, else the current one.

        Raises:
            StoreError: There is none.
        """
        if id is None:
            return self._the_current()
        fitting = [known for known in self.store.ids() if known.startswith(id)]
        if id in fitting or len(fitting) == 1:
            return id if id in fitting else fitting[0]
        what = f"There is no conversation {id!r}" if not fitting else f"{len(fitting)} conversations begin with {id!r}"
        raise StoreError(f"{what}. `midturn conversation ls` lists them.")

    @property
    def current(self) -> str | None:
        """The conversation that commands act on by default: the chosen one, or else the newest."""
        if self.workspace and not self.is_own_store:
            return self.workspace.current(self.store)
        return next(reversed(self.store.ids()), None)

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
        return Place(workspace=workspace, folders=(store,), store=FileStore(store), cwd=cwd, is_own_store=True)
    if workspace is None:
        own = user_data() / "conversations"
        return Place(workspace=None, folders=(own,), store=FileStore(own), cwd=cwd)
    return place_of(workspace, cwd, local=local)


def place_of(workspace: Workspace, cwd: Path, *, local: bool = False) -> Place:
    """Return the place of a workspace; with `local`, new conversations go into the user's data directory."""
    shared, private = workspace.conversations, workspace.local_conversations(user_data())
    folders = (private, shared) if local else (shared, private)
    return Place(workspace=workspace, folders=folders, store=FileStore(*folders), cwd=cwd)


def user_data() -> Path:
    """Return the user's data directory (XDG)."""
    return Unix("midturn", appauthor=False).user_data_path


def environment() -> dict[str, str]:
    """Return the environment as it is now."""
    return dict(os.environ)
