"""The place of a command: the workspace, and the store of its conversations."""

from __future__ import annotations

import os
import re
import shlex
from collections.abc import Callable, Coroutine
from contextlib import suppress
from functools import cached_property, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TypeVar, cast

from msgspec import Struct
from msgspec.structs import replace

from midturn.cli.output import note
from midturn.config.places import configured_store, project_of
from midturn.errors import StoreError
from midturn.question.json_value import DEFAULT_LIMITS, Limits
from midturn.question.text import sha256
from midturn.security.private_files import create_private, ensure_private, user_state
from midturn.stores.open_index import OpenIndex
from midturn.stores.sync_forms import drive, in_a_loop
from midturn.stores.workspace import (
    Workspace,
    check_outside,
    check_owner,
    choose,
    chosen,
    folder_of,
    formerly,
    found_folder,
    known_workspaces,
    own_conversations,
)

if TYPE_CHECKING:
    from midturn.question.people import Directory
    from midturn.stores.file_conversations import FileConversations
    from midturn.stores.port import StorePort
    from midturn.stores.store import ConversationStore

T = TypeVar("T")


class StoreAddress(Struct, frozen=True):
    """A store that was named: `where` is a directory, or the address of a database as text; `by` is what named it."""

    where: Path | str
    by: Literal["--store", "conversation.store"] = "--store"

    @property
    def options(self) -> tuple[str, ...]:
        """Options that make another command act here, too."""
        return ("--store", str(self.where)) if self.by == "--store" else ()

    @property
    def shown(self) -> str:
        """The address for people: a password is left out."""
        return _without_password(str(self.where))

    def absolute(self) -> StoreAddress:
        """Return the same address for a process that runs elsewhere."""
        return replace(self, where=self.where.absolute()) if isinstance(self.where, Path) else self


def option_of(address: StoreAddress | None) -> str:
    """Return what an advised command needs to act on this store: nothing, or ` --store …`. A password is left out."""
    return f" {shlex.join(map(_without_password, address.options))}" if address and address.options else ""


class Place(Struct, frozen=True, kw_only=True, dict=True):
    """`workspace` is None outside of any; `folder` has the conversations, unless they are in a database.

    `address`: the store was named, and is not where conversations always are. `limits`: those of a batch of events.
    """

    workspace: Workspace | None
    folder: Path | None
    cwd: Path
    address: StoreAddress | None = None
    limits: Limits = DEFAULT_LIMITS

    @cached_property
    def store(self) -> ConversationStore:
        """The store, opened on first use."""
        from midturn.stores.opening import store_at, store_of

        opened = store_of(self.files) if self.folder else store_at(cast("StoreAddress", self.address).where, self.limits)
        return opened.with_people(self.people)

    def people(self) -> Directory:
        """Return the people that the configuration names now. A wrong configuration names those that it named when it was right.

        Raises:
            ConfigError: It was never right in this process.
        """
        from midturn.cli.people import people_in  # hardly an answer needs the configuration

        return people_in(self.cwd, self.workspace.root if self.workspace else None, environment())

    @property
    def port(self) -> StorePort:
        """The place itself, where conversations are looked for and not opened: on disk, that takes no store."""
        return self.files if self.folder else self.store.port

    @cached_property
    def files(self) -> FileConversations:
        """The files of the conversations. A hook mostly finds that no turn is open, and needs none of them.

        Raises:
            StoreError: They are in a database.
            ConfigError: The store was named, and others may write it.
        """
        if self.folder is None:
            raise StoreError(
                f"The conversations are in a database and have no files. `midturn conversation export --format jsonl{self.option}` writes "
                f"one out, and `midturn conversation import{self.option}` takes it in."
            )
        from midturn.stores.file_conversations import FileConversations

        if self.address is not None:
            check_owner(self.folder)
        return FileConversations(self.folder, limits=self.limits, found=self._found(self.folder))

    def _found(self, folder: Path) -> Callable[[], None] | None:
        """Return what makes the folder, where it is more than a directory."""
        if self.address is not None:
            return None
        return self.workspace.found if self.workspace else partial(found_folder, folder)

    def has_open_turn(self) -> bool:
        """Say whether any question may be open here; in a database that is not looked up."""
        if self.is_quiet():
            return False
        return not self.is_on_disk or bool(self.run(self.port.ids(which="open", limit=1)))

    def is_quiet(self) -> bool:
        """Say whether the index of the folder says that no turn is open: then no store need be opened to look for one."""
        return self.folder is not None and OpenIndex(self.folder).is_empty()

    @property
    def root(self) -> Path:
        """The directory in which tools work."""
        return self.workspace.root if self.workspace else self.cwd

    @property
    def project(self) -> str:
        """The directory that standing permissions of this project are bound to."""
        return project_of(self.root)

    @property
    def directory(self) -> str | None:
        """The real path of the workspace, as listings of all of them name it; None outside of any."""
        return os.path.realpath(self.workspace.root) if self.workspace else None

    @property
    def option(self) -> str:
        """Option that an advised command needs to act here, too: nothing, or ` --store …`. A password is left out."""
        return option_of(self.address)

    @property
    def is_on_disk(self) -> bool:
        """Whether the conversations are files; else they are in a database."""
        return self.folder is not None

    def under(self, limits: Limits) -> Place:
        """Return the same place with the configured limits."""
        return replace(self, limits=limits)

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        """Run something that the store does to its end."""
        return in_a_loop(work) if self.port.needs_loop else drive(work)

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
        raise StoreError(f"{what}. `midturn conversation ls{self.option}` lists them.")

    def beginning_with(self, typed: str) -> list[str]:
        """Return ids of conversations, among them those that begin with what was typed; of a database not many others."""
        if self.is_on_disk or not typed:
            return self.run(self.port.ids())
        before = f"{typed[:-1]}{chr(ord(typed[-1]) - 1)}~"  # ids are digits, and sort as text
        return self.run(self.port.ids(after=before, limit=_MOST))

    @property
    def current(self) -> str | None:
        """The conversation that commands act on by default: the chosen one, or else the newest."""
        known = chosen(self._remembers) if self._remembers else None
        if known and self.files.directories.has(known):
            return known
        return next(iter(self.run(self.port.newest(1))), None)

    def set_current(self, id: str) -> None:
        """Have commands act on this conversation by default."""
        if self._remembers:
            choose(self._remembers, id)

    @property
    def _remembers(self) -> Path | None:
        """File that remembers the current conversation; a store that `--store` names is a whole of its own."""
        return self.folder if self.address is None or not self.address.options else None

    def _the_current(self) -> str:
        current = self.current
        if current is None:
            raise StoreError(f'There is no conversation yet. `midturn query "…"{self.option}` begins one.')
        return current


