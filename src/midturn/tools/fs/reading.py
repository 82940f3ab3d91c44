"""`fs_read_file`, and files as text."""

from __future__ import annotations

import codecs
import hashlib
import os
from base64 import b64encode
from collections.abc import Iterator
from typing import BinaryIO

from msgspec import Struct

from midturn.events.outcome import Success
from midturn.events.types import Image
from midturn.exchange import LARGEST_IMAGE, media_type_of
from midturn.tools.asking import ToolContext
from midturn.tools.fs.beneath import LARGEST, Beneath
from midturn.tools.fs.paths import relative, shown
from midturn.tools.returned import Rejected

# ----------------------------------------------------------------------------------------------------------------------
# A file that is too large to be held: read from its beginning, a piece at a time, as far as is wanted


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


# ----------------------------------------------------------------------------------------------------------------------
# Files as text: in UTF-8, or in UTF-16 where their first bytes say so


_MARKS = {codecs.BOM_UTF16_LE: "utf-16-le", codecs.BOM_UTF16_BE: "utf-16-be"}
_MARK = 2  # bytes of each


class FileText(Struct, frozen=True):
    """The text of a file, and how it is written there: what is changed goes back as it was."""

    text: str
    encoding: str = "utf-8"
    mark: bytes = b""

    def encoded(self, text: str) -> bytes:
        """Return another text as this file has its own.

        Raises:
            Rejected: It has half of a character, which no file can hold.
        """
        try:
            return self.mark + text.encode(self.encoding)
        except UnicodeEncodeError as error:
            raise Rejected(f"The new text cannot be written in {self.encoding}: {error.reason}.") from None


def read(content: bytes) -> FileText | None:
    """Return the text of a file, None where it is not text."""
    encoding = _MARKS.get(content[:_MARK])
    try:
        if encoding:
            return FileText(content[_MARK:].decode(encoding), encoding, content[:_MARK])
        return None if b"\0" in content[:_LOOKED_AT] else FileText(content.decode())
    except UnicodeDecodeError:
        return None


def decoded(content: bytes) -> str | None:
    """Return the text of a file, None where it is not text."""
    found = read(content)
    return found.text if found else None


def readable(content: bytes) -> str:
    """Return what people are shown of a file: its text, or else its size and its hash, so that two files never look the same."""
    found = read(content)
    if found is None:
        return f"(no text: {len(content)} bytes, SHA-256 {hashlib.sha256(content).hexdigest()})\n"
    return found.text if found.encoding == "utf-8" else f"(in {found.encoding})\n{found.text}"


def text_of(content: bytes, path: str) -> FileText:
    """Return the text of a file.

    Raises:
        Rejected: The content is not text, or text in another encoding.
    """
    found = read(content)
    if found is None:
        raise Rejected(f"{shown(path)} is not text in UTF-8, nor in UTF-16 with a byte order mark ({len(content)} bytes).")
    return found


def lines_of(text: str) -> list[str]:
    """Return the lines without their ends; what follows the last newline counts only where there is something."""
    lines = text.split("\n")
    return lines if lines[-1] else lines[:-1]


def read_file(ctx: ToolContext, path: str, start_line: int | None, end_line: int | None) -> str | Success:
    """Read a file, or look at a picture."""
    with Beneath(ctx.root) as beneath, beneath.opened(relative(path, ctx.root)) as file:
        size = os.fstat(file.fileno()).st_size
        if size > LARGEST:
            return LargeFile(file, path, size).excerpt(start_line or 1, end_line)
        content = file.read(LARGEST)
    if media_type := media_type_of(content):
        return _picture(content, media_type, path)
    text = text_of(content, path).text
    if not text:
        return f"({shown(path)} is empty)"
    lines = lines_of(text)
    first, last = start_line or 1, min(end_line or len(lines), len(lines))
    if first > last:
        raise Rejected(f"{shown(path)} has {len(lines)} lines; `start_line` must not lie beyond them or after `end_line`.")
    return _excerpt(lines, first, last)


def _picture(content: bytes, media_type: str, path: str) -> Success:
    if len(content) > LARGEST_IMAGE:
        raise Rejected(f"{shown(path)} is a picture ({media_type}) of {len(content):,} bytes; it can be looked at up to {LARGEST_IMAGE:,}.")
    return Success(f"[{shown(path)}: {media_type}, {len(content):,} bytes]", (Image(media_type, b64encode(content).decode()),))


def _excerpt(lines: list[str], first: int, last: int) -> str:
    """Return lines as they are, as many as a result may hold, and say where to go on."""
    taken: list[str] = []
    room = _MOST
    for line in lines[first - 1 : last]:
        room -= len(line) + 1
        if room < 0:
            break
        taken.append(line)
    reached = first - 1 + len(taken)
    if reached == last:
        return "\n".join(taken)
    if not taken:
        return f"{lines[first - 1][:_MOST]}\n(line {first} has {len(lines[first - 1])} characters; its rest is not shown)"
    return "\n".join([*taken, f"(lines {first} to {reached} of {len(lines)}; go on with `start_line` {reached + 1})"])
