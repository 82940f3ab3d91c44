"""Files as text: in UTF-8, or in UTF-16 where their first bytes say so."""

from __future__ import annotations

import codecs
import hashlib

from msgspec import Struct

from midturn.tools.fs.paths import shown
from midturn.tools.returned import Rejected

_LOOKED_AT = 8192
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
