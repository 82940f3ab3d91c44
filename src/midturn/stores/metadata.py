"""`metadata.json`: what a conversation is called. Everything in it can be lost without losing a word that was said."""

from __future__ import annotations

import re
import time
import unicodedata
from typing import cast

import msgspec
from msgspec import UNSET, Struct, UnsetType

from midturn.errors import StoreError
from midturn.question.json_value import Json, JsonObject
from midturn.stores.folder import Folder, telling

NAME = "metadata.json"


class Metadata(Struct, frozen=True, kw_only=True):
    """`created_at` and `last_activated_at` are RFC 3339 (or a legacy form, as it was read). `others`: keys of other versions, kept."""

    title: str = ""
    created_at: str = ""
    last_activated_at: str = ""
    labels: tuple[str, ...] = ()
    others: JsonObject = msgspec.field(default_factory=dict[str, Json])

    def to_json(self) -> dict[str, Json]:
        """Return the object that is on disk; what is not set is left out."""
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
    """Read metadata.

    Raises:
        ValueError: It is not what it should be; the message says what is wrong.
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
    """Return a conversation's metadata, and what is wrong with the file: nothing of it is needed to read the conversation."""
    try:
        content = folder.read(NAME)
        return decode_metadata(content) if content else Metadata(), ""  # a loss of power may have emptied a new one
    except FileNotFoundError:
        return Metadata(), ""
    except (OSError, ValueError, RecursionError) as error:
        return Metadata(), f"{folder.path / NAME}: {error}. The conversation is read without it."


def write_metadata(folder: Folder, metadata: Metadata) -> None:
    """Put metadata in the place of what was there, whole and durable."""
    with telling("write", folder, NAME):
        folder.replace(NAME, _encoded(metadata))


def write_first_metadata(folder: Folder, metadata: Metadata) -> None:
    """Write the metadata of a new conversation. Not synced: the conversation, whose first batch is synced, says the same."""
    with telling("write", folder, NAME):
        folder.write_unsynced(NAME, _encoded(metadata))


def change_metadata(folder: Folder, **changes: str | tuple[str, ...]) -> Metadata:
    """Change single fields; the rest stays, keys of other versions included.

    Raises:
        StoreError: The file is there and cannot be read: it is left alone.
    """
    metadata, problem = read_metadata(folder)
    if problem:
        raise StoreError(f"{problem} Repair or remove the file first: writing would lose what is in it.")
    changed = msgspec.structs.replace(metadata, **changes)
    write_metadata(folder, changed)
    return changed


def _encoded(metadata: Metadata) -> bytes:
    return msgspec.json.format(msgspec.json.encode(metadata.to_json()), indent=2) + b"\n"


# ----------------------------------------------------------------------------------------------------------------------
# Ids of conversations, and slugs


_DIRECTORY = re.compile(r"(?P<id>[0-9]{1,20})-[a-z0-9-]{1,64}")
NEW = ".new-"
"""Prefix of a directory whose conversation is being made."""
REMOVED = ".removed-"
"""Prefix of a directory whose conversation is being removed."""
_SLUG_LENGTH = 40
_SLUG_WORDS = 6
_TITLE_LENGTH = 80


def conversation_number() -> int:
    """Return the time as a conversation's id has it: microseconds since the Unix epoch, 16 digits."""
    return time.time_ns() // 1_000


def conversation_id(directory: str) -> str | None:
    """Return the id in the name of a conversation's directory; None where the name is not `<id>-<slug>`."""
    found = _DIRECTORY.fullmatch(directory)
    return found["id"] if found else None


def conversation_in(directory: str) -> str:
    """Return the id of the conversation whose directory this is, also while it is being made; without an id, the whole name."""
    name = directory.removeprefix(NEW)
    return conversation_id(name) or name


def slug(words: str) -> str:
    """Return a directory-safe form of the first words of a request; `untitled` where nothing of it is ASCII."""
    plain = unicodedata.normalize("NFKD", words[:1_000]).encode("ascii", "ignore").decode("ascii").lower()
    chosen = ""
    for word in re.findall(r"[a-z0-9]+", plain)[:_SLUG_WORDS]:
        longer = f"{chosen}-{word}" if chosen else word
        if len(longer) > _SLUG_LENGTH and chosen:
            break
        chosen = longer[:_SLUG_LENGTH]
    return chosen or "untitled"


def title(words: str) -> str:
    """Return the first line of a request that has words, cut to 80 characters."""
    first = next((line for line in map(str.strip, words[:10_000].splitlines()) if line), "")
    short = first if len(first) <= _TITLE_LENGTH else first[: _TITLE_LENGTH - 1].rstrip() + "…"
    return short.encode("utf-8", "replace").decode("utf-8")  # the command line may hold lone surrogates
