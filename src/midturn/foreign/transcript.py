"""What an agent writes down of its session: what it said last, and the plan that it has made. None of it is needed to ask."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from midturn.core.json_value import JsonObject
from midturn.core.loose_json import items, members, objects, text

_END: Final = 1024 * 1024  # bytes from the end that are looked at: what an agent said last is there
_LONGEST: Final = 300  # characters of what it said
_LARGEST_PLAN: Final = 200_000  # bytes
_AGENTS: Final = frozenset({"assistant", "model", "gemini", "agent"})
_TEXTS: Final = frozenset({"", "text", "output_text"})


def last_words(document: JsonObject) -> str:
    """Return what an agent said last, in one line and cut; empty where it does not say where that is, or it cannot be read."""
    said = next((said for entry in _backwards(document) if (said := _said(entry))), "")
    line = " ".join(said.split())
    return line if len(line) <= _LONGEST else f"{line[:_LONGEST]}…"


def plan(document: JsonObject) -> str:
    """Return the plan that a session has written last; empty where none is to be found."""
    named = next((file for entry in _backwards(document) if (file := _plan_file(entry))), "")
    try:
        content = Path(named).read_bytes()[:_LARGEST_PLAN] if named.endswith(".md") else b""
    except (OSError, ValueError):
        return ""
    return content.decode("utf-8", "replace")


def _backwards(document: JsonObject) -> Iterator[JsonObject]:
    """Yield what was written down, the last first."""
    try:
        with Path(text(document.get("transcript_path")) or text(document.get("transcriptPath"))).open("rb") as stream:
            stream.seek(max(0, stream.seek(0, 2) - _END))
            lines = stream.read().splitlines()
    except (OSError, ValueError):
        return
    for line in reversed(lines):
        try:
            yield members(json.loads(line))
        except (ValueError, RecursionError):  # the first may be cut
            continue


def _said(entry: JsonObject) -> str:
    """Return the words of an agent in an entry; agents put them into `message` or `payload`, or beside its `type`."""
    inner = members(entry.get("message")) or members(entry.get("payload")) or entry
    if not _AGENTS & {text(entry.get("type")), text(inner.get("role")), text(inner.get("type"))}:
        return ""
    content = inner.get("content", inner.get("parts", inner.get("text")))
    pieces = [text(part.get("text")) for part in objects(content) if text(part.get("type")) in _TEXTS]
    return text(content) or " ".join([*pieces, *(text(part) for part in items(content))]).strip()


def _plan_file(entry: JsonObject) -> str:
    """Return the file of a plan that an entry names."""
    return text(members(entry.get("attachment")).get("planFilePath"))
