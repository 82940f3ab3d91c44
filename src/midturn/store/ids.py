"""Ids that are made here: of events, and of conversations with their slugs."""

from __future__ import annotations

import os
import re
import time
import unicodedata
from collections.abc import Iterator

_DIRECTORY = re.compile(r"(?P<id>[0-9]{1,20})-[a-z0-9-]{1,64}")
NEW = ".new-"
"""What the name of a directory begins with while its conversation is being made."""
_LETTERS = b"abcdefghijklmnopqrstuvwxyz234567" * 8  # for each random byte: all are as likely
_SLUG_LENGTH = 40
_SLUG_WORDS = 6
_TITLE_LENGTH = 80


def event_id() -> str:
    """Return a new event id: 12 characters of `a-z2-7`, 60 random bits."""
    return os.urandom(12).translate(_LETTERS).decode()


def event_ids() -> Iterator[str]:
    """Return event ids without end."""
    return iter(event_id, "")


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
