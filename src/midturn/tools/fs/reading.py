"""The file tool `fs_read_file`, and decoding of text files."""

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
from midturn.tools.fs.beneath import MAX_FILE_BYTES, Beneath
from midturn.tools.fs.paths import relative, shown
from midturn.tools.returned import Rejected

# --------------------------------------------------------------------------------------------------
# Files that are too large for memory are read in chunks from the beginning


# maximum size of an excerpt, in bytes; below the limit of a tool's result
_MAX_RESULT_BYTES = 200 * 1024
_CHUNK_BYTES = 64 * 1024  # maximum number of bytes of a line that are read at a time
_NUL_CHECK_BYTES = 8192


class LargeFile:
    """An open file at its beginning, with its path for messages and its size in bytes."""

    def __init__(self, file: BinaryIO, path: str, size: int) -> None:
        self._file = file
        self._path = path
        self._size = size

    def excerpt(self, first: int, last: int | None) -> str:
        """Return lines up to the limit of a result. If lines are left, add a note with the line at
        which to continue. Very long lines are truncated.

        Raises:
            Rejected: The file is not text, or does not have these lines.
        """
        lines: list[str] = []
        remaining, number = _MAX_RESULT_BYTES, 0
        for number, line in enumerate(self._lines(), start=1):
            if last is not None and number > last:
                return "\n".join(lines)
            if number < first:
                continue
            remaining -= len(line) + 1
            if remaining < 0 and lines:
                return "\n".join(
                    [
                        *lines,
                        (
                            f"(lines {first} to {number - 1} of a file of {self._size:,} bytes; go"
                            f" on with `start_line` {number})"
                        ),
                    ]
                )
            lines.append(line.decode(errors="replace"))
        if not lines:
            raise Rejected(
                f"{shown(self._path)} has {number} lines; `start_line` must not lie beyond them or"
                " after `end_line`."
            )
        return "\n".join(lines)

    def _lines(self) -> Iterator[bytes]:
        is_first = True
        while piece := self._file.readline(_CHUNK_BYTES):
            if is_first and b"\0" in piece[:_NUL_CHECK_BYTES]:
                raise Rejected(f"{shown(self._path)} is not text in UTF-8 ({self._size} bytes).")
            is_first = False
            line, missing = piece, 0
            while not piece.endswith(b"\n") and (piece := self._file.readline(_CHUNK_BYTES)):
                missing += len(piece)
            yield line.removesuffix(b"\n") + (
                f"… ({missing:,} bytes more in this line)".encode() if missing else b""
            )


# --------------------------------------------------------------------------------------------------
# Text files in UTF-8, or in UTF-16 with a byte order mark


_BYTE_ORDER_MARKS = {codecs.BOM_UTF16_LE: "utf-16-le", codecs.BOM_UTF16_BE: "utf-16-be"}
_MARK_BYTES = 2  # length of a byte order mark


class FileText(Struct, frozen=True):
    """The text of a file and its encoding. Changes are written in the same encoding."""

    text: str
    encoding: str = "utf-8"
    mark: bytes = b""

    def encoded(self, text: str) -> bytes:
        """Encode text in the encoding of this file.

        Raises:
            Rejected: The text contains a lone surrogate, which cannot be encoded.
        """
        try:
            return self.mark + text.encode(self.encoding)
        except UnicodeEncodeError as error:
            raise Rejected(
                f"The new text cannot be written in {self.encoding}: {error.reason}."
            ) from None


def read(content: bytes) -> FileText | None:
    """Decode a file, or return None if it is not text."""
    encoding = _BYTE_ORDER_MARKS.get(content[:_MARK_BYTES])
    try:
        if encoding:
            return FileText(content[_MARK_BYTES:].decode(encoding), encoding, content[:_MARK_BYTES])
        return None if b"\0" in content[:_NUL_CHECK_BYTES] else FileText(content.decode())
    except UnicodeDecodeError:
        return None


def decoded(content: bytes) -> str | None:
    """Return the text of a file, or None if it is not text."""
    found = read(content)
    return found.text if found else None


def readable(content: bytes) -> str:
    """Return a file's content in readable form. For a binary file, return its size and digest, so
    that different files look different.
    """
    found = read(content)
    if found is None:
        return f"(no text: {len(content)} bytes, SHA-256 {hashlib.sha256(content).hexdigest()})\n"
    return found.text if found.encoding == "utf-8" else f"(in {found.encoding})\n{found.text}"


def text_of(content: bytes, path: str) -> FileText:
    """Decode a file.

    Raises:
        Rejected: The content is not text, or has an unsupported encoding.
    """
    found = read(content)
    if found is None:
        raise Rejected(
            f"{shown(path)} is not text in UTF-8, nor in UTF-16 with a byte order mark"
            f" ({len(content)} bytes)."
        )
    return found


def lines_of(text: str) -> list[str]:
    """Split text into lines without line endings. A final newline does not add an empty line."""
    lines = text.split("\n")
    return lines if lines[-1] else lines[:-1]


def read_file(
    ctx: ToolContext, path: str, start_line: int | None, end_line: int | None
) -> str | Success:
    """Read a text file or an image."""
    with Beneath(ctx.root) as beneath, beneath.opened(relative(path, ctx.root)) as file:
        size = os.fstat(file.fileno()).st_size
        if size > MAX_FILE_BYTES:
            return LargeFile(file, path, size).excerpt(start_line or 1, end_line)
        content = file.read(MAX_FILE_BYTES)
    if media_type := media_type_of(content):
        return _picture(content, media_type, path)
    text = text_of(content, path).text
    if not text:
        return f"({shown(path)} is empty)"
    lines = lines_of(text)
    first, last = start_line or 1, min(end_line or len(lines), len(lines))
    if first > last:
        raise Rejected(
            f"{shown(path)} has {len(lines)} lines; `start_line` must not lie beyond them or after"
            " `end_line`."
        )
    return _excerpt(lines, first, last)


def _picture(content: bytes, media_type: str, path: str) -> Success:
    if len(content) > LARGEST_IMAGE:
        raise Rejected(
            f"{shown(path)} is a picture ({media_type}) of {len(content):,} bytes; it can be looked"
            f" at up to {LARGEST_IMAGE:,}."
        )
    return Success(
        f"[{shown(path)}: {media_type}, {len(content):,} bytes]",
        (Image(media_type, b64encode(content).decode()),),
    )


def _excerpt(lines: list[str], first: int, last: int) -> str:
    """Return lines up to the limit of a result, with a note about the line at which to continue."""
    shown_lines: list[str] = []
    remaining = _MAX_RESULT_BYTES
    for line in lines[first - 1 : last]:
        remaining -= len(line) + 1
        if remaining < 0:
            break
        shown_lines.append(line)
    reached = first - 1 + len(shown_lines)
    if reached == last:
        return "\n".join(shown_lines)
    if not shown_lines:
        return (
            f"{lines[first - 1][:_MAX_RESULT_BYTES]}\n(line {first} has {len(lines[first - 1])}"
            " characters; its rest is not shown)"
        )
    return "\n".join(
        [
            *shown_lines,
            f"(lines {first} to {reached} of {len(lines)}; go on with `start_line` {reached + 1})",
        ]
    )
