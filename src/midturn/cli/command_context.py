"""The context of a command: its workspace, and the store of its conversations."""

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
    """A store selected by the user.

    `where` is a directory or a database URL. `by` is the option or key that selected it.
    """

    where: Path | str
    by: Literal["--store", "conversation.store"] = "--store"

    @property
    def options(self) -> tuple[str, ...]:
        """Options that select the same store in another command."""
        return ("--store", str(self.where)) if self.by == "--store" else ()

    @property
    def shown(self) -> str:
        """The address without a password."""
        return _without_password(str(self.where))

    def absolute(self) -> StoreAddress:
        """Return the address with an absolute path, which is valid in any working directory."""
        return replace(self, where=self.where.absolute()) if isinstance(self.where, Path) else self


def option_of(address: StoreAddress | None) -> str:
    """Return the option ` --store …` for suggested commands, without a password.

    Return an empty string for the default store.
    """
    return (
        f" {shlex.join(map(_without_password, address.options))}"
        if address and address.options
        else ""
    )


class CommandContext(Struct, frozen=True, kw_only=True, dict=True):
    """The workspace and the store that a command uses.

    Args:
        workspace: The workspace, or None outside of a workspace.
        folder: Directory with the conversations, or None if they are in a database.
        cwd: Working directory.
        address: Address of the store, or None for the default store.
        limits: Limits on batches of events.
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

        opened = (
            store_of(self.files)
            if self.folder
            else store_at(cast("StoreAddress", self.address).where, self.limits)
        )
        return opened.with_people(self.people)

    def people(self) -> Directory:
        """Return the people in the current configuration.

        If the configuration has become invalid, its last valid version is used.

        Raises:
            ConfigError: The configuration was never valid in this process.
        """
        from midturn.cli.people import people_in  # imported lazily: rarely needed

        return people_in(self.cwd, self.workspace.root if self.workspace else None, environment())

    @property
    def port(self) -> StorePort:
        """Low-level access to the conversations.

        For conversations in files, the store is not opened.
        """
        return self.files if self.folder else self.store.port

    @cached_property
    def files(self) -> FileConversations:
        """The conversations, stored in files.

        The object is created on first use, because most hooks find no open turn and do not need it.

        Raises:
            StoreError: The conversations are in a database.
            ConfigError: Other users can write to the store.
        """
        if self.folder is None:
            raise StoreError(
                "The conversations are in a database and have no files. To export one as a file:"
                f" `midturn conversation export --format jsonl{self.option}`. To import it:"
                f" `midturn conversation import{self.option}`"
            )
        from midturn.stores.file_conversations import FileConversations

        if self.address is not None:
            check_owner(self.folder)
        return FileConversations(
            self.folder, limits=self.limits, found=self._create_folder(self.folder)
        )

    def _create_folder(self, folder: Path) -> Callable[[], None] | None:
        """Return the function that creates the default folder.

        Return None for a store selected by the user.
        """
        if self.address is not None:
            return None
        return self.workspace.found if self.workspace else partial(found_folder, folder)

    def has_open_turn(self) -> bool:
        """Return whether a question may be open. For a database, always return true."""
        if self.is_quiet():
            return False
        return not self.is_on_disk or bool(self.run(self.port.ids(which="open", limit=1)))

    def is_quiet(self) -> bool:
        """Return whether the index contains no open turn. If so, the store need not be opened."""
        return self.folder is not None and OpenIndex(self.folder).is_empty()

    @property
    def root(self) -> Path:
        """The working directory of tools."""
        return self.workspace.root if self.workspace else self.cwd

    @property
    def project(self) -> str:
        """The directory to which the project's standing permissions apply."""
        return project_of(self.root)

    @property
    def directory(self) -> str | None:
        """Real path of the workspace, for listings, or None outside of a workspace."""
        return os.path.realpath(self.workspace.root) if self.workspace else None

    @property
    def option(self) -> str:
        """The option ` --store …` for suggested commands, without a password.

        Empty for the default store.
        """
        return option_of(self.address)

    @property
    def is_on_disk(self) -> bool:
        """Whether the conversations are in files. Otherwise they are in a database."""
        return self.folder is not None

    def under(self, limits: Limits) -> CommandContext:
        """Return the same context with other limits."""
        return replace(self, limits=limits)

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        """Run a store coroutine and return its result."""
        return in_a_loop(work) if self.port.needs_loop else drive(work)

    def conversation(self, id: str | None) -> str:
        """Return the ID of a conversation from its full ID or a unique prefix.

        Without `id`, return the ID of the current conversation.

        Raises:
            StoreError: There is no such conversation.
        """
        if id is None:
            return self._require_current()
        fitting = [known for known in self.beginning_with(id) if known.startswith(id)]
        if id in fitting or len(fitting) == 1:
            return id if id in fitting else fitting[0]
        what = (
            f"There is no conversation {id!r}"
            if not fitting
            else f"{len(fitting)} conversations start with {id!r}"
        )
        raise StoreError(
            f"{what}. Run `midturn conversation ls{self.option}` to list conversations."
        )

    def beginning_with(self, typed: str) -> list[str]:
        """Return all conversation IDs that start with `typed`.

        The caller has to filter the result, because it may contain other IDs. From a database, it
        has at most 100 IDs.
        """
        if self.is_on_disk or not typed:
            return self.run(self.port.ids())
        before = f"{typed[:-1]}{chr(ord(typed[-1]) - 1)}~"  # IDs are digits, sorted as text
        return self.run(self.port.ids(after=before, limit=_MAX_IDS))

    @property
    def current(self) -> str | None:
        """ID of the current conversation: the selected conversation, or else the newest."""
        return self.selected or next(iter(self.run(self.port.newest(1))), None)

    @property
    def selected(self) -> str | None:
        """ID of the conversation that was selected with `conversation use`, if it exists."""
        known = chosen(self._current_folder) if self._current_folder else None
        return known if known and self.files.directories.has(known) else None

    def set_current(self, id: str) -> None:
        """Make a conversation the current one."""
        if self._current_folder:
            choose(self._current_folder, id)

    @property
    def _current_folder(self) -> Path | None:
        """Folder in which the ID of the current conversation is stored.

        None for a store selected with `--store`.
        """
        return self.folder if self.address is None or not self.address.options else None

    def _require_current(self) -> str:
        current = self.current
        if current is None:
            raise StoreError(
                f'There is no conversation yet. To start one: `midturn query "…"{self.option}`'
            )
        return current


