"""`midturn conversation ls`, `path` and `use`."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from datetime import datetime
from pathlib import Path
from typing import TypeAlias

import click
from msgspec import Struct
from msgspec.structs import replace

from midturn.cli.command_context import CommandContext, StoreAddress, every_place, find_place
from midturn.cli.options import with_conversation, with_json, with_store
from midturn.cli.output import (
    ExitStatus,
    Shown,
    block,
    joined,
    line,
    moment,
    note,
    say,
    say_json,
    table,
)
from midturn.config.places import shown
from midturn.errors import StoreError
from midturn.question.json_value import Json
from midturn.stores.metadata import Metadata, read_metadata
from midturn.stores.port import first_words

_MAX_JP_DIGITS = 12
"""Maximum number of digits in a `jp` ID, which is a time in tenths of a second. midturn's IDs are
longer, because they are times in microseconds.
"""


class Listed(Struct, frozen=True, kw_only=True):
    """A conversation in the list. `waiting` is the number of open questions."""

    id: str
    title: str
    created_at: str
    labels: tuple[str, ...]
    current: bool = False
    turn_open: bool
    waiting: int


@click.command
@click.option("--all", "everywhere", is_flag=True, help="Include all workspaces")
@click.option("--limit", type=click.IntRange(min=1), metavar="N", help="Only the newest N")
@with_json
@with_store
def ls_command(
    *, everywhere: bool, limit: int | None, as_json: bool, store: StoreAddress | None
) -> ExitStatus:
    """List conversations, oldest first (* marks the current one)"""
    place = find_place(store)
    if everywhere:
        _say_everywhere(
            [(other, _rows(other, limit)) for other in every_place(place)], as_json=as_json
        )
        return ExitStatus.DONE
    rows = _rows(place, limit)
    if as_json:
        say_json([_fields(row) for row in rows])
        return ExitStatus.DONE
    _say(rows)
    if not rows:
        say("No conversations yet.")
    return ExitStatus.DONE


def _say_everywhere(
    listed: Sequence[tuple[CommandContext, Sequence[Listed]]], *, as_json: bool
) -> None:
    if as_json:
        say_json(
            [
                {**_fields(row), "workspace": place.directory}
                for place, rows in listed
                for row in rows
            ]
        )
        return
    for place, rows in listed:
        if rows:
            say("In {}:", shown(Path(place.directory)) if place.directory else "no workspace")
            _say(rows)
    if not any(rows for _, rows in listed):
        say("No conversations yet.")


def _say(rows: Sequence[Listed]) -> None:
    for text in table([_shown(row) for row in rows]):
        say(text)


def _fields(row: Listed) -> dict[str, Json]:
    return {field: getattr(row, field) for field in Listed.__struct_fields__}


def _rows(place: CommandContext, limit: int | None) -> list[Listed]:
    rows: list[Listed] = []
    newest = ""
    for number, metadata, turn_open, waiting in (
        _on_disk(place, limit) if place.is_on_disk else _in_database(place, limit)
    ):
        newest = number
        try:
            rows.append(_row(place, number, metadata, turn_open, waiting))
        except StoreError as error:
            note(line("midturn: {}", block(str(error))))
    current = place.selected or newest
    return [replace(row, current=row.id == current) for row in rows]


_Found: TypeAlias = tuple[str, Metadata | None, bool, int]
"""ID, metadata if known, whether the turn is open, and the number of open questions."""


def _on_disk(place: CommandContext, limit: int | None) -> Iterator[_Found]:
    """Yield the newest conversations, oldest first. With a limit, only their files are read."""
    port = place.port
    numbers = place.run(port.ids(which="begun") if limit is None else port.newest(limit))
    numbers.sort()
    prefixes = [""] if limit is None else [f"{number}-" for number in numbers]
    turns = {
        number: seen for prefix in prefixes for number, seen in place.files.turns.waiting(prefix)
    }
    yield from (
        (number, None, number in turns, len(turns[number].questions) if number in turns else 0)
        for number in numbers
    )


def _in_database(place: CommandContext, limit: int | None) -> Iterator[_Found]:
    """Yield the newest conversations, oldest first. The metadata is read in pages."""
    port = place.port
    oldest = place.run(port.newest(limit))[-1:] if limit else []
    after = _before(oldest[0]) if oldest else ""
    opened = set(place.run(port.ids(which="open", after=after)))
    waiting = Counter(
        question.conversation
        for question in place.run(port.questions(after=f"{oldest[0]}-x" if oldest else None))
    )
    while page := place.run(port.described(after=after)):
        yield from (
            (number, metadata, number in opened, waiting[number]) for number, metadata in page
        )
        after = page[-1][0]


def _before(id: str) -> str:
    """Return a string that sorts between an ID and the previous possible ID."""
    return f"{id[:-1]}{chr(ord(id[-1]) - 1)}~"


def _row(
    place: CommandContext,
    number: str,
    metadata: Metadata | None,
    turn_open: bool,  # noqa: FBT001  facts about a turn
    waiting: int,
) -> Listed:
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
    """Return the creation time that an ID encodes."""
    try:
        return (
            datetime.fromtimestamp(
                int(number) / (10 if len(number) <= _MAX_JP_DIGITS else 1_000_000)
            )
            .astimezone()
            .isoformat()
        )
    except (ValueError, OverflowError, OSError):
        return ""


def _shown(row: Listed) -> tuple[Shown, Shown, Shown]:
    waits = line(
        " ({})", "1 open question" if row.waiting == 1 else f"{row.waiting} open questions"
    )
    state = waits if row.waiting else line(" (open turn)" if row.turn_open else "")
    labels = joined("", [line(" [{}]", label) for label in row.labels])
    mark = "*" if row.current else " "
    return (
        line("{} {}", mark, row.id),
        moment(row.created_at),
        line("{}{}{}", row.title or "(untitled)", labels, state),
    )


# --------------------------------------------------------------------------------------------------
# `midturn conversation path`


@click.command
@with_conversation
@with_store
def path_command(id: str | None, *, store: StoreAddress | None) -> ExitStatus:
    """Print the directory of a conversation"""
    place = find_place(store)
    say("{}", place.files.directories.path(place.conversation(id)))
    return ExitStatus.DONE


# --------------------------------------------------------------------------------------------------
# `midturn conversation use`


@click.command
@with_conversation
def use_command(id: str | None) -> ExitStatus:
    """Set the current conversation

    Without ID, keep the current one when newer conversations start.
    """
    place = find_place()
    chosen = place.conversation(id)
    place.set_current(chosen)
    note("midturn: the current conversation is {}.", chosen)
    return ExitStatus.DONE
