"""`metadata.json`: title, labels and times of a conversation. The conversation is readable
without it.
"""

from __future__ import annotations

import re
import time
import unicodedata
from typing import cast

import msgspec
from msgspec import UNSET, Struct, UnsetType

from midturn.errors import StoreError
from midturn.question.json_value import Json, JsonObject
from midturn.stores.folder import Folder, reporting_os_errors

NAME = "metadata.json"


class Metadata(Struct, frozen=True, kw_only=True):
    """Title, labels and times of a conversation. The times are in RFC 3339, or in the format of an
    older version. `others` contains the keys that other versions wrote.
    """

    title: str = ""
    created_at: str = ""
    last_activated_at: str = ""
    labels: tuple[str, ...] = ()
    others: JsonObject = msgspec.field(default_factory=dict[str, Json])

    def to_json(self) -> dict[str, Json]:
        """Return the JSON object for the file, without unset fields."""
        own: dict[str, Json] = {
            "title": self.title,
            "created_at": self.created_at,
            "last_activated_at": self.last_activated_at,
            "labels": self.labels,
        }
        return {key: value for key, value in own.items() if value} | dict(self.others)


class _Own(Struct):
    title: str | UnsetType | None = UNSET
    created_at: str | UnsetType | None = UNSET
    last_activated_at: str | UnsetType | None = UNSET
    labels: tuple[str, ...] | UnsetType | None = UNSET


def decode_metadata(content: bytes) -> Metadata:
    """Decode metadata.

    Raises:
        ValueError: The metadata is not valid; the message says why.
    """
    whole = msgspec.json.decode(content, type=dict[str, object])
    own = msgspec.convert(whole, _Own)
    others = {key: value for key, value in whole.items() if key not in _Own.__struct_fields__}
    return Metadata(
        title=own.title or "",
        created_at=own.created_at or "",
        last_activated_at=own.last_activated_at or "",
        labels=own.labels or (),
        others=cast("JsonObject", others),
    )


def read_metadata(folder: Folder) -> tuple[Metadata, str]:
    """Return a conversation's metadata, and an error message if the file cannot be read. A
    conversation is readable without the file.
    """
    try:
        content = folder.read(NAME)
        return decode_metadata(
            content
        ) if content else Metadata(), ""  # a power cut may have emptied a new file
    except FileNotFoundError:
        return Metadata(), ""
    except (OSError, ValueError, RecursionError) as error:
        return Metadata(), f"{folder.path / NAME}: {error}. The conversation is read without it."


def write_metadata(folder: Folder, metadata: Metadata) -> None:
    """Replace the metadata atomically and durably."""
    with reporting_os_errors("write", folder, NAME):
        folder.replace(NAME, _encoded(metadata))


def write_first_metadata(folder: Folder, metadata: Metadata) -> None:
    """Write the metadata of a new conversation.

    The file is not synced, because the first batch of the conversation is synced and contains the
    same data.
    """
    with reporting_os_errors("write", folder, NAME):
        folder.write_unsynced(NAME, _encoded(metadata))


def change_metadata(folder: Folder, **changes: str | tuple[str, ...]) -> Metadata:
    """Change single fields. All other fields are kept, including keys that other versions wrote.

    Raises:
        StoreError: The file exists but cannot be read. It is not changed.
    """
    metadata, problem = read_metadata(folder)
    if problem:
        raise StoreError(
            f"{problem} Repair or remove the file first: writing it would discard its content."
        )
    changed = msgspec.structs.replace(metadata, **changes)
    write_metadata(folder, changed)
    return changed


def _encoded(metadata: Metadata) -> bytes:
    return msgspec.json.format(msgspec.json.encode(metadata.to_json()), indent=2) + b"\n"


# --------------------------------------------------------------------------------------------------
# Ids of conversations, and slugs


_DIRECTORY = re.compile(r"(?P<id>[0-9]{1,20})-[a-z0-9-]{1,64}")
NEW = ".new-"
"""Prefix of a directory whose conversation is being created."""
REMOVED = ".removed-"
"""Prefix of a directory whose conversation is being removed."""
_SLUG_LENGTH = 40
_SLUG_WORDS = 6
_TITLE_LENGTH = 80


def conversation_number() -> int:
    """Return the current time as the ID of a conversation: microseconds since the Unix epoch, 16
    digits.
    """
    return time.time_ns() // 1_000


def conversation_id(directory: str) -> str | None:
    """Return the ID in the name of a conversation's directory, or None if the name is not
    `<id>-<slug>`.
    """
    found = _DIRECTORY.fullmatch(directory)
    return found["id"] if found else None


def conversation_in(directory: str) -> str:
    """Return the ID of the conversation in this directory, even while it is being created. If the
    name has no ID, return the whole name.
    """
    name = directory.removeprefix(NEW)
    return conversation_id(name) or name


def slug(words: str) -> str:
    """Return the first words of a request, formatted for directory names, or `untitled` if they
    contain no ASCII letters or digits.
    """
    plain = (
        unicodedata.normalize("NFKD", words[:1_000])
        .encode("ascii", "ignore")
        .decode("ascii")
        .lower()
    )
    chosen = ""
    for word in re.findall(r"[a-z0-9]+", plain)[:_SLUG_WORDS]:
        longer = f"{chosen}-{word}" if chosen else word
        if len(longer) > _SLUG_LENGTH and chosen:
            break
        chosen = longer[:_SLUG_LENGTH]
    return chosen or "untitled"


def title(words: str) -> str:
    """Return the first non-blank line of a request, truncated to 80 characters."""
    first = next((line for line in map(str.strip, words[:10_000].splitlines()) if line), "")
    short = first if len(first) <= _TITLE_LENGTH else first[: _TITLE_LENGTH - 1].rstrip() + "…"
    return short.encode("utf-8", "replace").decode(
        "utf-8"
    )  # the command line may contain lone surrogates
