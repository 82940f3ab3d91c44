"""The conversation as a model provider sees it."""

from __future__ import annotations

import msgspec
from hypothesis import given

from midturn.events.provider_view import provider_view, sanitize
from midturn.events.types import (
    INTERRUPTED,
    ChatRequest,
    ChatResponse,
    Event,
    ToolCallRequest,
    ToolCallResponse,
    TurnStart,
    VisibleEvent,
    visible,
)
from midturn.events.window import turns
from support.damaged_streams import STREAMS
from support.tapes import Tape


def test_only_messages_and_calls_are_sent() -> None:
    tape = Tape()
    tape.start()
    asked = tape.user("Ship it")
    call = tape.call("call_1")
    tape.decide(tape.wait(call))
    tape.answer(tape.ask(call))
    result = tape.result(call)
    said = tape.model("Shipped.")
    tape.end()
    assert provider_view(tape.events) == [asked, call, result, said]


def test_a_call_of_the_open_turn_gets_a_synthetic_response_in_the_copy() -> None:
    tape = Tape()
    tape.start()
    call = tape.call("call_1")
    tape.ask(call)
    view = provider_view(tape.events)
    assert view[0] == call
    synthetic = view[1]
    assert isinstance(synthetic, ToolCallResponse)
    assert (synthetic.call, synthetic.content, synthetic.is_error) == (
        call.event_id,
        INTERRUPTED,
        True,
    )


def test_the_synthetic_response_is_the_same_each_time() -> None:
    """A provider's cache compares every byte."""
    tape = Tape()
    tape.start()
    tape.call("call_1")
    assert provider_view(tape.events) == provider_view(tape.events)


def test_a_response_that_comes_too_late_moves_to_its_call() -> None:
    tape = Tape()
    tape.start()
    call = tape.call("call_1")
    said = tape.model("Meanwhile …")
    late = tape.result(call)
    assert provider_view(tape.events) == [call, late, said]


def test_a_response_that_belongs_to_no_call_is_left_out() -> None:
    tape = Tape()
    tape.start()
    call = tape.call("call_1")
    result = tape.result(call)
    tape.result(call, "once more")
    assert provider_view(tape.events) == [call, result]


def test_one_id_may_be_used_again_in_a_later_cycle() -> None:
    tape = Tape()
    tape.start()
    first = tape.call("call_1")
    one = tape.result(first, "one")
    second = tape.call("call_1")
    two = tape.result(second, "two")
    assert provider_view(tape.events) == [first, one, second, two]


def test_the_parts_of_one_model_response_stay_together() -> None:
    """A text between two calls of one batch does not end the cycle."""
    tape = Tape()
    tape.start()
    first = tape.call("call_1", more=2)
    said = tape.record(ChatResponse(message="And this one:", more=1))
    second = tape.call("call_2")
    one, two = tape.result(first), tape.result(second)
    assert provider_view(tape.events) == [first, said, second, one, two]


@given(STREAMS)
def test_every_call_has_one_response_before_the_next_message(events: list[Event]) -> None:
    for window in turns(events):
        _check_cycles(provider_view([TurnStart(event_id="start"), *window.events]))


def _check_cycles(view: list[VisibleEvent]) -> None:
    due: list[str] = []
    responded = False
    for event in view:
        match event:
            case ToolCallRequest():
                assert not (responded and due), (
                    "a call of the next response stands before the results of this one"
                )
                due, responded = [*due, event.id], False
            case ToolCallResponse():
                assert event.id in due, "a response without its call"
                due.remove(event.id)
                responded = True
            case ChatRequest():
                assert not due, "the user speaks before the results are there"
            case _:
                pass
    assert not due, "a call without a response"


@given(STREAMS)
def test_invisible_events_are_not_sent_and_messages_are_kept(events: list[Event]) -> None:
    view = provider_view(events)
    assert all(map(visible, view))
    kept = [event for event in view if not isinstance(event, ToolCallResponse)]
    assert kept == [
        event for event in events if visible(event) and not isinstance(event, ToolCallResponse)
    ]


@given(STREAMS)
def test_sanitized_stream_is_the_same_for_a_provider(events: list[Event]) -> None:
    """Every event has an ID, as after reading a file.

    The results of one cycle may be in another order.
    """
    numbered = [
        msgspec.structs.replace(event, event_id=event.event_id or f"line:{number}")
        for number, event in enumerate(events)
    ]
    assert sorted(map(repr, provider_view(sanitize(numbered)[0]))) == sorted(
        map(repr, provider_view(numbered))
    )
