"""The allow-list of event kinds that are sent to model providers."""

from __future__ import annotations

import pytest

from midturn.events.codec import KINDS, decode_event
from midturn.events.types import visible

SMALLEST = {
    "turn_start": b"",
    "turn_end": b',"status":"completed"',
    "chat_request": b',"content":"x"',
    "chat_response": b',"message":"x"',
    "tool_call_request": b',"id":"c","name":"deploy","arguments":{}',
    "tool_call_response": b',"id":"c","content":"x","is_error":false,"call":"e"',
    "inquiry_request": (
        b',"id":"i","source":{"source":"user"},"question":{"text":"?","answer_type":{"type":"text"}}'
    ),
    "inquiry_response": b',"id":"i","outcome":"cancelled"',
    "approval": b',"id":"a","call":"e","kind":"run","state":"waiting"',
    "suspended": b',"through":"e"',
    "child": b',"call":"e","conversation":"1"',
    "call_value": b',"call":"e","name":"job","value":{"id":7}',
    "config_delta": b',"delta":{}',
    "proposal": b',"id":"i","state":"open","arguments":{}',
    "vote": b',"id":"i","answer":true',
    "reassigned": b',"id":"i","to":["bo"]',
    "reminded": b',"id":"i","number":1',
    "escalated": b',"id":"i","number":1',
    "notified": b',"id":"i","about":"asked"',
    "standing": b',"id":"a","tool":"deploy","rule":{"run":"unattended"}',
    "some_future_kind": b"",
}


def test_every_kind_is_sent_or_excluded() -> None:
    assert set(SMALLEST) == {*KINDS, "some_future_kind"}


@pytest.mark.parametrize("kind", SMALLEST)
def test_only_four_kinds_are_sent(kind: str) -> None:
    event = decode_event(
        b'{"type":"' + kind.encode() + b'"' + SMALLEST[kind] + b"}", "events.jsonl:1"
    )
    assert event.type == kind
    assert visible(event) == (
        kind in {"chat_request", "chat_response", "tool_call_request", "tool_call_response"}
    )


def test_a_broken_message_is_sent_to_nobody() -> None:
    assert not visible(decode_event(b'{"type":"chat_request"}', "events.jsonl:1"))
