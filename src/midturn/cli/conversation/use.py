"""`midturn conversation use`."""

from __future__ import annotations

import click

from midturn.cli.exit_status import ExitStatus
from midturn.cli.options import with_conversation
from midturn.cli.output import note
from midturn.cli.place import find_place


@click.command
@with_conversation
def command(id: str | None) -> ExitStatus:
    """Make conversation ID the one that commands act on (without an ID: keep the current one, also when newer ones come)."""
    place = find_place()
    chosen = place.conversation(id)
    place.set_current(chosen)
    note("midturn: the current conversation is {}.", chosen)
    return ExitStatus.DONE
