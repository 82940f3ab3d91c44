"""`midturn store upgrade`."""

from __future__ import annotations

import click

from midturn.cli.exit_status import ExitStatus
from midturn.cli.output import note
from midturn.cli.store.database import database, with_database


@click.command
@with_database
def command(store: str) -> ExitStatus:
    """Make the tables, or bring them up to date. Several at once wait for each other."""
    before, after = database(store).upgrade_sync()
    if before == after:
        note("midturn: the tables have version {} already.", str(after))
    else:
        note("midturn: the tables have version {} now; before, it was {}.", str(after), str(before) if before else "none")
    return ExitStatus.DONE
