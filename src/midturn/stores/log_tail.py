"""The end of an `events.jsonl`, read from the end: what is committed, and the lines of the last turn.

A newline commits a line, `more` = 0 commits a batch. Nothing here looks at more of the file than it must.
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
from midturn.stores.folder import Folder, telling
from midturn.stores.metadata import Metadata

NAME = "events.jsonl"
EVENTS: Final = "events.json"
"""The events of a conversation that `jp` records."""
FIRST_BLOCK = 8 * 1024
LARGEST_BLOCK = 4 * 1024 * 1024


def is_jp(folder: Path) -> bool:
    """Say whether `jp` alone recorded what is in this folder."""
    place = os.fspath(folder)  # asked of each conversation that is listed, and nearly always answered by the first look
    return not os.path.exists(f"{place}/{NAME}") and os.path.isfile(f"{place}/{EVENTS}")  # noqa: PTH110, PTH113


class LineMark(Struct, frozen=True):
    """The little of a line that says where turns and batches begin and end."""

    type: str = ""
    more: int = 0


class WholeLine(Struct, frozen=True):
    """One whole line, without its newline, and where it begins."""

    offset: int
    text: bytes


@cache
def _marks() -> msgspec.json.Decoder[LineMark]:
    """Return what reads marks; made by the first look at a line by itself, which is rare."""
    return msgspec.json.Decoder(LineMark)


def mark(line: bytes) -> LineMark:
    """Return what a line says about turns and batches; of a broken one, what can still be read."""
    try:
        return _marks().decode(clean(line))
    except (ValueError, RecursionError):  # msgspec's errors and Unicode's are ValueErrors
        event = decode_event(clean(line), "")
        return LineMark(event.type, event.more)


class FileEnd:
    """The end of a file as long as it was when it was opened here, read from the end as far as needed, and nothing of it twice."""

    def __init__(self, fd: int, size: int) -> None:
        self.size = size
        self._fd = fd
        self._begin = size
        self._data = b""

    def read(self, begin: int, end: int) -> bytes:
        """Return the bytes from `begin` to `end`; what was read is kept for the next look."""
        if begin < self._begin:
            self._data = self.pass_by(begin, self._begin) + self._data
            self._begin = begin
        return self._data[begin - self._begin : end - self._begin]

    def pass_by(self, begin: int, end: int) -> bytes:
        """Return the bytes from `begin` to `end`, and keep nothing of them here."""
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
        """Keep nothing of what was read."""
        self._begin, self._data = self.size, b""


def lines_backwards(file: FileEnd, end: int) -> Iterator[WholeLine]:
    """Yield the lines before `end` (just behind a newline, or 0), the last one first, blank ones left out."""
    position, block, behind = end, FIRST_BLOCK, b""
    while position > 0:
        size = min(block, position)
        position -= size
        data = file.read(position, position + size) + behind
        first = data.find(b"\n") + 1 if position else 0
        if first == len(data):  # the line that ends here begins further up
            behind = data
        else:
            yield from _reversed_lines(data, first, position)
            behind = data[:first]
        block = min(block * 2, LARGEST_BLOCK)


def committed_end(file: FileEnd) -> int:
    """Return where the last whole batch ends; everything behind it is torn."""
    end = _last_newline(file)
    for line in lines_backwards(file, end):
        if mark(line.text).more <= 0:
            return end
        end = line.offset
    return end


def last_turn(file: FileEnd, end: int) -> list[WholeLine]:
    """Return the lines of the last turn, from its `turn_start` on; all lines where there is none."""
    found: list[WholeLine] = []
    for line in lines_backwards(file, end):
        found.append(line)
        if mark(line.text).type == "turn_start":
            break
    return found[::-1]


def unfinished_turn(file: FileEnd, end: int) -> list[WholeLine]:
    """Return the lines of the last turn; none where it says that it is over. A legacy one may be without saying so."""
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
    """Return the offset just behind the last newline; 0 where there is none."""
    position, block = file.size, FIRST_BLOCK
    while position > 0:
        length = min(block, position)
        position -= length
        found = file.read(position, position + length).rfind(b"\n")
        if found >= 0:
            return position + found + 1
        block = min(block * 2, LARGEST_BLOCK)
    return 0


# ----------------------------------------------------------------------------------------------------------------------
# The end of an `events.jsonl`: its committed part and its last turn, read and decoded once


TURN = b'\n{"type":"turn_start",'
"""Start of the first line of a turn, where we have written it."""


class Ending(Struct, frozen=True):
    """The end of a file. Everything behind `end` is torn; the last turn begins at `begin`, and is there as `lines` and as `events`."""

    end: int
    begin: int
    lines: Sequence[bytes]
    events: Sequence[Event]


NOTHING = Ending(0, 0, (), ())
"""The end of an empty file."""


def read_ending(file: FileEnd, folder: Folder) -> Ending:
    """Read how the file in `folder` ends; what reads events is not made for a file that has none."""
    return (_plain_ending(file) or _any_ending(file, folder)) if file.size else NOTHING


def turn_of(file: FileEnd, lines: Sequence[WholeLine], folder: Folder) -> Sequence[Event]:
    """Decode the lines of a last turn. A broken one is an `OpaqueEvent` whose `problem` names the file and the line."""
    events = decode_lines([clean(line.text) for line in lines], "")
    if any(_wants_number(event) for event in events):  # only what stands before knows the number of a line
        before, end = lines[0].offset, lines[-1].offset + len(lines[-1].text) + 1
        whole = file.read(0, end)
        events = decode_stream(whole[before:], str(folder.path / NAME), whole.count(b"\n", 0, before) + 1)
    return events


def _plain_ending(file: FileEnd) -> Ending | None:
    """Look for the last line that begins as the first of a turn does; None where what stands there is not one whole turn.

    Where it looks is only a guess. The events that are decoded from there say whether it was right: the last batch is whole, the turn
    begins with the first of them and with no other.
    """
    begin, start, data = file.size, 0, b""
    while begin and not start:
        if file.size - begin > LARGEST_BLOCK:
            return None
        begin = max(2 * begin - file.size - FIRST_BLOCK, 0)  # twice as much each time
        data = file.read(begin, file.size)
        if not data.endswith(b"\n"):
            return None
        start = data.rfind(TURN) + 1
    lines = data[start:].split(b"\n")[:-1]
    events = decode_plain(lines)
    if events is None or (events and events[-1].more > 0) or TurnStart in map(type, events[1:]):
        return None
    return Ending(file.size, begin + start, lines, events)


def _any_ending(file: FileEnd, folder: Folder) -> Ending:
    """Go from line to line, whatever they are."""
    end = committed_end(file)
    lines = last_turn(file, end)
    return Ending(end, lines[0].offset if lines else 0, [line.text for line in lines], turn_of(file, lines, folder))


def _wants_number(event: Event) -> bool:
    return event.event_id.startswith("line:") or bool(problem_in(event))


# ----------------------------------------------------------------------------------------------------------------------
# Events from `events.jsonl`: all of them, or those of the last turn. Reading takes no lock and never writes


class ReadStream(Struct, frozen=True):
    """The readable part of a stream. `torn` says what stands at the end that was never committed, if anything does."""

    events: tuple[Event, ...] = ()
    torn: Sequence[str] = ()


class Mark(Struct, frozen=True):
    """The place where reading goes on: behind so many bytes or events, at the line of this number. It means something to its store alone.

    `turns` says of the mark of a turn how many turns begin before it, where they were counted.
    """

    offset: int = 0
    number: int = 1
    turns: int = 0


class Part(Struct, frozen=True, kw_only=True):
    """A part of a conversation: its lines, and what they say. `following` is where the next one begins; None where this is the last.

    `problems` are those of the files around the events; the last part says them.
    """

    lines: Sequence[bytes]
    metadata: Metadata
    decode: Callable[[], Sequence[Event]]
    following: Mark | None = None
    problems: Sequence[str] = ()


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
        return ReadStream(tuple(decode_stream(whole, str(self._folder.path / NAME))), self.torn())

    def lines(self, length: int | None = None) -> list[bytes]:
        """Read the lines as they are, without their newlines, blank ones left out: one for each event of `stream`.

        With `length`, only those of the first bytes.
        """
        return [line for line in self._all()[:length].split(b"\n")[:-1] if clean(line)]

    def part(self, mark: Mark, metadata: Metadata, problem: str) -> Part:
        """Read some megabytes of whole lines, from a mark on, beside what the conversation is called."""
        with telling("read", self._folder, NAME):
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
        """Look for where turns begin, as we write it; nothing that was looked at is kept."""
        with telling("read", self._folder, NAME):
            if before is None:
                return self._from_the_end(count)
            turns = sum(block.count(TURN) for _, _, block in self._blocks())
            first = min(before, turns + 1) - count
            return self._turn(first) if first > 1 else Mark()

    def _from_the_end(self, count: int) -> Mark:
        """Find where the last turns begin: of what is before them, only the lines are counted, which messages name."""
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
        return sum(self._file.pass_by(begin, min(begin + LARGEST_BLOCK, offset)).count(b"\n") for begin in blocks)

    def _turn(self, wanted: int) -> Mark:
        """Find the turn of this number: there are as many."""
        lines = turns = 0
        for begin, known, block in self._blocks():
            found = block.count(TURN)
            if turns + found >= wanted:
                at = -1
                for _ in range(wanted - turns):
                    at = block.find(TURN, at + 1)
                return Mark(begin + at + 1, lines + block.count(b"\n", known, at + 1) + 1, wanted - 1)
            lines += block.count(b"\n", known)
            turns += found
        return Mark()

    def torn(self) -> Sequence[str]:
        """Say what stands at the end that was never committed, if anything does."""
        if self._file.size == self._end:
            return ()
        what = f"{self._folder.path / NAME}: the last {self._file.size - self._end:,} bytes are not a whole batch and are left out"
        why = "an interrupted write, or a last line without its newline"
        return (f"{what} ({why}). The next to write keeps them beside it, as events.torn-<time>.",)

    def _whole_lines(self, begin: int) -> bytes:
        size = LARGEST_BLOCK
        while True:
            end = min(begin + size, self._end)
            data = self._file.pass_by(begin, end)
            if whole := data.rfind(b"\n") + 1:
                return data[:whole]
            if end == self._end:
                return b""
            size *= 2  # a line that is longer than that

    def _blocks(self) -> Iterator[tuple[int, int, bytes]]:
        """Yield blocks as if a newline stood before the file: where each begins, how much of it is the end of the one before, and itself.

        That end may be the beginning of a `TURN`, and is no whole one.
        """
        position, behind = 0, b"\n"
        while position < self._end:
            block = behind + self._file.pass_by(position, min(position + LARGEST_BLOCK, self._end))
            yield position - len(behind), len(behind), block
            position += len(block) - len(behind)
            behind = block[1 - len(TURN) :]

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
