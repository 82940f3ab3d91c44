"""Events from `events.jsonl`: all of them, or those of the last turn. Reading takes no lock and never writes."""

from __future__ import annotations

import os
from functools import cached_property
from typing import Self

from msgspec import Struct

from midturn.core.codec import clean, decode_stream
from midturn.core.events import Event
from midturn.store.ending import Ending, read_ending, turn_of
from midturn.store.folder import Folder, telling
from midturn.store.tail import NAME, FileEnd, committed_end, unfinished_turn


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
            self._fd, found = folder.opened(NAME, os.O_RDONLY)
        self._file = FileEnd(self._fd, found.st_size)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        os.close(self._fd)

    def stream(self) -> ReadStream:
        """Read everything."""
        whole = self._all()
        return ReadStream(tuple(decode_stream(whole, str(self._folder.path / NAME))), self._file.size - len(whole))

    def lines(self, length: int | None = None) -> list[bytes]:
        """Read the lines as they are, without their newlines, blank ones left out: one for each event of `stream`.

        With `length`, only those of the first bytes.
        """
        return [line for line in self._all()[:length].split(b"\n")[:-1] if clean(line)]

    def last_turn(self) -> tuple[Event, ...]:
        """Read the last turn from the end of the file, whatever its length."""
        with telling("read", self._folder, NAME):
            return tuple(self._ending.events)

    def unfinished_turn(self) -> tuple[Event, ...]:
        """Read the last turn as `last_turn` does, unless the last thing that the file says is that it is over."""
        with telling("read", self._folder, NAME):
            return tuple(turn_of(self._file, unfinished_turn(self._file, self._end), self._folder))

    @cached_property
    def _ending(self) -> Ending:
        return read_ending(self._file, self._folder)

    @cached_property
    def _end(self) -> int:
        return committed_end(self._file)

    def _all(self) -> bytes:
        with telling("read", self._folder, NAME):
            return self._file.pass_by(0, self._end)
