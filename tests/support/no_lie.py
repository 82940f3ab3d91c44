"""Nothing is on record that nobody decided: looked up at the end of every test in which an agent, a server, a hook or a model took part."""

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
"""Who decides, and what is always said of them: which model it was, where it was configured."""
_DECIDED = ("approved", "skipped", "edited")
_CLOSED = ("user", "reply", "back", "superseded")
"""Why a question of another agent has no answer: a person said something else, or it was decided where nobody of ours could see it."""
_WORDS: Mapping[str, Callable[[Sequence[Mapping[str, Any]]], bool]] = {
    "The user said no": lambda events: any(event.get("state") == "skipped" for event in events),
    "The user allowed it": lambda events: any(event.get("state") == "approved" for event in events),
    "The user allows this call only": lambda events: any(event.get("state") == "edited" for event in events),
    "The user answered": lambda events: any("answer" in event for event in events),
    "The user did not choose": lambda events: any(event.get("reason") == "reply" for event in events),
    "The user ended the turn": lambda events: any(event.get("status") == "ended_by_user" for event in events),
}
"""What another agent reads of a person, and what has to be on record then."""


_heard: list[Callable[[], Sequence[str]]] = []


def heard(texts: Callable[[], Sequence[str]]) -> None:
    """Have what an agent or its model reads in this test looked through at its end: what hooks print, what a provider is sent."""
    _heard.append(texts)


def lies(folder: Path, read: Sequence[str] = ()) -> list[str]:
    """Return what stands in the records below a folder, and nobody said: answers and refusals of nobody, words about them to an agent.

    Args:
        folder: Where the stores are.
        read: What agents have read in other ways.
    """
    records = [(file, _read(file)) for file in sorted(folder.rglob("events.jsonl"))]
    found = [f"{file}: {lie}" for file, events in records for lie in _in(events)]
    every = [event for _, events in records for event in events]
    return [*found, *(f"nobody said so: {text}" for text in read for words, is_so in _WORDS.items() if words in text and not is_so(every))]


@pytest.fixture(autouse=True)
def nothing_is_on_record_that_nobody_decided(tmp_path: Path) -> Iterator[None]:
    """Look through every store below a test's directory, whatever the test did."""
    _heard.clear()
    yield
    assert lies(tmp_path, [text for texts in _heard for text in texts()]) == []


def _read(file: Path) -> list[dict[str, Any]]:
    """Return the events that can be read: some tests damage the others."""
    events: list[dict[str, Any]] = []
    for line in file.read_bytes().splitlines() if file.is_file() else ():
        try:
            event = json.loads(line)
        except ValueError:
            continue
        if isinstance(event, dict):
            events.append(cast("dict[str, Any]", event))
    return events


def _in(events: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    """Go through a conversation. What another agent asked people decide, or nobody here knows who; calls are let run by rules, too."""
    is_foreign = any("asker" in (event.get("metadata") or {}) for event in events if event.get("type") == "turn_start")
    for event in events:
        if not _is_true(event, is_foreign=is_foreign):
            yield f"nobody decided this: {event}"
        if is_foreign and event.get("type") == "tool_call_response":
            said = str(event.get("content", ""))
            yield from (f"nobody said so: {event}" for words, is_so in _WORDS.items() if said.startswith(words) and not is_so(events))


def _is_true(event: Mapping[str, Any], *, is_foreign: bool) -> bool:
    decided = event.get("outcome") in {"answered", "redacted"} or event.get("state") in _DECIDED
    by: Mapping[str, Any] | None = event.get("answered_by")
    match event.get("type"):
        case "inquiry_response" | "approval" if decided:
            kind = by.get("by", "") if by else ""
            known = by is not None and kind in _WITH and all(by.get(key) for key in _WITH[kind])
            is_ruled = event.get("type") == "approval" and kind == "configuration"
            return known and (not is_foreign or is_ruled or (kind == "user" and bool(by and by.get("via"))))
        case "inquiry_response":
            return by is None and (not is_foreign or event.get("reason") in _CLOSED)
        case "approval":
            return by is None
        case _:
            return True
