"""What became of a story: what is on record, what the model read, and how the turn ended. The same through every door."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from msgspec import Struct

UNANNOUNCED = ", and was not on record before"
"""What is added to a decision that nobody was recorded to have been asked for."""
OPEN = "open"
"""The end of a turn that waits."""


class Outcome(Struct, frozen=True):
    """`record` has a line for each question and each decision, in order; `words` is what the model read of its calls; `end` is the status.

    `result` is the typed result of the turn as JSON, where it has one.

    Ids, times, the door (`via`) and the asker are left out. Nothing else may differ.
    """

    record: tuple[str, ...]
    words: tuple[str, ...] = ()
    end: str = "completed"
    result: str = ""


def outcome(*record: str, words: str | None = None, end: str = "completed", result: str = "") -> Outcome:
    """State what becomes of a story with at most one call."""
    return Outcome(record, () if words is None else (words,), end, result)


def failed(words: str) -> str:
    """Say that what the model reads is an error."""
    return f"Error: {words}"


def asked(id: str) -> str:
    """Say that a question was put on record."""
    return f"{id}?"


def answered(id: str, value: object, reason: str | None = None) -> str:
    """Say that a person answered."""
    return f"{id} = {json.dumps(value)} by user{_because(reason)}"


def secretly(id: str) -> str:
    """Say that a person gave a secret, which is not on record."""
    return f"{id} = (secret) by user"


def closed(id: str, reason: str) -> str:
    """Say that a question was closed without an answer."""
    return f"{id}: {reason}"


def approval(kind: str, state: str, *, reason: str | None = None, edited: object = None) -> str:
    """Say what was decided about a call (`run`), its result (`deliver`) or a form (`review`)."""
    changed = "" if edited is None else f" to {json.dumps(edited)}"
    return f"{kind}: {state}{changed} by user{_because(reason)}"


def outcome_of(events: Iterable[Mapping[str, Any]]) -> Outcome:
    """Return what events on record come to."""
    found = _call_by_call(list(events))
    ends = [str(event["status"]) for event in found if event["type"] == "turn_end"]
    words = tuple(_read(event) for event in found if event["type"] == "tool_call_response")
    typed = [json.dumps(event["structured"]) for event in found if "structured" in event]
    return Outcome(tuple(_lines(found)), words, ends[-1] if ends else OPEN, typed[-1] if typed else "")


def _read(event: Mapping[str, Any]) -> str:
    return failed(event["content"]) if event.get("is_error") else event["content"]


def _lines(events: list[Mapping[str, Any]]) -> Iterator[str]:
    ids: dict[str, str] = {}
    waits: set[str] = set()
    for event in events:
        match event["type"]:
            case "inquiry_request":
                ids[event["id"]] = event["question_id"]
                yield asked(event["question_id"])
            case "inquiry_response":
                yield _response(ids[event["id"]], event)
            case "approval" if event["state"] == "waiting":
                waits.add(event["id"])
            case "approval":
                yield _approval(event) + ("" if event["id"] in waits else UNANNOUNCED)
            case _:
                pass


def _call_by_call(events: list[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    """Put what belongs to one call together: calls run at once."""
    places = {event["event_id"]: place for place, event in enumerate(events, 1) if event["type"] == "tool_call_request"}
    asked = {event["id"]: places[event["call"]] for event in events if event["type"] == "inquiry_request"}
    return sorted(events, key=lambda event: places.get(event.get("call", ""), asked.get(event.get("id", ""), 0)))


def _response(id: str, event: Mapping[str, Any]) -> str:
    match event["outcome"]:
        case "cancelled":
            return closed(id, event["reason"])
        case "redacted":
            return f"{id} = (secret) by {event['answered_by']['by']}"
        case _:
            return f"{id} = {json.dumps(event['answer'])} by {event['answered_by']['by']}{_because(event.get('reason'))}"


def _approval(event: Mapping[str, Any]) -> str:
    kind, state = event["kind"], event["state"]
    edited = event.get("arguments", event.get("content") if state == "edited" else None)
    changed = "" if edited is None else f" to {json.dumps(edited)}"
    by = f" by {event['answered_by']['by']}" if "answered_by" in event else ""
    return f"{kind}: {state}{changed}{by}{_because(event.get('reason'))}"


def _because(reason: str | None) -> str:
    return f" because {reason!r}" if reason else ""
