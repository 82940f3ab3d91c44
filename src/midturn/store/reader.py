"""Events from `events.jsonl`: all of them, or those of the last turn. Reading takes no lock and never writes."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Self

from msgspec import Struct

from midturn.core.codec import clean, decode_lines, decode_stream
from midturn.core.events import Event, OpaqueEvent
from midturn.store.event_file import NAME
from midturn.store.folder import Folder, telling
from midturn.store.tail import FileEnd, WholeLine, committed_end, last_turn, unfinished_turn


class ReadStream(Struct, frozen=True):
    """What could be read. `torn` counts the bytes at the end that were never committed."""

    events: tuple[Event, ...] = ()
    torn: int = 0


class EventReader:
    """An `events.jsonl`, open for reading up to what is committed now. Use it in a `with` statement.

    Raises:
        StoreError: There is no such file, or it cannot be read.
    """

    def __init__(self, folder: Folder) -> None:
        self._folder = folder
        with telling("read", folder, NAME):
            self._fd = folder.open(NAME, os.O_RDONLY)
            try:
                self._file = FileEnd(self._fd)
                self._end = committed_end(self._file)
            except BaseException:
                os.close(self._fd)
                raise

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        os.close(self._fd)

    def stream(self) -> ReadStream:
        """Read everything."""
        return ReadStream(tuple(decode_stream(self._all(), str(self._folder.path / NAME))), self._file.size - self._end)

    def lines(self, length: int | None = None) -> list[bytes]:
        """Read the lines as they are, without their newlines, blank ones left out: one for each event of `stream`.

        With `length`, only those of the first bytes.
        """
        return [line for line in self._all()[:length].split(b"\n")[:-1] if clean(line)]

    def last_turn(self) -> tuple[Event, ...]:
        """Read the last turn from the end of the file, whatever its length."""
        with telling("read", self._folder, NAME):
            return turn_of(self._file, last_turn(self._file, self._end), self._folder)

    def last_lines(self) -> list[bytes]:
        """Read the lines of the last turn as they are, without their newlines."""
        with telling("read", self._folder, NAME):
            return [line.text for line in last_turn(self._file, self._end)]

    def unfinished_turn(self) -> tuple[Event, ...]:
        """Read the last turn as `last_turn` does, unless the last thing that the file says is that it is over."""
        with telling("read", self._folder, NAME):
            return turn_of(self._file, unfinished_turn(self._file, self._end), self._folder)

    def _all(self) -> bytes:
        with telling("read", self._folder, NAME):
            return self._file.pass_by(0, self._end)


def turn_of(file: FileEnd, lines: Sequence[WholeLine], folder: Folder) -> tuple[Event, ...]:
    """Decode the lines of a last turn. A broken one is an `OpaqueEvent` whose `problem` names the file and the line."""
    events = decode_lines([clean(line.text) for line in lines], "")
    if any(_wants_number(event) for event in events):  # only what stands before knows the number of a line
        before, end = lines[0].offset, lines[-1].offset + len(lines[-1].text) + 1
        whole = file.read(0, end)
        events = decode_stream(whole[before:], str(folder.path / NAME), whole.count(b"\n", 0, before) + 1)
    return tuple(events)


def _wants_number(event: Event) -> bool:
    return event.event_id.startswith("line:") or (isinstance(event, OpaqueEvent) and bool(event.problem))
