"""Where a command acts: the workspace, and the store of its conversations."""

from __future__ import annotations

import os
import re
from collections.abc import Coroutine
from pathlib import Path
from typing import Any, TypeVar

from msgspec import Struct
from msgspec.structs import replace

from midturn.core.limits import DEFAULT_LIMITS, Limits
from midturn.errors import StoreError
from midturn.files.user_directories import user_data
from midturn.store.file_conversations import FileConversations
from midturn.store.file_store import FileStore
from midturn.store.store import ConversationStore
from midturn.store.sync_forms import drive, in_a_loop
from midturn.store.workspace import Workspace

T = TypeVar("T")


class StoreAddress(Struct, frozen=True):
    """What `--store` takes: `where` is a directory, or the address of a database as text. With `--sealed` it is `sealed`."""

    where: Path | str
    sealed: bool = False

    @property
    def options(self) -> tuple[str, ...]:
        """What a command is given to act there, too."""
        return ("--store", str(self.where), *(("--sealed",) if self.sealed else ()))

    def absolute(self) -> StoreAddress:
        """Return the same address for a process that runs elsewhere."""
        return replace(self, where=self.where.absolute()) if isinstance(self.where, Path) else self


class Place(Struct, frozen=True, kw_only=True):
    """`workspace` is None outside of any; new conversations go into the first of `folders`.

    `address`: the store was named with `--store`, so that no workspace remembers which of its conversations is the current one.
    """

    workspace: Workspace | None
    folders: tuple[Path, ...]
    store: ConversationStore
    cwd: Path
    address: StoreAddress | None = None

    @property
    def root(self) -> Path:
        """Where tools work."""
        return self.workspace.root if self.workspace else self.cwd

    @property
    def option(self) -> str:
        """What a command that is advised needs to act here, too: nothing, or ` --store …`. A password is left out."""
        if self.address is None:
            return ""
        import shlex  # only where a store was named with `--store`

        return f" {shlex.join(map(_without_password, self.address.options))}"

    @property
    def is_on_disk(self) -> bool:
        """Whether the conversations are files; else they are in a database."""
        return isinstance(self.store, FileStore)

    @property
    def files(self) -> FileConversations:
        """The files of the conversations.

        Raises:
            StoreError: They are in a database.
        """
        if isinstance(self.store, FileStore):
            return self.store.files
        raise StoreError(
            "The conversations are in a database and have no files. `midturn conversation export --format jsonl` writes one out, and "
            "`midturn conversation import` takes it in."
        )

    def under(self, limits: Limits) -> Place:
        """Return the same place with the configured limits."""
        return replace(self, store=_store(self.address, self.folders, limits))

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        """Run something that the store does to its end."""
        return in_a_loop(work) if self.store.port.needs_loop else drive(work)

    def conversation(self, id: str | None) -> str:
        """Return the id of the conversation that is meant: a full id or its unique beginning, else the current one.

        Raises:
            StoreError: There is no such conversation.
        """
        if id is None:
            return self._the_current()
        fitting = [known for known in self.beginning_with(id) if known.startswith(id)]
        if id in fitting or len(fitting) == 1:
            return id if id in fitting else fitting[0]
        what = f"There is no conversation {id!r}" if not fitting else f"{len(fitting)} conversations begin with {id!r}"
        raise StoreError(f"{what}. `midturn conversation ls` lists them.")

    def beginning_with(self, typed: str) -> list[str]:
        """Return ids of conversations, among them those that begin with what was typed; of a database not many others."""
        if self.is_on_disk or not typed:
            return self.store.ids_sync()
        before = f"{typed[:-1]}{chr(ord(typed[-1]) - 1)}~"  # ids are digits, and sort as text
        return self.store.ids_sync(after=before, limit=_MOST)

    @property
    def current(self) -> str | None:
        """The conversation that commands act on by default: the chosen one, or else the newest."""
        if self.workspace and self.address is None:
            return self.workspace.current(self.files)
        return self.files.newest() if self.is_on_disk else self.run(self.store.port.latest())

    def sealed_for(self, conversation: str) -> str:
        """Return what its user's flags are sealed for: the conversation, and the place where it is kept."""
        return self.store.port.where(conversation)

    def set_current(self, id: str) -> None:
        """Have commands act on this conversation by default."""
        if self.workspace and self.address is None:
            self.workspace.set_current(id)

    def _the_current(self) -> str:
        current = self.current
        if current is None:
            raise StoreError('There is no conversation yet. `midturn query "…"` begins one.')
        return current


_MOST = 100


def _without_password(address: str) -> str:
    return re.sub(r"([?&]password=)[^&]*", r"\1", re.sub(r"(://[^:@/]*):[^@/]*@", r"\1@", address))


def find_place(store: StoreAddress | None = None, *, local: bool = False) -> Place:
    """Find the workspace that the command was given in; outside of any, the user's own store is meant."""
    return place_in(Path.cwd(), store, local=local)


def place_in(cwd: Path, store: StoreAddress | None = None, *, local: bool = False) -> Place:
    """Find the place of a command that is given in `cwd`."""
    workspace = Workspace.find(cwd)
    if store is not None:
        folders = (store.where,) if isinstance(store.where, Path) else ()
        return Place(workspace=workspace, folders=folders, store=_store(store, folders), cwd=cwd, address=store)
    return own_place(cwd) if workspace is None else place_of(workspace, cwd, local=local)


def own_place(cwd: Path | None = None) -> Place:
    """Return the user's own store, which is meant outside of any workspace."""
    return _place(None, (user_data() / "conversations",), cwd or Path.cwd())


def place_of(workspace: Workspace, cwd: Path, *, local: bool = False) -> Place:
    """Return the place of a workspace; with `local`, new conversations go into the user's data directory."""
    shared, private = workspace.conversations, workspace.local_conversations(user_data())
    folders = (private, shared) if local else (shared, private)
    return _place(workspace, folders, cwd)


def _place(workspace: Workspace | None, folders: tuple[Path, ...], cwd: Path) -> Place:
    return Place(workspace=workspace, folders=folders, store=_store(None, folders), cwd=cwd)


def _store(address: StoreAddress | None, folders: tuple[Path, ...], limits: Limits = DEFAULT_LIMITS) -> ConversationStore:
    if address is None:
        return FileStore(*folders, limits=limits)
    from midturn.store.opening import store_at  # few commands name a store

    return store_at(address.where, limits, sealed=address.sealed)


def environment() -> dict[str, str]:
    """Return the environment as it is now."""
    return dict(os.environ)
