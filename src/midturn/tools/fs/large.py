"""A file that is too large to be held: read from its beginning, a piece at a time, as far as is wanted."""

from __future__ import annotations

from collections.abc import Iterator
from typing import BinaryIO

from midturn.tools.fs.paths import shown
from midturn.tools.returned import Rejected

_MOST = 200 * 1024  # bytes, below what a tool's result may have
_PIECE = 64 * 1024  # bytes that are held of one line
_LOOKED_AT = 8192


class LargeFile:
    """An open file, at its beginning; `path` is what it is called, `size` how many bytes it has."""

    def __init__(self, file: BinaryIO, path: str, size: int) -> None:
        self._file = file
        self._path = path
        self._size = size

    def excerpt(self, first: int, last: int | None) -> str:
        """Return lines, as many as a result may hold, and say where to go on. Lines are cut where they are very long.

        Raises:
            Rejected: It is not text, or has no such lines.
        """
        taken: list[str] = []
        room, number = _MOST, 0
        for number, line in enumerate(self._lines(), start=1):
            if last is not None and number > last:
                return "\n".join(taken)
            if number < first:
                continue
            room -= len(line) + 1
            if room < 0 and taken:
                return "\n".join(
                    [*taken, f"(lines {first} to {number - 1} of a file of {self._size:,} bytes; go on with `start_line` {number})"]
                )
            taken.append(line.decode(errors="replace"))
        if not taken:
            raise Rejected(f"{shown(self._path)} has {number} lines; `start_line` must not lie beyond them or after `end_line`.")
        return "\n".join(taken)

    def _lines(self) -> Iterator[bytes]:
        is_first = True
        while piece := self._file.readline(_PIECE):
            if is_first and b"\0" in piece[:_LOOKED_AT]:
                raise Rejected(f"{shown(self._path)} is not text in UTF-8 ({self._size} bytes).")
            is_first = False
            line, missing = piece, 0
            while not piece.endswith(b"\n") and (piece := self._file.readline(_PIECE)):
                missing += len(piece)
            yield line.removesuffix(b"\n") + (f"… ({missing:,} bytes more in this line)".encode() if missing else b"")
