"""`midturn store`: looks after conversations in a database."""

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
    "Look after conversations in PostgreSQL.",
    {
        "upgrade": CommandEntry("midturn.cli.store:upgrade_command", "Make the tables, or bring them up to date."),
        "check": CommandEntry("midturn.cli.store:check_command", "Compare the tables with the events."),
        "reindex": CommandEntry("midturn.cli.store:reindex_command", "Compute the tables from the events again."),
    },
)


# ----------------------------------------------------------------------------------------------------------------------
# The database of `midturn store`


_F = TypeVar("_F", bound=Callable[..., Any])


def with_database(command: _F) -> _F:
    """Add `--store`."""
    return click.option("--store", required=True, metavar="URL", help="The database: `postgresql://...?midturn_schema=NAME`.")(command)


def database(url: str) -> PostgresStore:
    """Open the store.

    Raises:
        ConfigError: It is a directory, which needs no looking after, or a store of a package, which has tables of its own, if any.
    """
    if "://" not in url:
        raise ConfigError(f"{url!r} is not a database. A store in a directory needs no upgrade; `midturn doctor` looks at it.")
    if scheme_of(url) not in SERVERS:
        ours = " or ".join(f"`{scheme}://…`" for scheme in SERVERS)
        raise ConfigError(f"A store at `{scheme_of(url)}://…` has no tables that midturn looks after: one at {ours} has.")
    return postgres_store(url)


# ----------------------------------------------------------------------------------------------------------------------
# `midturn store check`


@click.command
@with_database
def check_command(store: str) -> ExitStatus:
    """Compare the tables with the events, which are the truth. The status is 1 where they differ."""
    found = database(store).check_sync()
    for difference in found:
        say("{}", difference)
    if not found:
        note("midturn: the tables say what the events say.")
        return ExitStatus.DONE
    option = option_of(StoreAddress(store))
    note("midturn: conversations that differ: {}. `midturn store reindex{}` computes them again.", str(len(found)), option)
    return ExitStatus.ERROR


# ----------------------------------------------------------------------------------------------------------------------
# `midturn store reindex`


@click.command
@with_database
def reindex_command(store: str) -> ExitStatus:
    """Compute the tables from the events again, where they differ. What others write meanwhile is left to them."""
    note("midturn: conversations mended: {}.", str(database(store).reindex_sync()))
    return ExitStatus.DONE


# ----------------------------------------------------------------------------------------------------------------------
# `midturn store upgrade`


@click.command
@with_database
def upgrade_command(store: str) -> ExitStatus:
    """Make the tables, or bring them up to date. Several at once wait for each other."""
    before, after = database(store).upgrade_sync()
    if before == after:
        note("midturn: the tables have version {} already.", str(after))
    else:
        note("midturn: the tables have version {} now; before, it was {}.", str(after), str(before) if before else "none")
    return ExitStatus.DONE
