"""Reads, imports and exports conversations of `jp`, a command-line tool with a similar log."""

from __future__ import annotations

import base64
import itertools
import re
from collections.abc import Callable, Container, Mapping, Sequence
from datetime import UTC
from pathlib import Path
from typing import Final

import msgspec
from msgspec import UNSET, Raw, Struct, UnsetType
from msgspec.structs import replace

from midturn.errors import StoreError
from midturn.events.codec import decode_event
from midturn.events.types import TurnStart, is_opaque
from midturn.question.json_value import Json, JsonObject
from midturn.security.private_files import MAX_IMPORT_BYTES, read_regular
from midturn.stores.log_tail import EVENTS
from midturn.stores.metadata import Metadata

# --------------------------------------------------------------------------------------------------
# Base64 fields of `jp`, which hide text from `grep`
# `jp` also reads strings that are not encoded, so files contain both kinds. The import numbers the
# strings of a field and records the numbers of the strings that were not encoded. The export then
# restores the field exactly. JSON numbers, keys and the order are never changed.


_STRING: Final = rb'(?s)"[^"\\]*+(?:\\.[^"\\]*+)*+"'


def reveal(field: bytes) -> tuple[bytes, list[int]]:
    """Return the field (compact JSON) with its strings decoded, and the numbers (from 0) of the
    strings that were not encoded.
    """
    plain: list[int] = []

    def read(token: bytes, number: int) -> bytes:
        decoded = _decoded(token)
        if decoded is None:
            plain.append(number)
            return token
        return msgspec.json.encode(decoded)

    return _each_string(field, read), plain


def hide(field: bytes, plain: Container[int] = ()) -> bytes:
    """Return the field (compact JSON) with its strings encoded in base64, except the strings
    whose numbers are in `plain`.
    """

    def write(token: bytes, number: int) -> bytes:
        text = None if number in plain else _text(token)
        return token if text is None else b'"' + base64.b64encode(text.encode()) + b'"'

    return _each_string(field, write)


def _each_string(field: bytes, change: Callable[[bytes, int], bytes]) -> bytes:
    """Return a JSON field in which every string value is replaced by the result of `change`. The
    arguments of `change` are the string with its quotes, and its number within the field.
    """
    numbers = itertools.count()

    def replace(found: re.Match[bytes]) -> bytes:
        is_key = field[found.end() : found.end() + 1] == b":"
        return found[0] if is_key else change(found[0], next(numbers))

    return re.sub(_STRING, replace, field)


def _decoded(token: bytes) -> str | None:
    """Return the decoded base64 of a string, or None if encoding it again would not give the same
    string.
    """
    text = _text(token)
    try:
        decoded = base64.b64decode("\0" if text is None else text, validate=True)
        return decoded.decode() if base64.b64encode(decoded).decode("ascii") == text else None
    except ValueError:
        return None


def _text(token: bytes) -> str | None:
    """Return the string of a JSON token, or None if it contains a lone surrogate, which UTF-8
    cannot encode.
    """
    try:
        return msgspec.json.decode(token, type=str)
    except ValueError:
        return None


# --------------------------------------------------------------------------------------------------
# Read a conversation that `jp` recorded: a folder with `events.json` and `metadata.json`. Every
# entry of the array becomes one line, with three changes. Fields that `jp` hides in base64 are
# decoded. The field `data` of a structured answer is renamed to `structured`. The field `imported`
# is added, with the information that `export_jp` needs to restore the entry.


METADATA: Final = "metadata.json"
BASE_CONFIG: Final = "base_config.json"
FILE_LINE: Final = "jp_file"
"""The type of a line that holds a whole file of an imported conversation."""
ORIGINAL: Final = "imported"
"""Key in midturn's metadata. Its value is the unchanged content of the `metadata.json` of `jp`."""
TOOL_ANSWERS: Final = "tool_answers"
"""The argument in which older versions of `jp` stored the answers to a tool's questions. The
model never sent it.
"""
HIDDEN: Final = {"tool_call_request": "arguments", "tool_call_response": "content"}
"""By type of entry, the field whose strings `jp` stores in base64."""

_ARRAY: Final = msgspec.json.Decoder(list[Raw])
_FIELDS: Final = msgspec.json.Decoder(dict[str, Raw])
_OBJECT: Final = msgspec.json.Decoder(JsonObject)


