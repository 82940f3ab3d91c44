"""Checks after each test with an agent, a server, a hook or a model that every recorded decision
was made by somebody.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, cast

import pytest

_WITH: Mapping[str, Sequence[str]] = {
    "user": (),
    "policy": ("name",),
    "assistant": ("model",),
    "static": ("origin",),
    "configuration": ("origin",),
    "cached": (),
    "default": (),
}
"""The possible responders, with the fields that must be recorded for each: the model, the place
of the configuration.
"""
_DECIDED = ("approved", "skipped", "edited")
_CLOSED = ("user", "reply", "back", "superseded")
"""Valid reasons why a question of another agent has no answer: a person replied otherwise, or it
was decided outside of midturn.
"""
_WORDS: Mapping[str, Callable[[Sequence[Mapping[str, Any]]], bool]] = {
    "The user said no": lambda events: any(event.get("state") == "skipped" for event in events),
    "The user allowed it": lambda events: any(event.get("state") == "approved" for event in events),
    "The user allows this call only": lambda events: any(
        event.get("state") == "edited" for event in events
    ),
    "The user answered": lambda events: any("answer" in event for event in events),
    "The user did not choose": lambda events: any(
        event.get("reason") == "reply" for event in events
    ),
    "The user ended the turn": lambda events: any(
        event.get("status") == "ended_by_user" for event in events
    ),
}
"""Statements about a person that another agent reads, and the record that each requires."""


_heard: list[Callable[[], Sequence[str]]] = []


def check_statements(texts: Callable[[], Sequence[str]]) -> None:
    """Register texts that an agent or its model reads in this test (output of hooks, requests to
    providers). They are checked at its end.
    """
    _heard.append(texts)


def invented_decisions(folder: Path, read: Sequence[str] = ()) -> list[str]:
    """Return the decisions below a folder that nobody made: answers and refusals without a
    responder, and false statements to agents.

    Args:
        folder: Directory that contains the stores.
        read: Further texts that agents have read.
    """
    records = [(file, _read(file)) for file in sorted(folder.rglob("events.jsonl"))]
    found = [f"{file}: {lie}" for file, events in records for lie in _check(events)]
    every = [event for _, events in records for event in events]
    return [
        *found,
        *(
            f"nobody said so: {text}"
            for text in read
            for words, is_so in _WORDS.items()
            if words in text and not is_so(every)
        ),
    ]


@pytest.fixture(autouse=True)
def no_invented_decisions(tmp_path: Path) -> Iterator[None]:
    """Check all stores below the test's directory after the test."""
    _heard.clear()
    yield
    assert invented_decisions(tmp_path, [text for texts in _heard for text in texts()]) == []


def _read(file: Path) -> list[dict[str, Any]]:
    """Return the readable events of a log. Some tests damage the other lines."""
    events: list[dict[str, Any]] = []
    for line in file.read_bytes().splitlines() if file.is_file() else ():
        try:
            event = json.loads(line)
        except ValueError:
            continue
        if isinstance(event, dict):
            events.append(cast("dict[str, Any]", event))
    return events


def _check(events: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    """Check a conversation. Questions of another agent are decided by people (or outside of
    midturn); its calls may also be allowed by rules.
    """
    is_foreign = any(
        "asker" in (event.get("metadata") or {})
        for event in events
        if event.get("type") == "turn_start"
    )
    for event in events:
        if not _is_valid(event, is_foreign=is_foreign):
            yield f"nobody decided this: {event}"
        if is_foreign and event.get("type") == "tool_call_response":
            said = str(event.get("content", ""))
            yield from (
                f"nobody said so: {event}"
                for words, is_so in _WORDS.items()
                if said.startswith(words) and not is_so(events)
            )


def _is_valid(event: Mapping[str, Any], *, is_foreign: bool) -> bool:
    decided = event.get("outcome") in {"answered", "redacted"} or event.get("state") in _DECIDED
    by: Mapping[str, Any] | None = event.get("answered_by")
    match event.get("type"):
        case "inquiry_response" | "approval" if decided:
            kind = by.get("by", "") if by else ""
            known = by is not None and kind in _WITH and all(by.get(key) for key in _WITH[kind])
            is_ruled = event.get("type") == "approval" and kind == "configuration"
            return known and (
                not is_foreign or is_ruled or (kind == "user" and bool(by and by.get("via")))
            )
        case "inquiry_response":
            return by is None and (not is_foreign or event.get("reason") in _CLOSED)
        case "approval":
            return by is None
        case _:
            return True
