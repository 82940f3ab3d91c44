"""Which database `midturn store` looks after."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar

import click

from midturn.errors import ConfigError
from midturn.store.opening import open_store

if TYPE_CHECKING:
    from midturn.store.postgres.store import PostgresStore

_F = TypeVar("_F", bound=Callable[..., Any])


def with_database(command: _F) -> _F:
    """Add `--store`."""
    return click.option("--store", required=True, metavar="URL", help="The database: `postgresql://...?midturn_schema=NAME`.")(command)


def database(url: str) -> PostgresStore:
    """Open the store.

    Raises:
        ConfigError: It is a directory, which needs no looking after.
    """
    if "://" not in url:
        raise ConfigError(f"{url!r} is not a database. A store in a directory needs no upgrade; `midturn doctor` looks at it.")
    store = open_store(url)
    from midturn.store.postgres.store import PostgresStore  # the driver is there, or the line above has said so

    if not isinstance(store, PostgresStore):
        raise ConfigError(f"{url!r} is not a database with tables to look after.")
    return store