class Imported(Struct, frozen=True, omit_defaults=True):
    """The `imported` field of a line: the information needed to export the entry unchanged.

    `plain` contains the numbers of the strings in the hidden field that were not encoded.
    `tool_answers` is the argument of that name, as JSON, and `tool_answers_at` its position among
    the arguments. `wraps_delta` is true if `delta` was moved to `delta.imported` (`disarm_delta`).
    """

    source: str = msgspec.field(default_factory=lambda: "jp")
    plain: tuple[int, ...] = ()
    tool_answers: Raw | UnsetType = UNSET
    tool_answers_at: int = 0
    wraps_delta: bool = False


class JpConversation(Struct, frozen=True):
    """A conversation of `jp`.

    `id` is empty if the folder's name contains no ID. `lines` contains the lines for midturn's
    `events.jsonl`; the last one is `base_config.json`, if there is such a file. `metadata` is
    `metadata.json` as it was read.
    """

    id: str
    lines: tuple[bytes, ...]
    metadata: JsonObject

    @property
    def title(self) -> str:
        """The title; empty if there is none."""
        title = self.metadata.get("title")
        return title if isinstance(title, str) else ""

    def as_ours(self) -> Metadata:
        """Return the metadata of the imported conversation. It keeps the original for an export."""
        used = self.metadata.get("last_activated_at")
        return Metadata(
            title=self.title,
            last_activated_at=used if isinstance(used, str) else "",
            labels=labels_from_jp(self.metadata.get("labels")),
            others={ORIGINAL: self.metadata},
        )

    @property
    def notes(self) -> list[str]:
        """Messages about imported data that has no effect in midturn."""
        kinds = [text_of(_fields_of(line), "type") for line in self.lines]
        compactions = kinds.count("compaction")
        if not compactions:
            return []
        entries = (
            "1 compaction entry is" if compactions == 1 else f"{compactions} compaction entries are"
        )
        return [f"{entries} kept and not applied: the model reads the whole conversation"]


def read_jp(folder: Path) -> JpConversation:
    """Read a conversation of `jp`, without changing it.

    Raises:
        StoreError: A file cannot be read, or has the wrong format. The message names the file.
    """
    metadata = _read(folder / METADATA) if (folder / METADATA).exists() else b"{}"
    files = [
        _file_line(name, _read(folder / name), str(folder / name))
        for name in (BASE_CONFIG,)
        if (folder / name).exists()
    ]
    return JpConversation(
        id=_id(folder.resolve().name),
        lines=(*import_events(_read(folder / EVENTS), str(folder / EVENTS)), *files),
        metadata=import_metadata(metadata, str(folder / METADATA)),
    )


def import_events(content: bytes, file: str = EVENTS) -> list[bytes]:
    """Return the entries of an `events.json` as lines of `events.jsonl`, without newlines.

    Raises:
        StoreError: The content is not a JSON array in UTF-8.
    """
    try:
        content.decode()  # the decoder does not validate strings that it only copies
        entries = [msgspec.json.format(entry, indent=-1) for entry in _ARRAY.decode(content)]
    except (ValueError, RecursionError) as error:
        raise StoreError(f"{file} is not the JSON array that `jp` writes: {error}.") from error
    return list(map(_line, entries))


def import_metadata(content: bytes, file: str = METADATA) -> JsonObject:
    """Return the whole content of a `metadata.json`.

    Raises:
        StoreError: The content is not a JSON object.
    """
    try:
        return _OBJECT.decode(content)
    except (ValueError, RecursionError) as error:
        raise StoreError(f"{file} is not the JSON object that `jp` writes: {error}.") from error


def _file_line(name: str, content: bytes, file: str) -> bytes:
    """Return the line that contains all bytes of a file."""
    try:
        _OBJECT.decode(content)
        text = content.decode()
    except (ValueError, RecursionError) as error:
        raise StoreError(f"{file} is not the JSON object that `jp` writes: {error}.") from error
    return msgspec.json.encode(
        {"type": FILE_LINE, "timestamp": "", "name": name, "text": text, "imported": Imported()}
    )


