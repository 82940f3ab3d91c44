"""Where a command acts: the workspace, and the store of its conversations."""

from __future__ import annotations

import os
from pathlib import Path

from msgspec import Struct
from platformdirs.unix import Unix

from midturn.errors import ConfigError, StoreError
from midturn.store.file_store import FileStore
from midturn.store.workspace import Workspace


class Place(Struct, frozen=True):
    """`workspace` is None with `--store` outside of any; `store` is where new conversations go."""

    workspace: Workspace | None
    store: FileStore
    cwd: Path

    @property
    def root(self) -> Path:
        """Where tools work."""
        return self.workspace.root if self.workspace else self.cwd

    def conversation(self, id: str | None) -> str:
        """Return the id of the conversation that is meant: a full id or its unique beginning, else the current one (spec 7.1).

        Raises:
            StoreError: There is none.
        """
        ids = self.store.ids()
        if id is None:
            return self._current(ids)
        fitting = [known for known in ids if known.startswith(id)]
        if id in fitting or len(fitting) == 1:
            return id if id in fitting else fitting[0]
        what = "There is no conversation" if not fitting else f"{len(fitting)} conversations begin with"
        raise StoreError(f"{what} {id!r}. `midturn conversation ls` lists them.")

    def _current(self, ids: list[str]) -> str:
        current = self.workspace.current(self.store) if self.workspace else (ids[-1] if ids else None)
        if current is None:
            raise StoreError('There is no conversation yet. `midturn query "…"` begins one.')
        return current


def find_place(store: Path | None = None, *, local: bool = False) -> Place:
    """Find the workspace that the command was given in.

    Raises:
        ConfigError: There is none, and no `--store` either.
    """
    cwd = Path.cwd()
    workspace = Workspace.find(cwd)
    if store is not None:
        return Place(workspace, FileStore(store), cwd)
    if workspace is None:
        raise ConfigError("This is no workspace: neither here nor above is a `.midturn` directory. `midturn init` makes one.")
    data = user_data()
    return Place(workspace, workspace.local_store(data) if local else workspace.store(data), cwd)


def user_data() -> Path:
    """Return the user's data directory (XDG)."""
    return Unix("midturn", appauthor=False).user_data_path


def environment() -> dict[str, str]:
    """Return the environment as it is now."""
    return dict(os.environ)
