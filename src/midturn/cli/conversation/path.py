"""`midturn conversation path`."""

from __future__ import annotations

import click

from midturn.cli.exit_status import ExitStatus
from midturn.cli.options import with_conversation, with_store
from midturn.cli.output import say
from midturn.cli.place import StoreAddress, find_place


@click.command
@with_conversation
@with_store
def command(id: str | None, *, store: StoreAddress | None) -> ExitStatus:
    """Print the directory of conversation ID (by default the current one)."""
    place = find_place(store)
    say("{}", place.files.path(place.conversation(id)))
    return ExitStatus.DONE