def _fields_of(line: bytes) -> dict[str, Raw]:
    """Return the fields of a line, or no fields if it is not a JSON object."""
    try:
        return _FIELDS.decode(line)
    except (ValueError, RecursionError):
        return {}


def disarm_delta(line: bytes) -> bytes | None:
    """Move the configuration of an imported `config_delta` to `delta.imported`, where its
    settings have no effect.

    Returns None for a line that `jp` did not write. An entry whose configuration was already
    moved is returned unchanged.
    """
    fields = _fields_of(line)
    imported = _imported(fields)
    if imported is None or text_of(fields, "type") != "config_delta":
        return None
    if "delta" not in fields or (imported.wraps_delta and _wrapped(fields["delta"]) is not None):
        return line
    fields["delta"] = Raw(b'{"imported":' + bytes(fields["delta"]) + b"}")
    fields["imported"] = Raw(msgspec.json.encode(replace(imported, wraps_delta=True)))
    return msgspec.json.encode(fields)


def _wrapped(delta: Raw) -> Raw | None:
    """Return the configuration inside a moved delta, or None if the delta was not moved."""
    inside = _fields_of(bytes(delta))
    return inside["imported"] if list(inside) == ["imported"] else None


def _imported(fields: dict[str, Raw]) -> Imported | None:
    """Return the `imported` field of a line that `jp` wrote; None for other lines."""
    try:
        imported = _IMPORTED.decode(fields.get("imported", b"null"))
    except (ValueError, RecursionError):
        return None
    return imported if imported.source == "jp" else None


def _line(entry: bytes) -> bytes:
    try:
        fields = _FIELDS.decode(entry)
    except (ValueError, RecursionError):
        return entry  # not an object: keep it, the reader reports it
    kind = text_of(fields, "type")
    if kind == "chat_response" and "structured" not in fields:
        fields = {
            ("structured" if name == "data" else name): value for name, value in fields.items()
        }
    imported = Imported()
    if (hidden := HIDDEN.get(kind, "")) in fields:
        field = bytes(fields[hidden])
        if kind == "tool_call_request" and TOOL_ANSWERS in (arguments := _fields_of(field)):
            imported = Imported(
                tool_answers_at=list(arguments).index(TOOL_ANSWERS),
                tool_answers=arguments.pop(TOOL_ANSWERS),
            )
            field = msgspec.json.encode(arguments)
        readable, plain = reveal(field)
        fields[hidden] = Raw(readable)
        imported = replace(imported, plain=tuple(plain))
    fields["imported"] = Raw(msgspec.json.encode(imported))
    return msgspec.json.encode(fields)


def text_of(fields: dict[str, Raw], name: str) -> str:
    """Return a string field of an event that is split into its fields, or an empty string if the
    field is missing or not a string.
    """
    try:
        return msgspec.json.decode(fields.get(name, b'""'), type=str)
    except ValueError:
        return ""


def _id(name: str) -> str:
    number = name.partition("-")[0]
    return number if number.isdecimal() else ""


def _read(path: Path) -> bytes:
    try:
        return read_regular(path, MAX_IMPORT_BYTES)
    except OSError as error:
        raise StoreError(f"Cannot read {path}: {error.strerror or error}.") from error


# --------------------------------------------------------------------------------------------------
# Export a conversation in the format of `jp`: imported entries are unchanged, other entries have
# the older form. Of midturn's own events, only the types and keys that `jp` supports are exported:
# no `turn_end` events, approvals, configuration or names of responders.


_KEYS: Final = {
    "turn_start": (),
    "chat_request": ("content", "schema", "author"),
    "chat_response": ("message", "reasoning", "structured"),
    "tool_call_request": ("id", "name", "arguments"),
    "tool_call_response": ("id", "content", "is_error"),
    "inquiry_request": ("id", "source", "question"),
    "inquiry_response": ("outcome", "id", "answer", "reason"),
}
_IMPORTED: Final = msgspec.json.Decoder(Imported)


class JpFiles(Struct, frozen=True):
    """The contents of the files of a conversation of `jp`. `base_config` is None if `jp` needs no
    such file for the conversation.
    """

    events: bytes
    metadata: bytes
    base_config: bytes | None = None

    def named(self) -> dict[str, bytes]:
        """Return the files by name, in the order in which `jp` writes them."""
        base = {} if self.base_config is None else {BASE_CONFIG: self.base_config}
        return {METADATA: self.metadata, **base, EVENTS: self.events}


