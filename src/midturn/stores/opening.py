"""Opens a store by its address."""

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
    """Return the store in a directory or a database. A directory is created together with its first
    conversation.

    Args:
        path: The directory, or `postgresql://…?midturn_schema=NAME` (extra `midturn[postgres]`; the
            tables are created on first use), or the address of a store from an installed package
            (docs/howto/plug-ins.md).
        trusted: Whether to accept a directory in a workspace, where midturn's tools may write and
            could forge events.
        may_answer: Authorization rule for every program that opens the store in this way; see
            `Agent`.
        on_wake: Called with the ID of a conversation when an answer lets its turn continue; see
            `ConversationStore.with_ready_callback`.

    Raises:
        ConfigError: No installed store has such addresses, the store is in a workspace and not
            `trusted`, other users may write it, or it failed to open.
    """
    folder = None if trusted else folder_of(path)
    if folder is not None:
        check_place(folder)
    store = store_at(path)
    woken = store if on_wake is None else store.with_ready_callback(on_wake)
    return woken if may_answer is None else woken.with_authorizer(may_answer)


def store_at(
    path: str | os.PathLike[str],
    limits: Limits = DEFAULT_LIMITS,
    found: Callable[[], None] | None = None,
) -> ConversationStore:
    """Return the store at an address, as for `open_store`.

    `found` creates the directory if `mkdir` is not enough.

    Raises:
        ConfigError: No installed store has such addresses, or the store failed to open.
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
            f"The store `{scheme}://…` of {STORES.added[scheme]} cannot be used: its entry point"
            f" returned {type(opened).__name__}, which is not a `ConversationStore`. Update that"
            " package, or uninstall it."
        )
    return opened


def postgres_store(url: str, limits: Limits = DEFAULT_LIMITS) -> PostgresStore:
    """Return the store in a database.

    Raises:
        ConfigError: The driver is not installed, or the address is invalid.
    """
    try:
        # imported here, because it loads the database driver
        from midturn.stores.postgres.conversations import PostgresStore
    except ImportError as error:
        if error.name not in {"psycopg", "psycopg_pool"}:
            raise
        raise ConfigError(
            f"A store in PostgreSQL needs the extra `postgres`: {install_command('postgres')}"
        ) from None
    return PostgresStore(url, limits)


def _opens(found: object, _scheme: str) -> bool:
    return callable(found)


STORES: Final[Registry[Callable[[str, Limits], object]]] = Registry(
    kind="store",
    built_in=SERVERS,
    fits=_opens,
    ought="a function of an address and `Limits` that returns a `ConversationStore`",
    shown="{}://…",
    besides="To open a directory, pass its path.",
)
"""Stores that packages add, by the scheme of their addresses."""


# --------------------------------------------------------------------------------------------------
# A store whose conversations are files


class FileStore(ConversationStore):
    """Conversations on disk, in one directory or in several that share their IDs. New
    conversations are created in the first directory.
    """

    def __init__(
        self,
        *folders: str | os.PathLike[str],
        limits: Limits = DEFAULT_LIMITS,
        found: Callable[[], None] | None = None,
    ) -> None:
        """Create a store in these folders.

        `found` creates the first folder if `mkdir` is not enough.
        """
        paths = [folder if isinstance(folder, Path) else Path(folder) for folder in folders]
        self.files = FileConversations(*paths, limits=limits, found=found)
        """The conversations in files."""
        super().__init__(self.files)
