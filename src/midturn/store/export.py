"""A conversation as a file for somebody else."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

import msgspec
from msgspec import Raw

from midturn.core.events import NEVER_REDACTED
from midturn.store.export_markdown import export_markdown
from midturn.store.jp.exporting import JpFiles, export_jp
from midturn.store.jp.importing import text_of

__all__ = ["JpFiles", "export_jp", "export_jsonl", "export_markdown"]

_FIELDS: Final = msgspec.json.Decoder(dict[str, Raw])


def export_jsonl(lines: Iterable[bytes]) -> bytes:
    """Return the lines as they are, unknown keys and broken ones included, each with its newline.

    A redacted response holds no answer: should somebody have written one in, it stays behind.
    """
    return b"".join(_without_secret(line) + b"\n" for line in lines)


def _without_secret(line: bytes) -> bytes:
    if b'redacted"' not in line:
        return line
    try:
        fields = _FIELDS.decode(line)
    except (ValueError, RecursionError):
        return line
    if text_of(fields, "type") != "inquiry_response" or text_of(fields, "outcome") != "redacted" or NEVER_REDACTED.isdisjoint(fields):
        return line
    return msgspec.json.encode({name: value for name, value in fields.items() if name not in NEVER_REDACTED})
