"""What an agent says to its hook: a JSON object on stdin, from programs that may leave stdin open, or write what is not UTF-8."""

from __future__ import annotations

import json
import os
import select
import sys
from collections.abc import Mapping
from typing import Any, cast

import msgspec

from midturn.core.json_value import JsonObject
from midturn.core.loose_json import members

_SILENCE = 30.0  # seconds without a word after which nothing more is expected
_PAUSE = 0.2  # seconds without a word after which what looks like a whole document is taken for one
_PIECE = 1 << 20


def read_document() -> JsonObject | None:
    """Return the document; None where there is none. It is whole when stdin ends, or when it looks so and nothing more comes."""
    return members(_read()) or None


def _read() -> object:
    """Read until the end, and decode what was said; an agent may never close what it has written to."""
    if sys.stdin is None or sys.stdin.closed:
        return None
    try:
        stdin = sys.stdin.fileno()
    except (OSError, ValueError):  # it is not a file
        return _decoded(sys.stdin.buffer.read())
    pieces: list[bytes] = []
    while True:
        is_whole = bool(pieces) and pieces[-1].rstrip().endswith(b"}")
        ready, _, _ = select.select([stdin], [], [], _PAUSE if is_whole else _SILENCE)
        if ready and (piece := os.read(stdin, _PIECE)):
            pieces.append(piece)
            continue
        content = b"".join(pieces)
        document = _decoded(content)
        if ready or not is_whole or document is not None:
            return document
        pieces = [content, b" "]  # it was not whole: wait once more, for long


def _decoded(content: bytes) -> object:
    """Decode a document; what cannot be text is shown as such. None where it is not JSON."""
    try:
        return msgspec.json.decode(content)
    except (ValueError, RecursionError):  # it is not JSON, or not UTF-8
        pass
    try:
        return _as_text(json.loads(content.decode("utf-8", "replace"), parse_constant=str))
    except (ValueError, RecursionError):
        return None


def _as_text(value: object) -> object:
    """Return a value in which halves of characters are replaced, which JavaScript writes and nobody can store."""
    match value:
        case str():
            return value.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
        case list():
            return [_as_text(one) for one in cast("list[Any]", value)]
        case dict():
            return {_as_text(name): _as_text(one) for name, one in cast("Mapping[str, Any]", value).items()}
        case _:
            return value
