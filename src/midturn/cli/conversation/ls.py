"""`midturn conversation ls`."""

from __future__ import annotations

from datetime import datetime
from pathlib import Path

import click
from msgspec import Struct
from msgspec.structs import replace

from midturn.cli.exit_status import ExitStatus
from midturn.cli.layout import moment, table
from midturn.cli.options import with_json, with_store
from midturn.cli.output import note, say, say_json
from midturn.cli.place import Place, find_place
from midturn.cli.shown import Shown, block, joined, line
from midturn.errors import StoreError
from midturn.store.folder import Folder
from midturn.store.metadata import read_metadata

_JP_DIGITS = 12
"""Ids of `jp` count tenths of a second, ours microseconds."""


class Row(Struct, frozen=True, kw_only=True):
    """One conversation; `waiting` counts the open questions."""

    id: str
    title: str
    created_at: str
    labels: tuple[str, ...]
    current: bool = False
    turn_open: bool
    waiting: int


@click.command
@with_json
@with_store
def command(*, as_json: bool, store: Path | None) -> ExitStatus:
    """List the conversations, oldest first. A `*` marks the current one."""
    place = find_place(store)
    turns = {number: (seen.is_open, len(seen.questions)) for number, seen in place.files.looks()}
    rows: list[Row] = []
    current = place.current
    for number in place.store.ids_sync():
        try:
            rows.append(replace(_row(place, number, *turns.get(number, (False, 0))), current=number == current))
        except StoreError as error:
            note(line("midturn: {}", block(str(error))))
    if as_json:
        say_json([{field: getattr(row, field) for field in Row.__struct_fields__} for row in rows])
        return ExitStatus.DONE
    for text in table([_shown(row) for row in rows]):
        say(text)
    if not rows:
        say("There is no conversation yet.")
    return ExitStatus.DONE


def _row(place: Place, number: str, turn_open: bool, waiting: int) -> Row:  # noqa: FBT001  two facts about one turn
    with Folder.at(place.files.path(number)) as folder:
        metadata, _ = read_metadata(folder)
    return Row(
        id=number,
        title=metadata.title or place.store.read_sync(number).title,
        created_at=metadata.created_at or _time_of(number),
        labels=metadata.labels,
        turn_open=turn_open,
        waiting=waiting,
    )


def _time_of(number: str) -> str:
    """Return the time that an id is."""
    try:
        return datetime.fromtimestamp(int(number) / (10 if len(number) <= _JP_DIGITS else 1_000_000)).astimezone().isoformat()
    except (ValueError, OverflowError, OSError):
        return ""


def _shown(row: Row) -> tuple[Shown, Shown, Shown]:
    waits = line(" (waits for {})", "an answer" if row.waiting == 1 else f"{row.waiting} answers")
    state = waits if row.waiting else line(" (open turn)" if row.turn_open else "")
    labels = joined("", [line(" [{}]", label) for label in row.labels])
    mark = "*" if row.current else " "
    return line("{} {}", mark, row.id), moment(row.created_at), line("{}{}{}", row.title or "(untitled)", labels, state)