_MAX_IDS = 100


def _without_password(address: str) -> str:
    return re.sub(r"([?&]password=)[^&]*", r"\1", re.sub(r"(://[^:@/]*):[^@/]*@", r"\1@", address))


def find_place(store: StoreAddress | None = None) -> CommandContext:
    """Return the workspace and the store that a command uses.

    Print a note if conversations of this workspace are stored in other directories.
    """
    place = place_in(Path.cwd(), store)
    if place.workspace and place.address is None:
        _report_other_conversations(place.workspace)
    return place


def place_in(cwd: Path, store: StoreAddress | None = None) -> CommandContext:
    """Return the workspace and the store that a command uses in the directory `cwd`.

    Every command uses this function to find them.

    Raises:
        ConfigError: The store would be inside the workspace, where tools can write, or the user's
            directories are unknown.
        StoreError: Other users may have written to the store.
    """
    workspace = Workspace.find(cwd)
    address = store or _configured()
    if address is None:
        return place_of(workspace, cwd)

    folder = folder_of(address.where)
    if workspace and folder:
        check_outside(folder, workspace.root, address.by)
    return place_at(address, workspace, cwd)


def place_at(address: StoreAddress, workspace: Workspace | None, cwd: Path) -> CommandContext:
    """Return the context for a store selected by the user."""
    folder = address.where if isinstance(address.where, Path) else None
    return CommandContext(workspace=workspace, folder=folder, cwd=cwd, address=address)


def place_of(workspace: Workspace | None, cwd: Path) -> CommandContext:
    """Return the context for a workspace.

    Outside of a workspace, use the default store in the user's data directory.
    """
    folder = workspace.conversations if workspace else own_conversations()
    return CommandContext(workspace=workspace, folder=folder, cwd=cwd)


def every_place(here: CommandContext) -> list[CommandContext]:
    """Return the contexts of all stores that contain the user's conversations.

    They are the context `here`, the default store for directories outside of workspaces, and the
    stores of all known workspaces.
    """
    if here.address:
        return [here]
    others = [place_of(Workspace(known.root), known.root) for known in known_workspaces()]
    return list(
        {place.folder: place for place in (here, place_of(None, here.cwd), *others)}.values()
    )


def _report_other_conversations(workspace: Workspace) -> None:
    """Print a note if this workspace has conversations from an earlier path.

    Also print a note if conversations are stored inside the workspace. That note is printed only
    once.
    """
    if former := formerly(workspace.root):
        note(
            "midturn: this directory was previously {}. To move its conversations here: `midturn"
            " workspace mv {} .`",
            former.root,
            former.root,
        )
    brought = workspace.brought
    if brought and _is_news(workspace.root, "conversations"):
        note(
            "midturn: the conversations in {} are not used. To import them: `midturn conversation"
            " import`",
            brought,
        )


def _is_news(about: Path, what: str) -> bool:
    """Return whether the note `what` about a directory is new, and record that it was printed.

    If this cannot be recorded, the note is printed again next time.
    """
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
    """Return a copy of the current environment."""
    return dict(os.environ)
