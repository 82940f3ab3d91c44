"""How a log is divided into turns, and which turn is open."""

from __future__ import annotations

import msgspec
import pytest
from hypothesis import given

from midturn.events.types import ChatResponse, ConfigDelta, Event, InquiryRequest, OpaqueEvent
from midturn.events.window import last_turn, open_turn, turns
from support.damaged_streams import STREAMS
from support.tapes import Tape


def test_a_turn_without_an_end_is_open() -> None:
    tape = Tape()
    tape.start()
    tape.user("Ship it")
    assert [window.open for window in turns(tape.events)] == [True]


@pytest.mark.parametrize("status", ["completed", "ended_by_user", "failed", "some_future_status"])
def test_a_turn_with_an_end_is_finished(status: str) -> None:
    tape = Tape()
    tape.start()
    tape.end(status)
    assert open_turn(tape.events) is None


def test_a_turn_that_is_followed_by_another_is_finished() -> None:
    tape = Tape()
    tape.start()
    tape.call("call_1")
    second = tape.start()
    tape.user("Something else")
    assert [window.open for window in turns(tape.events)] == [False, True]
    assert (window := open_turn(tape.events))
    assert window.events[0] == second


def test_midturn_turn_ending_in_a_model_message_is_open() -> None:
    """Its end is not yet recorded."""
    tape = Tape()
    tape.start()
    tape.model("Done.")
    assert open_turn(tape.events)


def _legacy(events: list[Event]) -> list[Event]:
    return [
        msgspec.structs.replace(event, event_id=f"line:{number}")
        for number, event in enumerate(events, 1)
    ]


def test_a_legacy_stream_that_ends_in_a_model_message_is_finished() -> None:
    tape = Tape()
    tape.start()
    tape.user("Hello")
    tape.model("Hello.")
    assert open_turn(_legacy(tape.events)) is None
    assert open_turn([*_legacy(tape.events), ConfigDelta(event_id="line:4")]) is None


def test_legacy_stream_with_ids_is_recognised_by_its_timestamps() -> None:
    said = ChatResponse(message="Hello.", event_id="x7", timestamp="2026-03-05 22:07:43.3")
    assert open_turn([said]) is None


def test_a_legacy_stream_that_ends_in_anything_else_is_open() -> None:
    tape = Tape()
    tape.start()
    tape.ask(tape.call("call_1"))
    assert open_turn(_legacy(tape.events))
    assert open_turn(_legacy([*tape.events, ChatResponse(reasoning="hm")]))


def test_events_before_the_first_turn_belong_to_it() -> None:
    tape = Tape()
    tape.add(ConfigDelta(event_id="line:1"))
    tape.start()
    assert len(turns(tape.events)) == 1


def test_messages_before_the_first_turn_are_their_own_turn() -> None:
    tape = Tape()
    tape.user("Hello")
    tape.start()
    assert [len(window.events) for window in turns(tape.events)] == [1, 1]


def test_a_broken_turn_start_still_starts_a_turn() -> None:
    tape = Tape()
    tape.start()
    tape.ask(tape.call("call_1"))
    tape.add(
        OpaqueEvent(
            kind="turn_start",
            raw=msgspec.Raw(b'{"type":"turn_start","metadata":1}'),
            problem="broken",
        )
    )
    tape.user("Hello")
    assert [len(window.events) for window in turns(tape.events)] == [3, 2]


@given(STREAMS)
def test_turns_are_the_stream_in_order(events: list[Event]) -> None:
    windows = turns(events)
    if windows:
        assert [event for window in windows for event in window.events] == events
        assert not any(window.open for window in windows[:-1])
    else:
        assert not any(isinstance(event, InquiryRequest) for event in events)


@given(STREAMS)
def test_the_last_turn_is_found_from_the_end(events: list[Event]) -> None:
    windows = turns(events)

    assert last_turn(events) == (windows[-1] if windows else None)