_MOST = 100


def _without_password(address: str) -> str:
    return re.sub(r"([?&]password=)[^&]*", r"\1", re.sub(r"(://[^:@/]*):[^@/]*@", r"\1@", address))


def find_place(store: StoreAddress | None = None) -> Place:
    """Find the place of a command at a terminal, and say what of this workspace's conversations is not in it."""
    place = place_in(Path.cwd(), store)
    if place.workspace and place.address is None:
        _say_what_is_elsewhere(place.workspace)
    return place


def place_in(cwd: Path, store: StoreAddress | None = None) -> Place:
    """Find the place of a command that is given in `cwd`: this alone says where conversations are.

    Raises:
        ConfigError: They would lie in the workspace, where tools may write; or nothing says where the user's own files are.
        StoreError: Others may have written what lies there.
    """
    workspace = Workspace.find(cwd)
    address = store or _configured()
    if address is None:
        return place_of(workspace, cwd)

    folder = folder_of(address.where)
    if workspace and folder:
        check_outside(folder, workspace.root, address.by)
    return place_at(address, workspace, cwd)


def place_at(address: StoreAddress, workspace: Workspace | None, cwd: Path) -> Place:
    """Return the place of a store that was named."""
    folder = address.where if isinstance(address.where, Path) else None
    return Place(workspace=workspace, folder=folder, cwd=cwd, address=address)


def place_of(workspace: Workspace | None, cwd: Path) -> Place:
    """Return the place of a workspace, or the one outside of any, in the user's data directory."""
    folder = workspace.conversations if workspace else own_conversations()
    return Place(workspace=workspace, folder=folder, cwd=cwd)


def every_place(here: Place) -> list[Place]:
    """Return where the user has conversations: this place first, then the one outside of any workspace, then each workspace's."""
    if here.address:
        return [here]
    others = [place_of(Workspace(known.root), known.root) for known in known_workspaces()]
    return list({place.folder: place for place in (here, place_of(None, here.cwd), *others)}.values())


def _say_what_is_elsewhere(workspace: Workspace) -> None:
    """Say what could be brought here: once of a directory of conversations in the workspace, which is only ever imported."""
    if former := formerly(workspace.root):
        note("midturn: this directory was {} before. `midturn workspace mv {} .` brings its conversations along.", former.root, former.root)
    brought = workspace.brought
    if brought and _is_news(workspace.root, "conversations"):
        note("midturn: there are conversations in {}. They are not used: `midturn conversation import` copies them to your own.", brought)


def _is_news(about: Path, what: str) -> bool:
    """Say whether this user is told `what` of a directory for the first time; where that cannot be kept, it always is."""
    real = os.fsencode(os.path.realpath(about))
    noted = user_state() / "told" / f"{what}-{sha256(real)[:16]}"
    if noted.exists():
        return False
    with suppress(OSError):
        ensure_private(noted.parent)
        create_private(noted, real)
    return True


def _configured() -> StoreAddress | None:
    where = configured_store(environment())
    return StoreAddress(where, "conversation.store") if where else None


def environment() -> dict[str, str]:
    """Return the environment as it is now."""
    return dict(os.environ)
