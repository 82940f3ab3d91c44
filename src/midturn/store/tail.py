"""The end of an `events.jsonl`, read from the end: what is committed, and the lines of the last turn.

A newline commits a line, `more` = 0 commits a batch. Nothing here looks at more of the file than it must.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from functools import cache

import msgspec
from msgspec import Struct

from midturn.core.codec import clean, decode_event
from midturn.errors import StoreError

NAME = "events.jsonl"
FIRST_BLOCK = 8 * 1024
LARGEST_BLOCK = 4 * 1024 * 1024


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
    """Return what reads marks; it is made by the first who looks at a line by itself, which hardly anybody does."""
    return msgspec.json.Decoder(LineMark)


def mark(line: bytes) -> LineMark:
    """Return what a line says about turns and batches; of a broken one, what can still be read."""
    try:
        return _marks().decode(clean(line))
    except (ValueError, RecursionError):  # msgspec's errors and Unicode's are ValueErrors
        event = decode_event(clean(line), "")
        return LineMark(event.type, event.more)


class FileEnd:
    """The end of a file as long as it was when it was opened here, read from the end as far as somebody looks, and nothing of it twice."""

    def __init__(self, fd: int, size: int) -> None:
        self.size = size
        self._fd = fd
        self._begin = size
        self._data = b""

    def read(self, begin: int, end: int) -> bytes:
        """Return the bytes from `begin` to `end`; what they are is kept for whoever looks again."""
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
