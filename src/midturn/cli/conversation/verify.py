"""`midturn conversation verify`."""

from __future__ import annotations

import click

from midturn.cli.exit_status import ExitStatus
from midturn.cli.options import with_conversation, with_json, with_store
from midturn.cli.output import note, say, say_json
from midturn.cli.place import StoreAddress, find_place

_WORDS = {
    "sealed": "begun and decided here, unchanged",
    "unsealed": "not sealed here: begun or decided elsewhere, or written by another program",
    "changed": "changed since it was sealed, or sealed elsewhere",
}


@click.command
@with_conversation
@with_store
@with_json
def command(id: str | None, *, store: StoreAddress | None, as_json: bool) -> ExitStatus:
    """Say for each turn of conversation ID whether its seals hold. The status is 1 if those of any do not."""
    place = find_place(store)
    number = place.conversation(id)
    verdicts = place.run(place.store.port.verdicts(number))
    if verdicts is None:
        note("midturn: conversations are not sealed in this store.")
        return ExitStatus.DONE
    if as_json:
        say_json([{"turn": turn, "verdict": verdict} for turn, verdict in enumerate(verdicts, 1)])
    else:
        for turn, verdict in enumerate(verdicts, 1):
            say("Turn {}: {}", turn, _WORDS[verdict])
    return ExitStatus.DONE if all(verdict == "sealed" for verdict in verdicts) else ExitStatus.ERROR