def export_jp(lines: Sequence[bytes], metadata: JsonObject) -> JpFiles:
    """Export a conversation as the files that `jp` uses.

    Args:
        lines: Lines of midturn's `events.jsonl`.
        metadata: JSON object in midturn's `metadata.json`.
    """
    entries = [entry for line in lines if (entry := _entry(line)) is not None]
    files = dict(filter(None, map(_file_in, lines)))
    base_config = files.get(BASE_CONFIG)
    if base_config is None and not any(_imported(_fields_of(line)) for line in lines):
        base_config = _pretty(msgspec.json.encode(_LEAST_CONFIG))
    return JpFiles(
        events=_pretty(b"[" + b",".join(entries) + b"]"),
        metadata=_pretty(msgspec.json.encode(_metadata(metadata, entries))),
        base_config=base_config,
    )


_LEAST_CONFIG: Final = {
    "assistant": {"model": {"id": {"provider": "anthropic", "name": "unknown"}}},
    "conversation": {"tools": {"*": {"run": "ask"}}},
}
"""The settings that `jp` needs to load a conversation that began in midturn."""


def _file_in(line: bytes) -> tuple[str, bytes] | None:
    """Return the name and the content of a file that a line contains; None for other lines."""
    fields = _fields_of(line) if FILE_LINE.encode() in line else {}
    if text_of(fields, "type") != FILE_LINE or _imported(fields) is None:
        return None
    return text_of(fields, "name"), text_of(fields, "text").encode()


def shortened_for_jp(lines: Sequence[bytes]) -> tuple[int, int]:
    """Return the number of standing decisions that are left out, and the number of questions
    whose answers are remembered only for the turn in `jp`.
    """
    standing = questions = 0
    for line in lines:
        if b'"standing"' not in line and b'"conversation"' not in line:
            continue
        fields = _fields_of(line)
        standing += text_of(fields, "type") == "standing"
        asked = (
            _fields_of(bytes(fields.get("question", b"{}")))
            if text_of(fields, "type") == "inquiry_request"
            else {}
        )
        questions += text_of(asked, "persistence") == "conversation"
    return standing, questions


def jp_time(timestamp: str) -> str:
    """Return a time in the format of `jp`: UTC, a space, fractions without trailing zeros. A time
    in that format, or an unreadable time, is unchanged.
    """
    if " " in timestamp:
        return timestamp
    try:
        seconds, _, fraction = (
            TurnStart(timestamp=timestamp)
            .at.astimezone(UTC)
            .strftime("%Y-%m-%d %H:%M:%S.%f")
            .partition(".")
        )
    except (ValueError, OverflowError):
        return timestamp
    return f"{seconds}.{fraction.rstrip('0') or '0'}"


def _metadata(metadata: JsonObject, entries: Sequence[bytes]) -> dict[str, Json]:
    """Return the metadata in the format of `jp`: the imported data with later changes. `jp`
    requires the time of the last use.
    """
    original = metadata.get(ORIGINAL)
    if isinstance(original, Mapping):
        return dict(original) | _changes(metadata, original)
    kept = {key: value for key, value in metadata.items() if key not in {"created_at", "labels"}}
    used = kept.get("last_activated_at") or (
        text_of(_fields_of(entries[-1]), "timestamp") if entries else metadata.get("created_at")
    )
    kept["last_activated_at"] = jp_time(used) if isinstance(used, str) else "1970-01-01 00:00:00.0"
    labels = metadata.get("labels")
    known = (
        labels if isinstance(labels, Mapping) else labels_for_jp(labels)
    )  # version 0.2 kept the labels of `jp` unchanged
    return kept | ({"labels": known} if known else {})


def _changes(metadata: JsonObject, original: Mapping[str, Json]) -> dict[str, Json]:
    """Return the keys that were changed since the import."""
    changed: dict[str, Json] = {}
    title, used, labels = (metadata.get(key) for key in ("title", "last_activated_at", "labels"))
    if isinstance(title, str) and title != original.get("title", ""):
        changed["title"] = title
    if isinstance(used, str) and used and used != original.get("last_activated_at"):
        changed["last_activated_at"] = jp_time(used)
    if tuple(_texts(labels)) != labels_from_jp(original.get("labels")):
        changed["labels"] = labels_for_jp(labels)
    return changed


