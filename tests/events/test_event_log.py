"""Finished turns that are kept as bytes are equivalent to events that were decoded one by one."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import islice
from unittest.mock import patch

import msgspec
import pytest
from hypothesis import given, strategies as st

from midturn.events import provider_view as provider_views
from midturn.events.codec import decode_event, decode_lines, encode_event
from midturn.events.provider_view import (
    EventLog,
    HistoryPrefix,
    provider_view,
    repaired_view,
    well_formed_view,
)
from midturn.events.types import (
    ChatRequest,
    ChatResponse,
    ConfigDelta,
    Event,
    ToolCallRequest,
    ToolCallResponse,
    TurnEnd,
    TurnStart,
)
from midturn.events.window import config_deltas, last_turn, open_turn, starts_turn, turns
from support.damaged_streams import STREAMS

ODD_LINES = st.sampled_from(
    [
        b"",
        b"  ",
        b"{nonsense",
        b"\xef\xbb\xbf" + encode_event(ChatRequest(event_id="x", content="marked")),
        b' {"type": "chat_request", "event_id": "y", "content": "spaced"}\r',
        b'{"event_id":"z","type":"chat_request","content":"turned"}',
        b'{"type":"chat_request","event_id":"d","content":"deep","x":'
        + b"[" * 200
        + b"]" * 200
        + b"}",
        b'{"type":"chat_request","event_id":"s","content":"\\ud800"}',
        b'{"type":"chat_response","event_id":"e"}',
        b'{"type":"newer","event_id":"n"}',
        encode_event(ConfigDelta(event_id="c", delta={"set": 1})),
        b' {"event_id":"c","type": "config_delta", "delta":{"set":2}} ',
        b'{"type":"config\\u005fdelta","event_id":"c","delta":{"set":3}}',
        b'{"type":"config_delta","event_id":"c","delta":{"set":',
        b'{"type":"turn_start","event_id":"t","more":"one"}',
        (
            b'{"type":"chat_request","event_id":"q","content":"a"}'
            b' {"type":"chat_request","event_id":"r","content":"b"}'
        ),
        b'{"type":"chat_request","event_id":"q","content":"a","x":',
    ]
)


def held(data: bytes) -> tuple[EventLog, list[Event]]:
    """Return a log whose last turn is decoded, and all of its events."""
    lines = data.split(b"\n")[:-1]
    decoded = [
        decode_event(line.removeprefix(b"\xef\xbb\xbf").strip(), f"f:{number}")
        for number, line in enumerate(lines, 1)
    ]
    begin = max(
        (
            number
            for number, event in enumerate(decoded)
            if lines[number].strip() and starts_turn(event)
        ),
        default=0,
    )
    live = [
        event
        for number, event in enumerate(decoded)
        if number >= begin and lines[number].removeprefix(b"\xef\xbb\xbf").strip()
    ]
    past = HistoryPrefix(b"".join(line + b"\n" for line in lines[:begin]), "f")
    whole = [
        event
        for line, event in zip(lines, decoded, strict=True)
        if line.removeprefix(b"\xef\xbb\xbf").strip()
    ]
    return EventLog(live, past), whole


@st.composite
def files(draw: st.DrawFn) -> bytes:
    lines = [encode_event(event) for event in draw(STREAMS)]
    for odd in draw(st.lists(ODD_LINES, max_size=2)):
        lines.insert(draw(st.integers(0, len(lines))), odd)
    return b"".join(line + b"\n" for line in lines)


@given(files())
def test_events_kept_as_bytes_equal_decoded_events(data: bytes) -> None:
    log, whole = held(data)

    assert provider_view(log) == provider_view(whole)
    assert config_deltas(log) == config_deltas(whole)
    assert last_turn(log) == last_turn(whole)
    assert open_turn(log) == open_turn(whole)
    assert (len(log), list(log), list(reversed(log))) == (len(whole), whole, whole[::-1])
    assert all(log[place] == whole[place] for place in range(-len(whole), len(whole)))
    assert log[1:-1] == tuple(whole[1:-1])


@given(files(), st.integers(1, 2_000))
def test_latest_events_come_first_with_every_block_size(data: bytes, late: int) -> None:
    log, whole = held(data)

    with patch.object(provider_views, "_TAIL_BYTES", late):
        assert list(reversed(log)) == whole[::-1]
        assert [*islice(reversed(log), 3)] == whole[: -4 if len(whole) > 3 else None : -1]


@given(STREAMS, STREAMS)
def test_view_continues_at_its_position(before: list[Event], after: list[Event]) -> None:
    events = list(before)
    log = EventLog(events)
    assert provider_view(log) == provider_view(before)

    events += after

    assert provider_view(log) == provider_view([*before, *after])


@given(STREAMS)
def test_well_formed_events_are_not_changed_by_sanitize(events: list[Event]) -> None:
    whole = well_formed_view(events)

    assert whole is None or whole == [
        event for window in turns(events) for event in repaired_view(window.events)
    ]


def test_finished_turns_are_not_decoded_for_a_new_turn() -> None:
    finished: Sequence[Event] = [
        TurnStart(event_id="a"),
        ConfigDelta(event_id="o", delta={"set": 1}),
        ChatRequest(event_id="b", content="Ship it"),
        ToolCallRequest(event_id="c", id="call_1", name="deploy"),
        ToolCallResponse(event_id="d", id="call_1", call="c", content="done"),
        ChatResponse(event_id="e", message="Shipped."),
        TurnEnd(event_id="f", status="completed"),
    ]
    past = HistoryPrefix(b"".join(encode_event(event) + b"\n" for event in finished) * 3, "f")
    log = EventLog(list(finished), past)

    assert provider_view(log) == [*finished[2:6]] * 4
    assert config_deltas(log) == [{"set": 1}] * 4
    assert open_turn(log) is None
    assert len(log) == 4 * len(finished)
    assert [*islice(reversed(log), 12)] == [*finished, *finished][:-13:-1]
    assert "events" not in vars(past)


@pytest.mark.parametrize("more", [b'{"type":"chat_request"', b""])
def test_many_lines_are_read_like_single_lines(more: bytes) -> None:
    lines = [
        msgspec.json.encode(ChatRequest(event_id=f"e{number}", content="x"))
        for number in range(1_500)
    ]
    lines.insert(1_200, more)

    assert decode_lines(lines, "f") == [
        decode_event(line, f"f:{number}") for number, line in enumerate(lines, 1)
    ]


@given(files(), files())
def test_extended_log_equals_a_new_read(before: bytes, after: bytes) -> None:
    known = HistoryPrefix(before, "f")
    assert known.view == provider_view(known.events)

    begins_a_turn = encode_event(TurnStart(event_id="new")) + b"\n" + after
    grown = known.grown(before + begins_a_turn, "f")

    assert grown.view == provider_view(HistoryPrefix(before + begins_a_turn, "f").events)
    assert grown.grown(before + begins_a_turn, "f") is grown
    assert known.grown(after, "f").view == HistoryPrefix(after, "f").view
