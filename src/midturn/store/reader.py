"""Events from `events.jsonl`: all of them, or those of the last turn. Reading takes no lock and never writes."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Self

from msgspec import Struct

from midturn.core.codec import decode_event, decode_lines
from midturn.core.events import Event, OpaqueEvent
from midturn.errors import StoreError
from midturn.store.event_file import NAME
from midturn.store.folder import Folder, telling
from midturn.store.tail import clean, committed_end, ends_finished, last_turn


class Stream(Struct, frozen=True):
    """What could be read. `torn` counts the bytes at the end that were never committed."""

    events: tuple[Event, ...] = ()
    torn: int = 0


class EventReader:
    """An `events.jsonl`, open for reading up to what is committed now. Use it in a `with` statement.

    Raises:
        StoreError: There is no such file, or it cannot be read.
    """

    def __init__(self, folder: Folder) -> None:
        self.path = folder.path / NAME
        with telling("read", self.path):
            self._fd = folder.open(NAME, os.O_RDONLY)
            try:
                self._end = committed_end(self._fd)
            except BaseException:
                os.close(self._fd)
                raise

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        os.close(self._fd)

    def stream(self) -> Stream:
        """Read everything."""
        with telling("read", self.path):
            torn = os.fstat(self._fd).st_size - self._end
        return Stream(tuple(read_events(self._fd, self._end, self.path)), max(torn, 0))

    def lines(self) -> list[bytes]:
        """Read the lines as they are, without their newlines, blank ones left out: one for each event of `stream`."""
        with telling("read", self.path):
            data = _read_up_to(self._fd, self._end)
        return [line for line in data.split(b"\n")[:-1] if clean(line)]

    def last_turn(self) -> tuple[Event, ...]:
        """Read the last turn from the end of the file, whatever its length."""
        with telling("read", self.path):
            lines = last_turn(self._fd, self._end)
        events = [decode_event(clean(line.text), f"{self.path}:0") for line in lines]
        if any(event.event_id == _UNNUMBERED or (isinstance(event, OpaqueEvent) and event.problem) for event in events):
            events = read_events(self._fd, self._end, self.path)[-len(events) :]  # only the whole file knows the number of a line
        return tuple(events)

    def last_lines(self) -> list[bytes]:
        """Read the lines of the last turn as they are, without their newlines."""
        with telling("read", self.path):
            return [line.text for line in last_turn(self._fd, self._end)]

    def unfinished_turn(self) -> tuple[Event, ...]:
        """Read the last turn as `last_turn` does, unless the last thing that the file says is that it is over."""
        with telling("read", self.path):
            finished = ends_finished(self._fd, self._end)
        return () if finished else self.last_turn()


_UNNUMBERED = "line:0"


def read_events(fd: int, end: int, path: Path) -> list[Event]:
    """Read the events before `end`. A broken line is an `OpaqueEvent` whose `problem` names the file and the line."""
    with telling("read", path):
        data = _read_up_to(fd, end)
    lines = [clean(line) for line in data.split(b"\n")[:-1]]
    if all(lines):
        return decode_lines(lines, str(path))
    return [decode_event(line, f"{path}:{number}") for number, line in enumerate(lines, 1) if line]


def _read_up_to(fd: int, end: int) -> bytes:
    parts: list[bytes] = []
    position = 0
    while position < end:
        part = os.pread(fd, end - position, position)
        if not part:
            raise StoreError("The conversation was cut while it was being read. Read it again.")
        parts.append(part)
        position += len(part)
    return parts[0] if len(parts) == 1 else b"".join(parts)
