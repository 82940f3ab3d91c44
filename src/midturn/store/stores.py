"""The places where conversations are kept: on disk, or in memory."""

from __future__ import annotations

import os
from pathlib import Path

from midturn.core.limits import DEFAULT_LIMITS, Limits
from midturn.errors import ConfigError
from midturn.store.admission import MayAnswer
from midturn.store.file_conversations import FileConversations
from midturn.store.memory_conversations import MemoryConversations
from midturn.store.store import ConversationStore
from midturn.store.waking import OnWake


class FileStore(ConversationStore):
    """Conversations on disk, in one directory or in several that share their ids; new ones are made in the first."""

    def __init__(self, *folders: Path, limits: Limits = DEFAULT_LIMITS, sealed: bool = False) -> None:
        self.files = FileConversations(*folders, limits=limits, sealed=sealed)
        """The files themselves."""
        super().__init__(self.files)


class MemoryStore(ConversationStore):
    """Conversations of one process, gone with it: for tests, and for programs that keep nothing.

    Args:
        limits: How deep answers may be nested, and how much one batch may weigh.
    """

    def __init__(self, limits: Limits = DEFAULT_LIMITS) -> None:
        super().__init__(MemoryConversations(limits))


def open_store(
    path: str | os.PathLike[str], *, sealed: bool = False, may_answer: MayAnswer | None = None, on_wake: OnWake | None = None
) -> ConversationStore:
    """Return the store in the directory `path`, which is created with the first conversation, or in a database.

    Args:
        path: The directory, or `postgresql://…?midturn_schema=NAME` (extra `midturn[postgres]`; the tables are made by their first use).
        sealed: Vouch for what is begun and decided here, under a key of this user's: a turn that somebody else has written, changed or
            put there is shown, and runs only once it is adopted. A workspace's store and the user's own are sealed without this. Whoever
            works on a sealed store has to say so each time.
        may_answer: Guards the store for every program that opens it so; see `Agent`.
        on_wake: Called with the id of a conversation when an answer lets its turn go on; see `ConversationStore.waking`.

    Raises:
        ConfigError: It is the address of something else, or the extra is not installed.
    """
    store = store_at(path, sealed=sealed)
    woken = store if on_wake is None else store.waking(on_wake)
    return woken if may_answer is None else woken.guarded(may_answer)


def store_at(path: str | os.PathLike[str], limits: Limits = DEFAULT_LIMITS, *, sealed: bool = False) -> ConversationStore:
    """Return the store at an address, as `open_store` takes it.

    Raises:
        ConfigError: It is the address of something else, or the extra is not installed.
    """
    scheme = path.partition("://")[0].lower() if isinstance(path, str) and "://" in path else ""
    match scheme:
        case "":
            return FileStore(Path(path), limits=limits, sealed=sealed)
        case "postgresql" | "postgres":
            return _postgres_store(str(path), limits, sealed=sealed)
        case _:
            raise ConfigError(f"A store at `{scheme}://…` is unknown. Give a directory, or `postgresql://…`.")


def _postgres_store(url: str, limits: Limits, *, sealed: bool) -> ConversationStore:
    try:
        from midturn.store.postgres.store import PostgresStore  # the driver is loaded where it is used
    except ImportError as error:
        if error.name not in {"psycopg", "psycopg_pool"}:
            raise
        raise ConfigError("A store in PostgreSQL needs an extra: pip install 'midturn[postgres]'") from None
    return PostgresStore(url, limits, sealed=sealed)