_LABEL_KEY: Final = re.compile("[A-Za-z0-9_-]+")


def labels_from_jp(labels: Json | None) -> tuple[str, ...]:
    """Convert the labels of `jp`, which are pairs, to midturn's labels, which are words: `key`,
    or `key=value`.
    """
    if not isinstance(labels, Mapping):
        return ()
    return tuple(
        f"{key}={value}" if value else key
        for key, value in labels.items()
        if isinstance(value, str)
    )


def labels_for_jp(labels: Json | None) -> dict[str, Json]:
    """Return the labels as pairs of `jp`, without labels that are not valid keys in `jp`
    (`labels_lost`).
    """
    pairs = (label.partition("=")[::2] for label in _texts(labels))
    return {key: value for key, value in pairs if _LABEL_KEY.fullmatch(key)}


def labels_lost(labels: Json | None) -> list[str]:
    """Return the labels that `jp` cannot represent."""
    return [label for label in _texts(labels) if not _LABEL_KEY.fullmatch(label.partition("=")[0])]


def _texts(labels: Json | None) -> list[str]:
    return (
        [label for label in labels if isinstance(label, str)]
        if isinstance(labels, list | tuple)
        else []
    )


def _entry(line: bytes) -> bytes | None:
    """Return the entry of a line, or None if `jp` has no such kind of entry."""
    fields = _fields_of(line)
    if not fields and _is_json(
        line
    ):  # an imported entry that is not an object has no `imported` field, and is exported unchanged
        return line
    imported = _imported(fields)
    if imported is None:
        return _ours(line)
    return None if text_of(fields, "type") == FILE_LINE else _written_back(fields, imported)


def _is_json(line: bytes) -> bool:
    try:
        msgspec.json.decode(line)
    except (ValueError, RecursionError):
        return False
    return True


def _written_back(fields: dict[str, Raw], imported: Imported) -> bytes:
    del fields["imported"]
    kind = text_of(fields, "type")
    if kind == "chat_response":
        fields = {
            ("data" if name == "structured" else name): value for name, value in fields.items()
        }
    if imported.wraps_delta and (delta := _wrapped(fields.get("delta", Raw(b"null")))) is not None:
        fields["delta"] = delta
    if (hidden := HIDDEN.get(kind, "")) in fields:
        fields[hidden] = Raw(
            _with_tool_answers(hide(bytes(fields[hidden]), set(imported.plain)), imported)
        )
    return msgspec.json.encode(fields)


def _with_tool_answers(arguments: bytes, imported: Imported) -> bytes:
    if isinstance(imported.tool_answers, UnsetType):
        return arguments
    items = list(_fields_of(arguments).items())
    items.insert(imported.tool_answers_at, (TOOL_ANSWERS, imported.tool_answers))
    return msgspec.json.encode(dict(items))


def _ours(line: bytes) -> bytes | None:
    event = decode_event(line, "events.jsonl:0")
    if event.type not in _KEYS or is_opaque(event):
        return None
    values = event.to_json()
    if event.type == "tool_call_request" and not isinstance(values["arguments"], Mapping):
        values["arguments"] = {"text": values["arguments"]}  # `jp` reads objects only
    fields: dict[str, Json | Raw] = {"timestamp": jp_time(event.timestamp), "type": event.type}
    fields |= {
        ("data" if key == "structured" else key): values[key]
        for key in _KEYS[event.type]
        if key in values
    }
    if (
        isinstance(question := fields.get("question"), Mapping)
        and question.get("persistence") == "conversation"
    ):
        fields["question"] = {
            **question,
            "persistence": "turn",
        }  # the nearest value that `jp` supports
    for hidden in ("metadata", HIDDEN.get(event.type, "")):
        if hidden in values:
            fields[hidden] = Raw(hide(msgspec.json.encode(values[hidden])))
    return msgspec.json.encode(fields)


def _pretty(content: bytes) -> bytes:
    return msgspec.json.format(content, indent=2) + b"\n"
