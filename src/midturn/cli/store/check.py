"""`midturn store check`."""

from __future__ import annotations

import click

from midturn.cli.exit_status import ExitStatus
from midturn.cli.output import note, say
from midturn.cli.store.database import database, with_database


@click.command
@with_database
def command(store: str) -> ExitStatus:
    """Compare the tables with the events, which are the truth. The status is 1 where they differ."""
    found = database(store).check_sync()
    for difference in found:
        say("{}", difference)
    if not found:
        note("midturn: the tables say what the events say.")
        return ExitStatus.DONE
    note("midturn: conversations that differ: {}. `midturn store reindex` computes them again.", str(len(found)))
    return ExitStatus.ERROR
