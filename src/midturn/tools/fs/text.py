"""Files as text."""

from __future__ import annotations

import hashlib

from midturn.tools.fs.paths import shown
from midturn.tools.returned import Rejected

_LOOKED_AT = 8192


def decoded(content: bytes) -> str | None:
    """Return the text of a UTF-8 file, None for any other."""
    if b"\0" in content[:_LOOKED_AT]:
        return None
    try:
        return content.decode()
    except UnicodeDecodeError:
        return None


def readable(content: bytes) -> str:
    """Return what people are shown of a file: its text, or else its size and its hash, so that two files never look the same."""
    text = decoded(content)
    return text if text is not None else f"(no text: {len(content)} bytes, SHA-256 {hashlib.sha256(content).hexdigest()})\n"


def text_of(content: bytes, path: str) -> str:
    """Return the text of a UTF-8 file.

    Raises:
        Rejected: The content is not text in UTF-8.
    """
    text = decoded(content)
    if text is None:
        raise Rejected(f"{shown(path)} is not text in UTF-8 ({len(content)} bytes).")
    return text


def lines_of(text: str) -> list[str]:
    """Return the lines without their ends; what follows the last newline counts only where there is something."""
    lines = text.split("\n")
    return lines if lines[-1] else lines[:-1]
