"""`midturn store`: manage a PostgreSQL store."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar

import click

from midturn.cli.command_context import StoreAddress, option_of
from midturn.cli.lazy import CommandEntry, lazy_group
from midturn.cli.output import ExitStatus, note, say
from midturn.errors import ConfigError
from midturn.stores.opening import postgres_store
from midturn.stores.workspace import SERVERS, scheme_of

if TYPE_CHECKING:
    from midturn.stores.postgres.conversations import PostgresStore


command = lazy_group(
    "store",
    "Manage a PostgreSQL store",
    {
        "upgrade": CommandEntry(
            "midturn.cli.store:upgrade_command", "Create or upgrade the tables"
        ),
        "check": CommandEntry(
            "midturn.cli.store:check_command", "Verify that the tables match the event log"
        ),
        "reindex": CommandEntry(
            "midturn.cli.store:reindex_command", "Rebuild tables that do not match"
        ),
    },
)


# --------------------------------------------------------------------------------------------------
# The database


_F = TypeVar("_F", bound=Callable[..., Any])


def with_database(command: _F) -> _F:
    """Add `--store` for a database."""
    return click.option(
        "--store",
        required=True,
        metavar="URL",
        help="Database URL: postgresql://...?midturn_schema=NAME",
    )(command)


def database(url: str) -> PostgresStore:
    """Open the store.

    Raises:
        ConfigError: The store is a directory, which needs no maintenance, or a plug-in's store,
            which has no midturn tables.
    """
    if "://" not in url:
        raise ConfigError(
            f"{url!r} is not a database URL. A store in a directory needs no upgrade; to check it:"
            " `midturn doctor`"
        )
    if scheme_of(url) not in SERVERS:
        ours = " or ".join(f"`{scheme}://…`" for scheme in SERVERS)
        raise ConfigError(f"Unsupported database `{scheme_of(url)}://…`. Expected {ours}.")
    return postgres_store(url)


# --------------------------------------------------------------------------------------------------
# `midturn store check`


@click.command
@with_database
def check_command(store: str) -> ExitStatus:
    """Verify that the tables match the event log

    Exits with status 1 if they differ.
    """
    found = database(store).check_sync()
    for difference in found:
        say("{}", difference)
    if not found:
        note("midturn: the tables match the event log.")
        return ExitStatus.DONE
    option = option_of(StoreAddress(store))
    note(
        "midturn: {} conversations do not match the event log. To rebuild their tables: `midturn"
        " store reindex{}`",
        str(len(found)),
        option,
    )
    return ExitStatus.ERROR


# --------------------------------------------------------------------------------------------------
# `midturn store reindex`


@click.command
@with_database
def reindex_command(store: str) -> ExitStatus:
    """Rebuild tables that do not match the event log"""
    note("midturn: rebuilt the tables of {} conversations.", str(database(store).reindex_sync()))
    return ExitStatus.DONE


# --------------------------------------------------------------------------------------------------
# `midturn store upgrade`


@click.command
@with_database
def upgrade_command(store: str) -> ExitStatus:
    """Create the tables, or upgrade them to this version"""
    before, after = database(store).upgrade_sync()
    if before == after:
        note("midturn: the tables are up to date (version {}).", str(after))
    elif before:
        note("midturn: upgraded the tables from version {} to {}.", str(before), str(after))
    else:
        note("midturn: created the tables (version {}).", str(after))
    return ExitStatus.DONE
