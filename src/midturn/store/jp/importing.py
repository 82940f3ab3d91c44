"""Read a conversation that `jp` recorded: a folder with `events.json` and `metadata.json`.

Every entry of the array becomes one line of ours, as it is but for three things: what was hidden in base64 is readable, a structured
answer stands under `structured` (there: `data`), and the key `imported` says what it takes to write the entry back (`export_jp`).
"""

from __future__ import annotations

from pathlib import Path
from typing import Final

import msgspec
from msgspec import Raw, Struct

from midturn.core.json_value import JsonObject
from midturn.errors import StoreError
from midturn.store.jp.folder import EVENTS
from midturn.store.jp.strings import reveal

METADATA: Final = "metadata.json"
HIDDEN: Final = {"tool_call_request": "arguments", "tool_call_response": "content"}
"""The field of each kind whose strings are in base64."""

_ARRAY: Final = msgspec.json.Decoder(list[Raw])
_FIELDS: Final = msgspec.json.Decoder(dict[str, Raw])
_OBJECT: Final = msgspec.json.Decoder(JsonObject)


class Imported(Struct, frozen=True, omit_defaults=True):
    """What stands under `imported` in a line: where it comes from, and which strings of its hidden field were not encoded."""

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
        return path.read_bytes()
    except OSError as error:
        raise StoreError(f"Cannot read {path}: {error.strerror or error}.") from error
