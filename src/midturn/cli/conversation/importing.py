"""`midturn conversation import`."""

from __future__ import annotations

from pathlib import Path

import click

from midturn.cli.exit_status import ExitStatus
from midturn.cli.options import with_store
from midturn.cli.output import note, say
from midturn.cli.place import Place, StoreAddress, find_place
from midturn.cli.shown import block, line
from midturn.errors import StoreError, StoreLocked
from midturn.store.jp.folder import is_jp
from midturn.store.jp.importing import read_jp
from midturn.store.metadata import Metadata
from midturn.store.moving import Copied, Copying
from midturn.store.opening import store_at
from midturn.store.store import ConversationStore
from midturn.store.tail import NAME


@click.command
@click.argument("source")
@click.option("--id", "only", metavar="ID", help="Of a whole store, take this conversation alone.")
@with_store
def command(source: str, *, only: str | None, store: StoreAddress | None) -> ExitStatus:
    """Take conversations in from SOURCE, byte for byte.

    SOURCE is another store, in a directory or at `postgresql://...`; the directory of one conversation; a file that `export --format jsonl`
    wrote; or a folder that `jp` recorded. What is there already is left alone, so an import that was interrupted can be run again.
    """
    place = find_place(store)
    if "://" in source:
        return _all(place, store_at(source), only)
    path = Path(source)
    if path.is_file():
        return _lines(place, path)
    if not path.is_dir():
        raise click.UsageError(f"There is nothing at {source}.")
    if is_jp(path):
        return _jp(place, path)
    if (path / NAME).is_file():
        return _all(place, store_at(path.absolute().parent), path.absolute().name.partition("-")[0])
    return _all(place, store_at(path), only)


def _jp(place: Place, folder: Path) -> ExitStatus:
    recorded = read_jp(folder)
    return _added(place, recorded.lines, Metadata(title=recorded.title, others=recorded.metadata))


def _lines(place: Place, path: Path) -> ExitStatus:
    """Take in what `export --format jsonl` wrote."""
    lines = [row for row in path.read_bytes().split(b"\n") if row.strip()]
    if not lines or not lines[0].lstrip().startswith(b"{"):
        raise StoreError(f"{path} has no lines of JSON, as `midturn conversation export --format jsonl` writes them.")
    made = place.run(place.store.port.add(lines, Metadata()))
    return _told(place, made)


def _added(place: Place, lines: tuple[bytes, ...], metadata: Metadata) -> ExitStatus:
    return _told(place, place.run(place.store.port.add(lines, metadata)))


def _told(place: Place, number: str) -> ExitStatus:
    note("midturn: imported as conversation {}.", number)
    say("{}", place.files.path(number) if place.is_on_disk else number)
    return ExitStatus.DONE


def _all(place: Place, source: ConversationStore, only: str | None) -> ExitStatus:
    """Copy what another store has; what somebody writes right now is said, and left to another time."""
    copying = Copying(source, place.store)
    run = source.run_sync if source.port.needs_loop else place.store.run_sync
    numbers = [only] if only else source.ids_sync()
    left = 0
    for number in numbers:
        try:
            _say(number, run("copy", copying.copy(number)))
        except StoreLocked as error:
            left += 1
            note(line("midturn: {}", block(str(error))))
    if not numbers:
        raise StoreError("There is no conversation in that store.")
    if left:
        note("midturn: left behind: {}. Import again when their turns are done or wait.", str(left))
    return ExitStatus.ERROR if left else ExitStatus.DONE


def _say(number: str, copied: Copied) -> None:
    match copied.fate:
        case "was there":
            note("midturn: conversation {} is there already.", number)
            return
        case "renamed":
            note("midturn: another conversation has the id {}; this one is {} here.", number, copied.id)
        case "copied":
            pass
    if copied.is_open:
        note("midturn: the turn of {} is open in both stores: remove it where it came from, or it may go on twice.", number)
    say("{}", copied.id)
