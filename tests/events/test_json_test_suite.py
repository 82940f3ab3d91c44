"""Runs JSONTestSuite (github.com/nst/JSONTestSuite, MIT, see its LICENSE) against the event
reader.

Valid JSON is read and everything else is reported. Each document is tested as a line of its own
and as a value in the line of an event.
"""

from __future__ import annotations

import base64
import json
from pathlib import Path
from typing import Any

import pytest

from midturn.events.codec import decode_event, decode_lines, encode_event
from midturn.events.types import ConfigDelta, OpaqueEvent

SUITE = Path(__file__).parents[1] / "data" / "json_test_suite" / "test_parsing.jsonl"


def documents() -> dict[str, bytes]:
    """Return the documents by name.

    Two very long ones are stored as the pattern that they repeat.
    """
    cases: list[dict[str, Any]] = [json.loads(line) for line in SUITE.read_text().splitlines()]
    return {
        case["name"]: base64.b64decode(case["base64"]) * case.get("times", 1)
        + base64.b64decode(case.get("end", ""))
        for case in cases
    }


DOCUMENTS = documents()


def in_event(document: bytes) -> bytes:
    """Return the line of an event with the document as a value. Line breaks are removed."""
    return (
        b'{"type":"config_delta","event_id":"e1","metadata":{"x":'
        + document.replace(b"\n", b" ").replace(b"\r", b" ")
        + b"}}"
    )


def test_suite_is_complete() -> None:
    kinds = [name[0] for name in DOCUMENTS]
    assert (kinds.count("y"), kinds.count("n"), kinds.count("i")) == (95, 188, 35)


@pytest.mark.parametrize("name", [name for name in DOCUMENTS if name.startswith("y_")])
def test_valid_json_is_read_and_kept(name: str) -> None:
    event = decode_event(in_event(DOCUMENTS[name]), "events.jsonl:7")

    assert isinstance(event, ConfigDelta), event
    assert event.metadata == {"x": json.loads(DOCUMENTS[name])}
    assert decode_event(encode_event(event), "events.jsonl:7") == event


@pytest.mark.parametrize("name", [name for name in DOCUMENTS if name.startswith("n_")])
def test_invalid_json_is_reported_with_file_line_and_position(name: str) -> None:
    document = DOCUMENTS[name]
    lines = [document] if b"\n" in document else [document, in_event(document)]
    for line in lines:
        (before, event, after) = decode_lines(
            [b'{"type":"turn_start"}', line, b'{"type":"turn_end","status":"completed"}'],
            "events.jsonl",
            6,
        )

        assert isinstance(event, OpaqueEvent)
        assert event.problem.startswith("events.jsonl:7: ")
        assert line is document or any(
            why in event.problem for why in ("(byte ", "truncated", "nested", "UTF-8")
        ), event.problem
        assert encode_event(event) == line
        assert not isinstance(before, OpaqueEvent)
        assert not isinstance(after, OpaqueEvent)


@pytest.mark.parametrize("name", [name for name in DOCUMENTS if name.startswith("i_")])
def test_implementation_defined_json_is_read_or_reported_and_kept(name: str) -> None:
    for line in (in_event(DOCUMENTS[name]), DOCUMENTS[name]):
        event = decode_event(line, "events.jsonl:7")

        if isinstance(event, OpaqueEvent):
            assert event.problem.startswith("events.jsonl:7: ")
            assert encode_event(event) == line
        else:
            assert isinstance(decode_event(encode_event(event), "events.jsonl:7"), ConfigDelta)
