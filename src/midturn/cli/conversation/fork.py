"""`midturn conversation fork`."""

from __future__ import annotations

import click

from midturn.cli.conversation.forking import fork
from midturn.cli.exit_status import ExitStatus
from midturn.cli.options import with_conversation, with_store
from midturn.cli.output import note, say
from midturn.cli.place import StoreAddress, find_place


@click.command
@with_conversation
@click.option("--turns", type=click.IntRange(min=1), metavar="N", help="Copy the first N turns only.")
@with_store
def command(id: str | None, *, turns: int | None, store: StoreAddress | None) -> ExitStatus:
    """Copy the finished turns of conversation ID (by default the current one) into a new one, and make that the current one."""
    place = find_place(store)
    source = place.conversation(id)
    made = fork(place, source, turns)
    note("midturn: conversation {} begins as {} does; `midturn query -c` goes on with it.", made, source)
    say("{}", made)
    return ExitStatus.DONE
