"""Lines out of a stream, each one message, and none of them longer than can be held."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Final, cast

from msgspec import Struct

LONGEST: Final = 16 * 1024 * 1024
"""Bytes of one message: pictures are in it, too."""
LIMIT: Final = f"{LONGEST // 1024 // 1024} MB"
TOO_LONG: Final = -32098
"""The code under which a call hears that its answer cannot be taken."""
TOO_MUCH: Final = f"it is longer than {LIMIT}, the most that is taken at once. Ask for less of it in one call"
_ENDLESS = 256 * 1024 * 1024
_SHOWN = 4096  # bytes at both ends of what is longer
_ID = rb'"id"\s*:\s*(-?\d{1,18}|"[^"\\]{0,200}")'
_VERSION = rb'"jsonrpc"\s*:\s*"2\.0"'
_FIRST = re.compile(rb"\s*\{\s*(?:" + _VERSION + rb"\s*,\s*)?" + _ID + rb"\s*,\s*(?:" + _VERSION + rb"\s*,\s*)?" + rb'"(?:result|error)"')
_LAST = re.compile(rb"[\]}]\s*,\s*(?:" + _VERSION + rb"\s*,\s*)?" + _ID + rb"\s*(?:,\s*" + _VERSION + rb"\s*)?\}\s*\Z")
_RESULT_FIRST = re.compile(rb"\s*\{\s*(?:" + _VERSION + rb"\s*,\s*)?" + rb'"(?:result|error)"')


class Overlong(Struct, frozen=True):
    """A line that is longer than may be: what is left of it are both ends."""

    beginning: bytes
    end: bytes

    @property
    def answers(self) -> int | str | None:
        """The request that it answers: its id stands before the result or after it. None where that is not to be seen."""
        found = _FIRST.match(self.beginning) or (_LAST.search(self.end) if _RESULT_FIRST.match(self.beginning) else None)
        return cast("int | str", json.loads(found[1])) if found else None


class Lines:
    """Takes what comes, piece by piece, in time that grows with its length only."""

    def __init__(self, longest: int = LONGEST, endless: int = _ENDLESS) -> None:
        self._longest = longest
        self._endless = endless
        self._kept = bytearray()
        self._end = b""
        self._length = 0

    @property
    def is_endless(self) -> bool:
        """Whether a line has become so long that nobody waits for its end."""
        return self._length > self._endless

    def take(self, piece: bytes) -> Iterator[bytes | Overlong]:
        """Yield the lines that end in this piece."""
        *ended, rest = piece.split(b"\n")
        for line in ended:
            self._add(line)
            yield Overlong(bytes(self._kept), self._end) if self._length > self._longest else bytes(self._kept)
            self._kept, self._end, self._length = bytearray(), b"", 0
        self._add(rest)

    def _add(self, piece: bytes) -> None:
        self._length += len(piece)
        if self._length <= self._longest:
            self._kept += piece
            return
        before = self._end or bytes(self._kept[-_SHOWN:])
        self._end = (before + piece[-_SHOWN:])[-_SHOWN:]
        self._kept += piece[: max(0, _SHOWN - len(self._kept))]
        del self._kept[_SHOWN:]
