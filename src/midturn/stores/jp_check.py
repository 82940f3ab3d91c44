"""Finds the entries of an export that `jp` cannot load, before the export is written.

`jp` refuses a whole conversation for one unreadable entry. It keeps entries of unknown types; an
entry of a known type must have no missing and no unknown field.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Final

import msgspec

from midturn.question.json_value import Json
from midturn.stores.jp import BASE_CONFIG, JpFiles

_ANSWER_TYPES: Final = frozenset({"boolean", "select", "text"})
_SOURCES: Final = frozenset({"tool", "assistant", "user", "other"})
_EVENTS: Final = msgspec.json.Decoder(list[Json])


def refused_by_jp(files: JpFiles) -> list[str]:
    """Return why `jp` cannot load a conversation: a missing file, and each entry with its
    position in `events.json`.
    """
    entries = _EVENTS.decode(files.events)
    missing = (
        []
        if files.base_config is not None or _holds_configuration(entries)
        else [f"{BASE_CONFIG} is missing: the import had none"]
    )
    return [
        *missing,
        *(
            f"events.json[{place}]: {reason}"
            for place, entry in enumerate(entries)
            for reason in _reasons(entry)
        ),
    ]


def _holds_configuration(entries: Sequence[Json]) -> bool:
    """Return whether the first entry is the configuration, as older versions of `jp` write it."""
    first = entries[0] if entries else None
    return isinstance(first, Mapping) and first.get("type") == "config_delta"


def _reasons(entry: Json) -> Iterator[str]:
    if not isinstance(entry, Mapping):
        yield "it is not a JSON object"
        return
    match entry.get("type"):
        case "inquiry_response" if "answer" not in entry:
            outcome = entry.get("outcome", "unknown")
            yield (
                f"the response to the question {entry.get('id')!r} is `{outcome}`, and `jp`"
                " requires an answer"
            )
        case "inquiry_request":
            yield from _of_question(entry)
        case _:
            pass


def _of_question(entry: Mapping[str, Json]) -> Iterator[str]:
    kind = _member(_member(entry, "question"), "answer_type").get("type")
    if kind not in _ANSWER_TYPES:
        yield (
            f"the question {entry.get('id')!r} has the answer type {kind!r}, which `jp` does not"
            " support"
        )
    source = _member(entry, "source").get("source")
    if source not in _SOURCES:
        yield (
            f"the question {entry.get('id')!r} has the source {source!r}, which `jp` does not support"
        )


def _member(value: Mapping[str, Json], key: str) -> Mapping[str, Json]:
    member = value.get(key)
    return member if isinstance(member, Mapping) else {}
