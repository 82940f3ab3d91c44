"""The choice of a store by its address."""

from __future__ import annotations

import os
from functools import cache
from typing import TYPE_CHECKING

from midturn.collector import loading
from midturn.errors import ConfigError
from midturn.plugins import find
from midturn.values.limits import DEFAULT_LIMITS, Limits

if TYPE_CHECKING:
    from collections.abc import Callable

    from midturn.store.admission import MayAnswer
    from midturn.store.file_store import FileStore
    from midturn.store.store import ConversationStore
    from midturn.store.watching import OnWake


def open_store(
    path: str | os.PathLike[str],
    *,
    trusted: bool = False,
    may_answer: MayAnswer | None = None,
    on_wake: OnWake | None = None,
    sealed: None = None,
) -> ConversationStore:
    """Return the store in the directory `path`, which is created with the first conversation, or in a database.

    Args:
        path: The directory, or `postgresql://…?midturn_schema=NAME` (extra `midturn[postgres]`; the tables are made by their first use),
            or the address of a store that an installed package brings (docs/guides/plug-ins.md).
        trusted: Take a directory in a workspace, too, where midturn's tools may write: what is recorded there is what they leave.
        may_answer: Guards the store for every program that opens it so; see `Agent`.
        on_wake: Called with the id of a conversation when an answer lets its turn go on; see `ConversationStore.waking`.
        sealed: Gone. Conversations are not sealed any more.

    Raises:
        ConfigError: It is the address of something else, it lies in a workspace and is not `trusted`, or the extra is not installed.
    """
    if sealed is not None:
        raise ConfigError(
            "`sealed` is gone: conversations are not sealed any more. Leave it out; what lies in the store that you name runs."
        )
    if not (trusted or (isinstance(path, str) and "://" in path)):
        _load_check()(path)
    store = store_at(path)
    woken = store if on_wake is None else store.waking(on_wake)
    return woken if may_answer is None else woken.guarded(may_answer)


@cache
def _load_check() -> Callable[[str | os.PathLike[str]], None]:
    with loading():  # who imports `open_store`, and opens none, needs no workspace
        from midturn.store.workspace import check_place

    return check_place


def store_at(path: str | os.PathLike[str], limits: Limits = DEFAULT_LIMITS) -> ConversationStore:
    """Return the store at an address, as `open_store` takes it.

    Raises:
        ConfigError: It is the address of something else, or the extra is not installed.
    """
    scheme = path.partition("://")[0].lower() if isinstance(path, str) and "://" in path else ""
    match scheme:
        case "":
            return _file_store(path, limits)
        case "postgresql" | "postgres":
            return _postgres_store(str(path), limits)
        case _:
            return _store_of_a_package(scheme, str(path), limits)


def _file_store(path: str | os.PathLike[str], limits: Limits) -> ConversationStore:
    return _file_stores()(path, limits=limits)


@cache
def _file_stores() -> type[FileStore]:
    with loading():  # who imports `open_store`, and opens none, needs no files
        from midturn.store.file_store import FileStore

    return FileStore


def _store_of_a_package(scheme: str, address: str, limits: Limits) -> ConversationStore:
    from midturn.store.store import ConversationStore

    plugin = find("store", scheme)
    if plugin is None:
        raise ConfigError(
            f"A store at `{scheme}://…` is unknown. Give a directory, or `postgresql://…`, or install the package that brings it."
        )
    opens = plugin.load()
    opened = opens(address, limits) if callable(opens) else None
    if not isinstance(opened, ConversationStore):
        raise ConfigError(f"The store `{scheme}` of {plugin.package} is no store: `{plugin.home}` returned {type(opened).__name__}.")
    return opened


def _postgres_store(url: str, limits: Limits) -> ConversationStore:
    try:
        from midturn.store.postgres.store import PostgresStore  # the driver is loaded where it is used
    except ImportError as error:
        if error.name not in {"psycopg", "psycopg_pool"}:
            raise
        raise ConfigError("A store in PostgreSQL needs an extra: pip install 'midturn[postgres]'") from None
    return PostgresStore(url, limits)
