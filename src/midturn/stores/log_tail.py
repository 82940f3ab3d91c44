"""Reads `events.jsonl` from its end: the committed part, and the lines of the last turn.

A newline commits a line, and `more` = 0 commits a batch. Bytes after the last committed batch are
called torn. Only the needed part of the file is read.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from functools import cache, cached_property
from pathlib import Path
from typing import Final, Self

import msgspec
from msgspec import Struct

from midturn.errors import StoreError
from midturn.events.codec import clean, decode_event, decode_lines, decode_plain, decode_stream
from midturn.events.types import Event, TurnStart, problem_in
from midturn.stores.folder import Folder, reporting_os_errors
from midturn.stores.metadata import Metadata

NAME = "events.jsonl"
EVENTS: Final = "events.json"
"""The events of a conversation that `jp` records."""
FIRST_BLOCK = 8 * 1024
LARGEST_BLOCK = 4 * 1024 * 1024


def is_jp(folder: Path) -> bool:
    """Return whether the directory contains a conversation that only `jp` recorded."""
    place = os.fspath(
        folder
    )  # called for each listed conversation, so the most common case is tested first
    return not os.path.exists(f"{place}/{NAME}") and os.path.isfile(f"{place}/{EVENTS}")  # noqa: PTH110, PTH113


class LineMark(Struct, frozen=True):
    """The fields of a line that mark the beginning and end of turns and batches."""

    type: str = ""
    more: int = 0


class WholeLine(Struct, frozen=True):
    """A whole line, without its newline, and its offset in the file."""

    offset: int
    text: bytes


@cache
def _marks() -> msgspec.json.Decoder[LineMark]:
    """Return the decoder of marks. It is created on first use, because single lines are rarely
    decoded.
    """
    return msgspec.json.Decoder(LineMark)


def mark(line: bytes) -> LineMark:
    """Return the mark of a line; for a broken line, the readable fields."""
    try:
        return _marks().decode(clean(line))
    except (ValueError, RecursionError):  # msgspec's errors and Unicode's are ValueErrors
        event = decode_event(clean(line), "")
        return LineMark(event.type, event.more)


class FileEnd:
    """The end of a file, up to the size that it had when it was opened.

    The file is read backwards as far as needed. Each byte is read only once.
    """

    def __init__(self, fd: int, size: int) -> None:
        self.size = size
        self._fd = fd
        self._begin = size
        self._data = b""

    def read(self, begin: int, end: int) -> bytes:
        """Return the bytes from `begin` to `end`, and cache them."""
        if begin < self._begin:
            self._data = self.pass_by(begin, self._begin) + self._data
            self._begin = begin
        return self._data[begin - self._begin : end - self._begin]

    def pass_by(self, begin: int, end: int) -> bytes:
        """Return the bytes from `begin` to `end`, without the cache."""
        parts: list[bytes] = []
        position = begin
        while position < end:
            part = os.pread(self._fd, end - position, position)
            if not part:
                raise StoreError("The conversation was cut while it was being read. Read it again.")
            parts.append(part)
            position += len(part)
        return parts[0] if len(parts) == 1 else b"".join(parts)

    def forget(self) -> None:
        """Clear the cache."""
        self._begin, self._data = self.size, b""


def lines_backwards(file: FileEnd, end: int) -> Iterator[WholeLine]:
    """Yield the lines before `end`, the last line first, without blank lines. `end` is an offset
    directly after a newline, or 0.
    """
    position, block, behind = end, FIRST_BLOCK, b""
    while position > 0:
        size = min(block, position)
        position -= size
        data = file.read(position, position + size) + behind
        first = data.find(b"\n") + 1 if position else 0
        if first == len(data):  # the line that ends here begins in an earlier block
            behind = data
        else:
            yield from _reversed_lines(data, first, position)
            behind = data[:first]
        block = min(block * 2, LARGEST_BLOCK)


def committed_end(file: FileEnd) -> int:
    """Return the offset at which the last whole batch ends; everything after it is torn."""
    end = _last_newline(file)
    for line in lines_backwards(file, end):
        if mark(line.text).more <= 0:
            return end
        end = line.offset
    return end


def last_turn(file: FileEnd, end: int) -> list[WholeLine]:
    """Return the lines of the last turn, from its `turn_start` on; all lines if there is none."""
    found: list[WholeLine] = []
    for line in lines_backwards(file, end):
        found.append(line)
        if mark(line.text).type == "turn_start":
            break
    return found[::-1]


def unfinished_turn(file: FileEnd, end: int) -> list[WholeLine]:
    """Return the lines of the last turn, or no lines if it has a `turn_end`. A turn that an older
    version wrote may have ended without this event.
    """
    found: list[WholeLine] = []
    for line in lines_backwards(file, end):
        found.append(line)
        kind = mark(line.text).type
        if kind == "turn_end":
            return []
        if kind == "turn_start":
            break
    return found[::-1]


def _reversed_lines(data: bytes, first: int, position: int) -> Iterator[WholeLine]:
    stop = len(data)
    while stop > first:
        start = max(data.rfind(b"\n", first, stop - 1) + 1, first)
        text = data[start : stop - 1]
        if text.startswith(b"{") or clean(text):
            yield WholeLine(position + start, text)
        stop = start


def _last_newline(file: FileEnd) -> int:
    """Return the offset after the last newline, or 0 if there is none."""
    position, block = file.size, FIRST_BLOCK
    while position > 0:
        length = min(block, position)
        position -= length
        found = file.read(position, position + length).rfind(b"\n")
        if found >= 0:
            return position + found + 1
        block = min(block * 2, LARGEST_BLOCK)
    return 0


# --------------------------------------------------------------------------------------------------
# The end of an `events.jsonl`: its committed part and its last turn, read and decoded once


TURN = b'\n{"type":"turn_start",'
"""Start of the first line of a turn, as midturn writes it."""


class LogEnd(Struct, frozen=True):
    """The end of a file.

    Everything after `end` is torn. The last turn begins at `begin`; `lines` and `events` contain
    it.
    """

    end: int
    begin: int
    lines: Sequence[bytes]
    events: Sequence[Event]


NOTHING = LogEnd(0, 0, (), ())
"""The end of an empty file."""


def read_ending(file: FileEnd, folder: Folder) -> LogEnd:
    """Read the end of the file in `folder`; for an empty file, no decoder is built."""
    return (_plain_ending(file) or _any_ending(file, folder)) if file.size else NOTHING


def turn_of(file: FileEnd, lines: Sequence[WholeLine], folder: Folder) -> Sequence[Event]:
    """Decode the lines of a last turn. A broken line becomes an `OpaqueEvent` whose `problem`
    names the file and the line.
    """
    events = decode_lines([clean(line.text) for line in lines], "")
    if any(
        _wants_number(event) for event in events
    ):  # the number of a line is computed from the lines before it
        before, end = lines[0].offset, lines[-1].offset + len(lines[-1].text) + 1
        whole = file.read(0, end)
        events = decode_stream(
            whole[before:], str(folder.path / NAME), whole.count(b"\n", 0, before) + 1
        )
    return events


def _plain_ending(file: FileEnd) -> LogEnd | None:
    """Find the last line that starts like the first line of a turn. Return None if the bytes from
    this line on are not one whole turn.

    The decoded events are checked as well: the last batch must be complete, and only the first
    event may be a `turn_start`.
    """
    begin, start, data = file.size, 0, b""
    while begin and not start:
        if file.size - begin > LARGEST_BLOCK:
            return None
        # the size of the block is doubled each time
        begin = max(2 * begin - file.size - FIRST_BLOCK, 0)
        data = file.read(begin, file.size)
        if not data.endswith(b"\n"):
            return None
        start = data.rfind(TURN) + 1
    lines = data[start:].split(b"\n")[:-1]
    events = decode_plain(lines)
    if events is None or (events and events[-1].more > 0) or TurnStart in map(type, events[1:]):
        return None
    return LogEnd(file.size, begin + start, lines, events)


def _any_ending(file: FileEnd, folder: Folder) -> LogEnd:
    """Find the end line by line, for files in any format."""
    end = committed_end(file)
    lines = last_turn(file, end)
    return LogEnd(
        end,
        lines[0].offset if lines else 0,
        [line.text for line in lines],
        turn_of(file, lines, folder),
    )


def _wants_number(event: Event) -> bool:
    return event.event_id.startswith("line:") or bool(problem_in(event))


# --------------------------------------------------------------------------------------------------
# All events of an `events.jsonl`, or only the events of its last turn. Reading takes no lock and
# never writes


class ReadStream(Struct, frozen=True):
    """The readable part of a log. `torn` describes the uncommitted bytes at its end, if there
    are any.
    """

    events: tuple[Event, ...] = ()
    torn: Sequence[str] = ()


class Mark(Struct, frozen=True):
    """The position at which reading continues: an offset in bytes or events, and the number of the
    line. Only the store that returned the mark can use it.

    `turns` is the number of turns before the mark, if they were counted.
    """

    offset: int = 0
    number: int = 1
    turns: int = 0


class Part(Struct, frozen=True, kw_only=True):
    """A part of a conversation: its lines and their events. `following` is the start of the next
    part; None if this is the last one.

    `problems` describes errors in files other than the log. Only the last part contains them.
    """

    lines: Sequence[bytes]
    metadata: Metadata
    decode: Callable[[], Sequence[Event]]
    following: Mark | None = None
    problems: Sequence[str] = ()


class EventReader:
    """An open `events.jsonl`, readable up to the end that was committed when it was opened. Use it
    in a `with` statement.

    Raises:
        StoreError: There is no such file, or the file cannot be read.
    """

    def __init__(self, folder: Folder) -> None:
        self._folder = folder
        with reporting_os_errors("read", folder, NAME):
            self._fd, found = folder.opened(NAME, os.O_RDONLY)
        self._file = FileEnd(self._fd, found.st_size)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        os.close(self._fd)

    def stream(self) -> ReadStream:
        """Read everything."""
        whole = self._all()
        return ReadStream(tuple(decode_stream(whole, str(self._folder.path / NAME))), self.torn())

    def lines(self, length: int | None = None) -> list[bytes]:
        """Read the lines as they are, without their newlines and without blank lines: one line
        for each event of `stream`.

        With `length`, read only the lines in the first `length` bytes.
        """
        return [line for line in self._all()[:length].split(b"\n")[:-1] if clean(line)]

    def part(self, mark: Mark, metadata: Metadata, problem: str) -> Part:
        """Read some megabytes of whole lines from a mark on, together with the metadata."""
        with reporting_os_errors("read", self._folder, NAME):
            data = self._whole_lines(mark.offset)
        lines, after = data.split(b"\n")[:-1], mark.offset + len(data)
        where = str(self._folder.path / NAME)
        more = Mark(after, mark.number + len(lines)) if after < self._end else None
        return Part(
            lines=[line for line in lines if clean(line)],
            metadata=metadata,
            decode=lambda: decode_stream(data, where, mark.number),
            following=more,
            problems=() if more else (*self.torn(), *([problem] if problem else [])),
        )

    def last_turns(self, count: int, before: int | None = None) -> Mark:
        """Return the start of the last turns (see `StorePort.last_turns`). Only turns that midturn
        itself wrote are found. The bytes are not cached.
        """
        with reporting_os_errors("read", self._folder, NAME):
            if before is None:
                return self._from_the_end(count)
            turns = sum(block.count(TURN) for _, _, block in self._blocks())
            first = min(before, turns + 1) - count
            return self._turn(first) if first > 1 else Mark()

    def _from_the_end(self, count: int) -> Mark:
        """Find the start of the last turns. Lines before this position are only counted, because
        messages contain line numbers.
        """
        end, size, behind = self._end, FIRST_BLOCK, b""
        while end > 0:
            begin = max(0, end - size)
            block = (b"" if begin else b"\n") + self._file.pass_by(begin, end) + behind
            at = len(block)
            while count and (at := block.rfind(TURN, 0, at)) >= 0:
                count -= 1
            if not count:
                offset = begin + at + (1 if begin else 0)
                return Mark(offset, self._lines_before(offset) + 1)
            end, size, behind = begin, min(2 * size, LARGEST_BLOCK), block[: len(TURN) - 1]
        return Mark()

    def _lines_before(self, offset: int) -> int:
        blocks = range(0, offset, LARGEST_BLOCK)
        return sum(
            self._file.pass_by(begin, min(begin + LARGEST_BLOCK, offset)).count(b"\n")
            for begin in blocks
        )

    def _turn(self, wanted: int) -> Mark:
        """Return the start of the turn with this number, which must exist."""
        lines = turns = 0
        for begin, known, block in self._blocks():
            found = block.count(TURN)
            if turns + found >= wanted:
                at = -1
                for _ in range(wanted - turns):
                    at = block.find(TURN, at + 1)
                return Mark(
                    begin + at + 1, lines + block.count(b"\n", known, at + 1) + 1, wanted - 1
                )
            lines += block.count(b"\n", known)
            turns += found
        return Mark()

    def torn(self) -> Sequence[str]:
        """Describe the uncommitted bytes at the end, if there are any."""
        if self._file.size == self._end:
            return ()
        what = (
            f"{self._folder.path / NAME}: the last {self._file.size - self._end:,} bytes are not a"
            " whole batch and are left out"
        )
        why = "an interrupted write, or a last line without its newline"
        return (
            f"{what} ({why}). The next writer keeps these bytes in the file events.torn-<time>.",
        )

    def _whole_lines(self, begin: int) -> bytes:
        size = LARGEST_BLOCK
        while True:
            end = min(begin + size, self._end)
            data = self._file.pass_by(begin, end)
            if whole := data.rfind(b"\n") + 1:
                return data[:whole]
            if end == self._end:
                return b""
            size *= 2  # the line is longer than the block

    def _blocks(self) -> Iterator[tuple[int, int, bytes]]:
        """Yield the file in blocks, as if it started with a newline, to search it for `TURN`. Each
        block comes with its offset, and the number of bytes that it repeats from the previous one.

        The repeated bytes are shorter than `TURN`, so each `TURN` is found in exactly one block.
        """
        position, behind = 0, b"\n"
        while position < self._end:
            block = behind + self._file.pass_by(position, min(position + LARGEST_BLOCK, self._end))
            yield position - len(behind), len(behind), block
            position += len(block) - len(behind)
            behind = block[1 - len(TURN) :]

    def last_turn(self) -> tuple[Event, ...]:
        """Read the last turn from the end of the file, whatever its length."""
        with reporting_os_errors("read", self._folder, NAME):
            return tuple(self._ending.events)

    def unfinished_turn(self) -> tuple[Event, ...]:
        """Read the last turn as `last_turn` does; return no events if the turn has ended."""
        with reporting_os_errors("read", self._folder, NAME):
            return tuple(turn_of(self._file, unfinished_turn(self._file, self._end), self._folder))

    @cached_property
    def _ending(self) -> LogEnd:
        return read_ending(self._file, self._folder)

    @cached_property
    def _end(self) -> int:
        return committed_end(self._file)

    def _all(self) -> bytes:
        with reporting_os_errors("read", self._folder, NAME):
            return self._file.pass_by(0, self._end)
