"""`midturn store reindex`."""

from __future__ import annotations

import click

from midturn.cli.exit_status import ExitStatus
from midturn.cli.output import note
from midturn.cli.store.database import database, with_database


@click.command
@with_database
def command(store: str) -> ExitStatus:
    """Compute the tables from the events again, where they differ. What others write meanwhile is left to them."""
    note("midturn: conversations mended: {}.", str(database(store).reindex_sync()))
    return ExitStatus.DONE
