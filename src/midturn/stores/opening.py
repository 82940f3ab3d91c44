"""The choice of a store by its address."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Final

from midturn.errors import ConfigError
from midturn.extras import install_command
from midturn.plugins import Registry
from midturn.question.json_value import DEFAULT_LIMITS, Limits
from midturn.stores.authorization import MayAnswer
from midturn.stores.file_conversations import FileConversations
from midturn.stores.store import ConversationStore
from midturn.stores.watching import OnWake
from midturn.stores.workspace import SERVERS, check_owner, check_place, folder_of, scheme_of

if TYPE_CHECKING:
    from midturn.stores.postgres.conversations import PostgresStore


def open_store(
    path: str | os.PathLike[str],
    *,
    trusted: bool = False,
    may_answer: MayAnswer | None = None,
    on_wake: OnWake | None = None,
) -> ConversationStore:
    """Return the store in the directory `path`, which is created with the first conversation, or in a database.

    Args:
        path: The directory, or `postgresql://…?midturn_schema=NAME` (extra `midturn[postgres]`; the tables are made by their first use),
            or the address of a store that an installed package brings (docs/guides/plug-ins.md).
        trusted: Take a directory in a workspace, too, where midturn's tools may write: what is recorded there is what they leave.
        may_answer: Guards the store for every program that opens it so; see `Agent`.
        on_wake: Called with the id of a conversation when an answer lets its turn go on; see `ConversationStore.waking`.

    Raises:
        ConfigError: No store that is installed has such addresses, it lies in a workspace and is not `trusted`, others may write it, or
            what opens it fails.
    """
    folder = None if trusted else folder_of(path)
    if folder is not None:
        check_place(folder)
    store = store_at(path)
    woken = store if on_wake is None else store.waking(on_wake)
    return woken if may_answer is None else woken.guarded(may_answer)


def store_at(path: str | os.PathLike[str], limits: Limits = DEFAULT_LIMITS, found: Callable[[], None] | None = None) -> ConversationStore:
    """Return the store at an address, as `open_store` takes it; `found` makes its directory, where it is more than that.

    Raises:
        ConfigError: No store that is installed has such addresses, or what opens it fails.
    """
    match scheme := scheme_of(path):
        case "":
            check_owner(path)
            return FileStore(path, limits=limits, found=found)
        case "postgresql" | "postgres":
            return postgres_store(str(path), limits)
        case _:
            return _store_of_a_package(scheme, str(path), limits)


def store_of(files: FileConversations) -> ConversationStore:
    """Return the store of conversations that are files."""
    return ConversationStore(files)


def _store_of_a_package(scheme: str, address: str, limits: Limits) -> ConversationStore:
    opened = STORES.load(scheme)(address, limits)
    if not isinstance(opened, ConversationStore):
        raise ConfigError(
            f"The store `{scheme}://…` of {STORES.added[scheme]} cannot be used: what opens it returned {type(opened).__name__}, which is "
            "not a `ConversationStore`. Update that package, or uninstall it."
        )
    return opened


def postgres_store(url: str, limits: Limits = DEFAULT_LIMITS) -> PostgresStore:
    """Return the store in a database.

    Raises:
        ConfigError: The driver is not installed, or the address is none.
    """
    try:
        from midturn.stores.postgres.conversations import PostgresStore  # the driver is loaded where it is used
    except ImportError as error:
        if error.name not in {"psycopg", "psycopg_pool"}:
            raise
        raise ConfigError(f"A store in PostgreSQL needs the extra `postgres`: {install_command('postgres')}") from None
    return PostgresStore(url, limits)


def _opens(found: object, _scheme: str) -> bool:
    return callable(found)


STORES: Final[Registry[Callable[[str, Limits], object]]] = Registry(
    kind="store",
    built_in=SERVERS,
    fits=_opens,
    ought="a function of an address and `Limits` that returns a `ConversationStore`",
    shown="{}://…",
    besides="A directory is named by its path.",
)
"""Stores that packages add, by the scheme of their addresses."""


# ----------------------------------------------------------------------------------------------------------------------
# A store whose conversations are files


class FileStore(ConversationStore):
    """Conversations on disk, in one directory or in several that share their ids; new ones are made in the first."""

    def __init__(self, *folders: str | os.PathLike[str], limits: Limits = DEFAULT_LIMITS, found: Callable[[], None] | None = None) -> None:
        """Keep them there; `found` makes the first directory, where it is more than that."""
        paths = [folder if isinstance(folder, Path) else Path(folder) for folder in folders]
        self.files = FileConversations(*paths, limits=limits, found=found)
        """The files themselves."""
        super().__init__(self.files)
