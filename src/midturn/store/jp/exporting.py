"""Write a conversation as `jp` does: what was imported comes out as it was, what is ours in the older shape.

Of our own, `jp` gets the kinds and the keys that it knows: not when a turn ended, what was approved, our configuration, or who answered.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC
from typing import Final

import msgspec
from msgspec import Raw, Struct

from midturn.core.codec import decode_event
from midturn.core.events import OpaqueEvent, ToolCallRequest, TurnStart
from midturn.core.json_value import Json, JsonObject
from midturn.store.jp.importing import HIDDEN, Imported, text_of
from midturn.store.jp.strings import hide

_KEYS: Final = {
    "turn_start": (),
    "chat_request": ("content", "schema"),
    "chat_response": ("message", "reasoning", "structured"),
    "tool_call_request": ("id", "name", "arguments"),
    "tool_call_response": ("id", "content", "is_error"),
    "inquiry_request": ("id", "source", "question"),
    "inquiry_response": ("outcome", "id", "answer", "reason"),
}
_FIELDS: Final = msgspec.json.Decoder(dict[str, Raw])
_IMPORTED: Final = msgspec.json.Decoder(Imported)


class JpFiles(Struct, frozen=True):
    """The contents of the two files of a conversation of `jp`."""

    events: bytes
    metadata: bytes


def export_jp(lines: Iterable[bytes], metadata: JsonObject) -> JpFiles:
    """Return the files for `lines` of our `events.jsonl` and what our `metadata.json` holds."""
    entries = [entry for line in lines if (entry := _entry(line)) is not None]
    return JpFiles(_pretty(b"[" + b",".join(entries) + b"]"), _pretty(msgspec.json.encode(_metadata(metadata, entries))))


def jp_time(timestamp: str) -> str:
    """Return a time as `jp` writes it: UTC, a space, fractions without trailing zeros. One of its own, or an unreadable one, stays."""
    if " " in timestamp:
        return timestamp
    try:
        seconds, _, fraction = TurnStart(timestamp=timestamp).at.astimezone(UTC).strftime("%Y-%m-%d %H:%M:%S.%f").partition(".")
    except (ValueError, OverflowError):
        return timestamp
    return f"{seconds}.{fraction.rstrip('0') or '0'}"


def _metadata(metadata: JsonObject, entries: Sequence[bytes]) -> dict[str, Json]:
    """Leave out what is only ours; `jp` insists on the time of the last use."""
    kept = {
        key: value for key, value in metadata.items() if key != "created_at" and not (key == "labels" and isinstance(value, list | tuple))
    }
    used = kept.get("last_activated_at") or (text_of(_FIELDS.decode(entries[-1]), "timestamp") if entries else metadata.get("created_at"))
    return kept | {"last_activated_at": jp_time(used) if isinstance(used, str) else "1970-01-01 00:00:00.0"}


def _entry(line: bytes) -> bytes | None:
    """Return the entry of a line; None where `jp` has no word for it."""
    try:
        fields = _FIELDS.decode(line)
        imported = _IMPORTED.decode(fields.pop("imported", b"null"))
    except (ValueError, RecursionError):
        return _ours(line)
    return _written_back(fields, imported) if imported.source == "jp" else _ours(line)


def _written_back(fields: dict[str, Raw], imported: Imported) -> bytes:
    kind = text_of(fields, "type")
    if kind == "chat_response":
        fields = {("data" if name == "structured" else name): value for name, value in fields.items()}
    if (hidden := HIDDEN.get(kind, "")) in fields:
        fields[hidden] = Raw(hide(bytes(fields[hidden]), set(imported.plain)))
    return msgspec.json.encode(fields)


def _ours(line: bytes) -> bytes | None:
    event = decode_event(line, "events.jsonl:0")
    if event.type not in _KEYS or isinstance(event, OpaqueEvent):
        return None
    values = event.to_json()
    if isinstance(event, ToolCallRequest) and not isinstance(event.arguments, Mapping):
        values["arguments"] = {"text": event.arguments}  # `jp` reads objects only
    fields: dict[str, Json | Raw] = {"timestamp": jp_time(event.timestamp), "type": event.type}
    fields |= {("data" if key == "structured" else key): values[key] for key in _KEYS[event.type] if key in values}
    for hidden in ("metadata", HIDDEN.get(event.type, "")):
        if hidden in values:
            fields[hidden] = Raw(hide(msgspec.json.encode(values[hidden])))
    return msgspec.json.encode(fields)


def _pretty(content: bytes) -> bytes:
    return msgspec.json.format(content, indent=2) + b"\n"
