"""`midturn conversation import`."""

from __future__ import annotations

from pathlib import Path

import click

from midturn.cli.exit_status import ExitStatus
from midturn.cli.options import with_store
from midturn.cli.output import note, say
from midturn.cli.place import find_place
from midturn.store.jp.importing import read_jp
from midturn.store.metadata import Metadata


@click.command
@click.argument("folder", type=click.Path(path_type=Path, exists=True, file_okay=False))
@with_store
def command(folder: Path, *, store: Path | None) -> ExitStatus:
    """Import the conversation that `jp` recorded in FOLDER; nothing of it is lost."""
    place = find_place(store)
    recorded = read_jp(folder)
    number = place.run(place.store.port.add(recorded.lines, Metadata(title=recorded.title, others=recorded.metadata)))
    note("midturn: imported as conversation {}.", number)
    say("{}", place.files.path(number))
    return ExitStatus.DONE
