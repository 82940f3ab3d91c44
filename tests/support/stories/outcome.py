"""The outcome of a story: recorded events, the text the model read, the end of the turn. The
same through every interface.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from msgspec import Struct

UNANNOUNCED = ", and was not on record before"
"""Appended to a decision on a question that was never recorded as asked."""
OPEN = "open"
"""The end of a suspended turn."""


class Outcome(Struct, frozen=True):
    """The outcome of a story.

    `record` has a line for each question and each decision, in order. `words` is what the model
    read of its calls. `end` is the status. `result` is the typed result of the turn as JSON, if
    it has one.

    IDs, times, the interface (`via`) and the asker are left out. Nothing else may differ.
    """

    record: tuple[str, ...]
    words: tuple[str, ...] = ()
    end: str = "completed"
    result: str = ""


def outcome(
    *record: str, words: str | None = None, end: str = "completed", result: str = ""
) -> Outcome:
    """Return the expected outcome of a story with at most one call."""
    return Outcome(record, () if words is None else (words,), end, result)


def failed(words: str) -> str:
    """Mark the text that the model reads as an error."""
    return f"Error: {words}"


def asked(id: str) -> str:
    """Line for a recorded question."""
    return f"{id}?"


def answered(id: str, value: object, reason: str | None = None) -> str:
    """Line for a person's answer."""
    return f"{id} = {json.dumps(value)} by user{_because(reason)}"


def secretly(id: str) -> str:
    """Line for a secret, whose value is not recorded."""
    return f"{id} = (secret) by user"


def closed(id: str, reason: str) -> str:
    """Line for a question that was closed without an answer."""
    return f"{id}: {reason}"


def approval(kind: str, state: str, *, reason: str | None = None, edited: object = None) -> str:
    """Line for a decision about a call (`run`), its result (`deliver`) or a form (`review`)."""
    changed = "" if edited is None else f" to {json.dumps(edited)}"
    return f"{kind}: {state}{changed} by user{_because(reason)}"


def outcome_of(events: Iterable[Mapping[str, Any]]) -> Outcome:
    """Return the outcome that recorded events describe."""
    found = _call_by_call(list(events))
    ends = [str(event["status"]) for event in found if event["type"] == "turn_end"]
    words = tuple(_read(event) for event in found if event["type"] == "tool_call_response")
    typed = [json.dumps(event["structured"]) for event in found if "structured" in event]
    return Outcome(
        tuple(_lines(found)), words, ends[-1] if ends else OPEN, typed[-1] if typed else ""
    )


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
    """Group events by call: calls run in parallel."""
    places = {
        event["event_id"]: place
        for place, event in enumerate(events, 1)
        if event["type"] == "tool_call_request"
    }
    asked = {
        event["id"]: places[event["call"]] for event in events if event["type"] == "inquiry_request"
    }
    return sorted(
        events,
        key=lambda event: places.get(event.get("call", ""), asked.get(event.get("id", ""), 0)),
    )


def _response(id: str, event: Mapping[str, Any]) -> str:
    match event["outcome"]:
        case "cancelled":
            return closed(id, event["reason"])
        case "redacted":
            return f"{id} = (secret) by {event['answered_by']['by']}"
        case _:
            return (
                f"{id} = {json.dumps(event['answer'])} by"
                f" {event['answered_by']['by']}{_because(event.get('reason'))}"
            )


def _approval(event: Mapping[str, Any]) -> str:
    kind, state = event["kind"], event["state"]
    edited = event.get("arguments", event.get("content") if state == "edited" else None)
    changed = "" if edited is None else f" to {json.dumps(edited)}"
    by = f" by {event['answered_by']['by']}" if "answered_by" in event else ""
    return f"{kind}: {state}{changed}{by}{_because(event.get('reason'))}"


def _because(reason: str | None) -> str:
    return f" because {reason!r}" if reason else ""
