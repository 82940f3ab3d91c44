"""Conversations of `jp`, a command-line tool with a similar log: read as they are, imported, and exported for it."""

from __future__ import annotations

import base64
import itertools
import re
from collections.abc import Callable, Container, Iterable, Mapping, Sequence
from datetime import UTC
from pathlib import Path
from typing import Final

import msgspec
from msgspec import Raw, Struct

from midturn.errors import StoreError
from midturn.files import LONGEST_IMPORT, read_regular
from midturn.log.codec import decode_event
from midturn.record.events import TurnStart, is_opaque
from midturn.store.tail import EVENTS
from midturn.values.json_value import Json, JsonObject

# ----------------------------------------------------------------------------------------------------------------------
# Base64 fields of `jp`, which hide text from `grep`
# Its readers take a string that is not base64 of UTF-8 text as it stands, so files hold both. Here the strings of a field are counted, and
# those that were not encoded are remembered: writing the field back gives what was there. Numbers, keys and order are never touched.


_STRING: Final = rb'(?s)"[^"\\]*+(?:\\.[^"\\]*+)*+"'


def reveal(field: bytes) -> tuple[bytes, list[int]]:
    """Return the field (compact JSON) with its strings readable, and which of them (from 0) were not encoded."""
    plain: list[int] = []

    def read(token: bytes, number: int) -> bytes:
        decoded = _decoded(token)
        if decoded is None:
            plain.append(number)
            return token
        return msgspec.json.encode(decoded)

    return _each_string(field, read), plain


def hide(field: bytes, plain: Container[int] = ()) -> bytes:
    """Return the field (compact JSON) with its strings in base64, all but those that `plain` counts."""

    def write(token: bytes, number: int) -> bytes:
        text = None if number in plain else _text(token)
        return token if text is None else b'"' + base64.b64encode(text.encode()) + b'"'

    return _each_string(field, write)


def _each_string(field: bytes, change: Callable[[bytes, int], bytes]) -> bytes:
    """Change every string value: `change` gets it with its quotes, and its number."""
    numbers = itertools.count()

    def replace(found: re.Match[bytes]) -> bytes:
        is_key = field[found.end() : found.end() + 1] == b":"
        return found[0] if is_key else change(found[0], next(numbers))

    return re.sub(_STRING, replace, field)


def _decoded(token: bytes) -> str | None:
    """Return what the string is the base64 of; None where it is not exactly that."""
    text = _text(token)
    try:
        decoded = base64.b64decode("\0" if text is None else text, validate=True)
        return decoded.decode() if base64.b64encode(decoded).decode("ascii") == text else None
    except ValueError:
        return None


def _text(token: bytes) -> str | None:
    """Return the string that a token stands for; None where it holds half a character, which no UTF-8 text does."""
    try:
        return msgspec.json.decode(token, type=str)
    except ValueError:
        return None


# ----------------------------------------------------------------------------------------------------------------------
# Read a conversation that `jp` recorded: a folder with `events.json` and `metadata.json`.
# Every entry of the array becomes one line of ours, as it is but for three things: what was hidden in base64 is readable, a structured
# answer stands under `structured` (there: `data`), and the key `imported` says what it takes to write the entry back (`export_jp`).


METADATA: Final = "metadata.json"
HIDDEN: Final = {"tool_call_request": "arguments", "tool_call_response": "content"}
"""The field of each kind whose strings are in base64."""

_ARRAY: Final = msgspec.json.Decoder(list[Raw])
_FIELDS: Final = msgspec.json.Decoder(dict[str, Raw])
_OBJECT: Final = msgspec.json.Decoder(JsonObject)


class Imported(Struct, frozen=True, omit_defaults=True):
    """The `imported` field of a line: its origin, and the strings of its hidden field that were not encoded."""

    source: str = msgspec.field(default_factory=lambda: "jp")
    plain: tuple[int, ...] = ()


class JpConversation(Struct, frozen=True):
    """A conversation of `jp`: its id (empty where the folder has none), the lines for our `events.jsonl`, its `metadata.json` as it is."""

    id: str
    lines: tuple[bytes, ...]
    metadata: JsonObject

    @property
    def title(self) -> str:
        """The title, where there is one."""
        title = self.metadata.get("title")
        return title if isinstance(title, str) else ""


