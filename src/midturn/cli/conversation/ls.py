"""`midturn conversation ls`."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from datetime import datetime
from pathlib import Path

import click
from msgspec import Struct
from msgspec.structs import replace

from midturn.cli.exit_status import ExitStatus
from midturn.cli.layout import moment, table
from midturn.cli.options import with_json, with_store
from midturn.cli.output import note, say, say_json
from midturn.cli.place import Place, StoreAddress, every_place, find_place
from midturn.cli.shown import Shown, block, joined, line
from midturn.config.places import shown
from midturn.core.json_value import Json
from midturn.errors import StoreError
from midturn.store.folder import Folder
from midturn.store.metadata import Metadata, read_metadata

_JP_DIGITS = 12
"""Ids of `jp` count tenths of a second, ours microseconds."""


class Listed(Struct, frozen=True, kw_only=True):
    """One conversation; `waiting` counts the open questions."""

    id: str
    title: str
    created_at: str
    labels: tuple[str, ...]
    current: bool = False
    turn_open: bool
    waiting: int


@click.command
@click.option("--all", "everywhere", is_flag=True, help="Of every workspace, and those begun outside of any.")
@with_json
@with_store
def command(*, everywhere: bool, as_json: bool, store: StoreAddress | None) -> ExitStatus:
    """List the conversations, oldest first. A `*` marks the current one."""
    place = find_place(store)
    if everywhere:
        _say_everywhere([(there, _rows(there)) for there in every_place(place)], as_json=as_json)
        return ExitStatus.DONE
    rows = _rows(place)
    if as_json:
        say_json([_fields(row) for row in rows])
        return ExitStatus.DONE
    _say(rows)
    if not rows:
        say("There is no conversation yet.")
    return ExitStatus.DONE


def _say_everywhere(listed: Sequence[tuple[Place, Sequence[Listed]]], *, as_json: bool) -> None:
    if as_json:
        say_json([{**_fields(row), "workspace": place.directory} for place, rows in listed for row in rows])
        return
    for place, rows in listed:
        if rows:
            say("In {}:", shown(Path(place.directory)) if place.directory else "no workspace")
            _say(rows)
    if not any(rows for _, rows in listed):
        say("There is no conversation yet.")


def _say(rows: Sequence[Listed]) -> None:
    for text in table([_shown(row) for row in rows]):
        say(text)


def _fields(row: Listed) -> dict[str, Json]:
    return {field: getattr(row, field) for field in Listed.__struct_fields__}


def _rows(place: Place) -> list[Listed]:
    turns = _open_turns(place)
    rows: list[Listed] = []
    current = place.current
    for number, metadata in _listed(place):
        try:
            row = _row(place, number, metadata, *turns.get(number, (False, 0)))
        except StoreError as error:
            note(line("midturn: {}", block(str(error))))
        else:
            rows.append(replace(row, current=number == current))
    return rows


def _open_turns(place: Place) -> dict[str, tuple[bool, int]]:
    """Return how many questions wait in each conversation whose turn is open."""
    if place.is_on_disk:
        return {number: (seen.is_open, len(seen.questions)) for number, seen in place.files.looks()}
    waiting = Counter(question.conversation for question in place.store.pending_sync())
    return {number: (True, waiting[number]) for number in place.run(place.store.port.ids(which="open"))}


def _listed(place: Place) -> Iterator[tuple[str, Metadata | None]]:
    """Yield every conversation; a database says at once what many are called, a folder is read one by one."""
    if place.is_on_disk:
        yield from ((number, None) for number in place.run(place.store.port.ids(which="begun")))
        return
    after = ""
    while page := place.run(place.store.port.described(after=after)):
        yield from page
        after = page[-1][0]


def _row(place: Place, number: str, metadata: Metadata | None, turn_open: bool, waiting: int) -> Listed:  # noqa: FBT001  facts about one turn
    if metadata is None:
        with Folder.at(place.files.path(number)) as folder:
            metadata, _ = read_metadata(folder)
    return Listed(
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


def _shown(row: Listed) -> tuple[Shown, Shown, Shown]:
    waits = line(" (waits for {})", "an answer" if row.waiting == 1 else f"{row.waiting} answers")
    state = waits if row.waiting else line(" (open turn)" if row.turn_open else "")
    labels = joined("", [line(" [{}]", label) for label in row.labels])
    mark = "*" if row.current else " "
    return line("{} {}", mark, row.id), moment(row.created_at), line("{}{}{}", row.title or "(untitled)", labels, state)
