"""`sanitize` makes a well-formed stream from any stream."""

from __future__ import annotations

from hypothesis import given

from midturn.events.provider_view import Repairs, sanitize
from midturn.events.types import (
    INTERRUPTED,
    ConfigDelta,
    Event,
    InquiryCancelled,
    InquiryRequest,
    ToolCallResponse,
    TurnStart,
    visible,
)
from midturn.events.window import open_turn, turns
from midturn.turn.view import calls, pairs
from support.damaged_streams import STREAMS
from support.tapes import Tape


def test_well_formed_stream_is_unchanged() -> None:
    tape = Tape()
    tape.start()
    tape.user("Ship it")
    call = tape.call("call_1")
    tape.answer(tape.ask(call))
    tape.result(call)
    tape.model("Shipped.")
    tape.end()
    assert sanitize(tape.events) == (tape.events, Repairs())


def test_call_without_a_response_in_a_finished_turn_gets_one() -> None:
    tape = Tape()
    tape.start()
    lost = tape.call("call_1", more=1)
    kept = tape.call("call_2")
    tape.result(kept)
    tape.model("One of them worked.")
    tape.end()
    whole, repairs = sanitize(tape.events)
    synthetic = whole[4]
    assert isinstance(synthetic, ToolCallResponse)
    assert (synthetic.id, synthetic.call, synthetic.content, synthetic.is_error) == (
        "call_1",
        lost.event_id,
        INTERRUPTED,
        True,
    )
    assert repairs == Repairs(interrupted=(lost.event_id,))
    assert [event for event in whole if event is not synthetic] == tape.events


def test_a_request_without_a_response_is_cancelled_inside_its_own_turn() -> None:
    """The pair of turn 2 has the same ID and does not answer the request in turn 1."""
    tape = Tape()
    tape.start()
    first = tape.call("call_1")
    orphan = tape.ask(first)
    tape.result(first)
    tape.end()
    tape.start()
    second = tape.call("call_1")
    tape.answer(tape.ask(second))
    tape.result(second)
    tape.end()
    whole, repairs = sanitize(tape.events)
    cancelled = whole[3]
    assert isinstance(cancelled, InquiryCancelled)
    assert (cancelled.id, cancelled.reason) == (orphan.id, "user")
    assert repairs == Repairs(cancelled=(orphan.event_id,))
    assert [response and response.type for _, response in pairs(whole)] == ["inquiry_response"] * 2


def test_a_response_whose_request_is_in_another_turn_is_dropped() -> None:
    tape = Tape()
    tape.start()
    asked = tape.ask(tape.call("call_1"))
    tape.end()
    tape.start()
    late = tape.answer(asked)
    tape.end()
    whole, repairs = sanitize(tape.events)
    assert late not in whole
    assert (repairs.cancelled, repairs.dropped) == ((asked.event_id,), (late.event_id,))


def test_two_legacy_requests_with_one_id_and_one_response_keep_the_pair_in_order() -> None:
    tape = Tape()
    tape.start()
    call = tape.call("call_1")
    first = tape.ask(call)
    second = tape.ask(call)
    answered = tape.answer(first)
    tape.result(call)
    tape.end()
    whole, repairs = sanitize(tape.events)
    (one, its_response), (two, other_response) = pairs(whole)
    assert (one, two) == (first, second)
    assert its_response == answered
    assert isinstance(other_response, InquiryCancelled)
    assert repairs == Repairs(cancelled=(second.event_id,))
    assert answered in whole


def test_the_open_turn_keeps_its_requests_and_calls() -> None:
    tape = Tape()
    tape.start()
    tape.ask(tape.call("call_1"))
    assert sanitize(tape.events) == (tape.events, Repairs())


def test_response_without_a_request_is_dropped_from_the_open_turn() -> None:
    tape = Tape()
    tape.start()
    asked = tape.ask(tape.call("call_1"))
    tape.answer(asked)
    again = tape.answer(asked)
    assert sanitize(tape.events)[1] == Repairs(dropped=(again.event_id,))


def test_a_stream_without_a_turn_start_gets_one() -> None:
    tape = Tape()
    said = tape.user("Hello")
    tape.model("Hello.")
    tape.end()
    whole, repairs = sanitize(tape.events)
    assert isinstance(whole[0], TurnStart)
    assert repairs == Repairs(started=(said.event_id,))


def test_a_turn_start_comes_before_the_configuration_that_legacy_streams_begin_with() -> None:
    tape = Tape()
    delta = ConfigDelta(delta={"inherit": False}, event_id="line:1")
    tape.add(delta)
    start = tape.start()
    tape.user("Hello")
    whole, repairs = sanitize(tape.events)
    assert whole[:2] == [start, delta]
    assert not repairs


def test_empty_stream_stays_empty() -> None:
    assert sanitize([]) == ([], Repairs())
    assert sanitize([ConfigDelta()]) == ([ConfigDelta()], Repairs())


@given(STREAMS)
def test_a_second_pass_changes_nothing(events: list[Event]) -> None:
    whole, _ = sanitize(events)
    assert sanitize(whole) == (whole, Repairs())


@given(STREAMS)
def test_visible_events_are_kept_in_order(events: list[Event]) -> None:
    whole, repairs = sanitize(events)
    added = {f"{call}:interrupted" for call in repairs.interrupted if call}
    seen = [event for event in whole if visible(event) and event.event_id not in added]
    unnumbered = [
        event
        for event in seen
        if not (isinstance(event, ToolCallResponse) and event.content == INTERRUPTED)
    ]
    assert unnumbered == [event for event in events if visible(event)]


@given(STREAMS)
def test_sanitized_finished_turns_are_complete(events: list[Event]) -> None:
    whole, _ = sanitize(events)
    for window in turns(whole):
        if not window.open:
            assert all(response for _, response in calls(window.events))
            assert all(response for _, response in pairs(window.events))


@given(STREAMS)
def test_the_open_turn_loses_no_request_and_no_call(events: list[Event]) -> None:
    before, after = open_turn(events), open_turn(sanitize(events)[0])
    assert (before is None) == (after is None)
    if before and after:
        kept = (InquiryRequest, ToolCallResponse)
        assert [event for event in after.events if isinstance(event, kept)] == [
            event for event in before.events if isinstance(event, kept)
        ]
        assert calls(after.events) == calls(before.events)