def read_jp(folder: Path) -> JpConversation:
    """Read a folder of `jp`; nothing in it is changed.

    Raises:
        StoreError: A file cannot be read, or is not what `jp` writes; the message names it.
    """
    metadata = _read(folder / METADATA) if (folder / METADATA).exists() else b"{}"
    return JpConversation(
        id=_id(folder.resolve().name),
        lines=tuple(import_events(_read(folder / EVENTS), str(folder / EVENTS))),
        metadata=import_metadata(metadata, str(folder / METADATA)),
    )


def import_events(content: bytes, file: str = EVENTS) -> list[bytes]:
    """Return the entries of an `events.json` as lines of ours, without newlines.

    Raises:
        StoreError: It is not one JSON array.
    """
    try:
        return [_line(msgspec.json.format(entry, indent=-1)) for entry in _ARRAY.decode(content)]
    except (ValueError, RecursionError) as error:
        raise StoreError(f"{file} is not the JSON array that `jp` writes: {error}.") from error


def import_metadata(content: bytes, file: str = METADATA) -> JsonObject:
    """Return what a `metadata.json` holds, all of it.

    Raises:
        StoreError: It is not one JSON object.
    """
    try:
        return _OBJECT.decode(content)
    except (ValueError, RecursionError) as error:
        raise StoreError(f"{file} is not the JSON object that `jp` writes: {error}.") from error


def _line(entry: bytes) -> bytes:
    try:
        fields = _FIELDS.decode(entry)
    except (ValueError, RecursionError):
        return entry  # no object: kept, and reported when it is read
    kind = text_of(fields, "type")
    if kind == "chat_response" and "structured" not in fields:
        fields = {("structured" if name == "data" else name): value for name, value in fields.items()}
    plain: list[int] = []
    if (hidden := HIDDEN.get(kind, "")) in fields:
        readable, plain = reveal(bytes(fields[hidden]))
        fields[hidden] = Raw(readable)
    fields["imported"] = Raw(msgspec.json.encode(Imported(plain=tuple(plain))))
    return msgspec.json.encode(fields)


def text_of(fields: dict[str, Raw], name: str) -> str:
    """Return a field that is a string, of an event that is split into its fields; empty where it is missing, or something else."""
    try:
        return msgspec.json.decode(fields.get(name, b'""'), type=str)
    except ValueError:
        return ""


def _id(name: str) -> str:
    number = name.partition("-")[0]
    return number if number.isdecimal() else ""


def _read(path: Path) -> bytes:
    try:
        return read_regular(path, LONGEST_IMPORT)
    except OSError as error:
        raise StoreError(f"Cannot read {path}: {error.strerror or error}.") from error


# ----------------------------------------------------------------------------------------------------------------------
# Write a conversation as `jp` does: what was imported comes out as it was, what is ours in the older shape.
# Of our own, `jp` gets the kinds and the keys that it knows: not when a turn ended, what was approved, our configuration, or who answered.


_KEYS: Final = {
    "turn_start": (),
    "chat_request": ("content", "schema"),
    "chat_response": ("message", "reasoning", "structured"),
    "tool_call_request": ("id", "name", "arguments"),
    "tool_call_response": ("id", "content", "is_error"),
    "inquiry_request": ("id", "source", "question"),
    "inquiry_response": ("outcome", "id", "answer", "reason"),
}
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
    if event.type not in _KEYS or is_opaque(event):
        return None
    values = event.to_json()
    if event.type == "tool_call_request" and not isinstance(values["arguments"], Mapping):
        values["arguments"] = {"text": values["arguments"]}  # `jp` reads objects only
    fields: dict[str, Json | Raw] = {"timestamp": jp_time(event.timestamp), "type": event.type}
    fields |= {("data" if key == "structured" else key): values[key] for key in _KEYS[event.type] if key in values}
    for hidden in ("metadata", HIDDEN.get(event.type, "")):
        if hidden in values:
            fields[hidden] = Raw(hide(msgspec.json.encode(values[hidden])))
    return msgspec.json.encode(fields)


def _pretty(content: bytes) -> bytes:
    return msgspec.json.format(content, indent=2) + b"\n"
