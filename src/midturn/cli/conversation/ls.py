"""`midturn conversation ls`."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from datetime import datetime
from pathlib import Path
from typing import TypeAlias

import click
from msgspec import Struct
from msgspec.structs import replace

from midturn.cli.command_context import Place, StoreAddress, every_place, find_place
from midturn.cli.options import with_conversation, with_json, with_store
from midturn.cli.output import ExitStatus, Shown, block, joined, line, moment, note, say, say_json, table
from midturn.config.places import shown
from midturn.errors import StoreError
from midturn.question.json_value import Json
from midturn.stores.metadata import Metadata, read_metadata
from midturn.stores.port import first_words

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
@click.option("--limit", type=click.IntRange(min=1), metavar="N", help="List the newest N only.")
@with_json
@with_store
def ls_command(*, everywhere: bool, limit: int | None, as_json: bool, store: StoreAddress | None) -> ExitStatus:
    """List the conversations, oldest first. A `*` marks the current one."""
    place = find_place(store)
    if everywhere:
        _say_everywhere([(there, _rows(there, limit)) for there in every_place(place)], as_json=as_json)
        return ExitStatus.DONE
    rows = _rows(place, limit)
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


def _rows(place: Place, limit: int | None) -> list[Listed]:
    rows: list[Listed] = []
    current = place.current
    for number, metadata, turn_open, waiting in _on_disk(place, limit) if place.is_on_disk else _in_database(place, limit):
        try:
            row = _row(place, number, metadata, turn_open, waiting)
        except StoreError as error:
            note(line("midturn: {}", block(str(error))))
        else:
            rows.append(replace(row, current=number == current))
    return rows


_Found: TypeAlias = tuple[str, Metadata | None, bool, int]
"""A conversation: what it is called, where that is known, whether its turn is open, and how many questions wait in it."""


def _on_disk(place: Place, limit: int | None) -> Iterator[_Found]:
    """Yield the newest conversations, oldest first; where not all are wanted, no other one is looked at."""
    port = place.port
    numbers = place.run(port.ids(which="begun") if limit is None else port.newest(limit))
    numbers.sort()
    prefixes = [""] if limit is None else [f"{number}-" for number in numbers]
    turns = {number: seen for prefix in prefixes for number, seen in place.files.turns.waiting(prefix)}
    yield from ((number, None, number in turns, len(turns[number].questions) if number in turns else 0) for number in numbers)


def _in_database(place: Place, limit: int | None) -> Iterator[_Found]:
    """Yield the newest conversations, oldest first: a database says at once what many are called."""
    port = place.port
    oldest = place.run(port.newest(limit))[-1:] if limit else []
    after = _before(oldest[0]) if oldest else ""
    opened = set(place.run(port.ids(which="open", after=after)))
    waiting = Counter(question.conversation for question in place.run(port.questions(after=f"{oldest[0]}-x" if oldest else None)))
    while page := place.run(port.described(after=after)):
        yield from ((number, metadata, number in opened, waiting[number]) for number, metadata in page)
        after = page[-1][0]


def _before(id: str) -> str:
    """Return a text that sorts between an id and the one before it."""
    return f"{id[:-1]}{chr(ord(id[-1]) - 1)}~"


def _row(place: Place, number: str, metadata: Metadata | None, turn_open: bool, waiting: int) -> Listed:  # noqa: FBT001  facts about one turn
    if metadata is None:
        with place.files.directories.open(number) as folder:
            metadata, _ = read_metadata(folder)
    return Listed(
        id=number,
        title=metadata.title or place.run(first_words(place.port, number)),
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


# ----------------------------------------------------------------------------------------------------------------------
# `midturn conversation path`


@click.command
@with_conversation
@with_store
def path_command(id: str | None, *, store: StoreAddress | None) -> ExitStatus:
    """Print the directory of conversation ID (by default the current one)."""
    place = find_place(store)
    say("{}", place.files.directories.path(place.conversation(id)))
    return ExitStatus.DONE


# ----------------------------------------------------------------------------------------------------------------------
# `midturn conversation use`


@click.command
@with_conversation
def use_command(id: str | None) -> ExitStatus:
    """Make conversation ID the one that commands act on (without an ID: keep the current one, also when newer ones come)."""
    place = find_place()
    chosen = place.conversation(id)
    place.set_current(chosen)
    note("midturn: the current conversation is {}.", chosen)
    return ExitStatus.DONE
