from __future__ import annotations

from hypothesis import given, strategies as st

from midturn.events.types import ChatRequest, ChatResponse, Event, ToolCallRequest, ToolCallResponse
from midturn.runtime.side_request import LEFT_OUT, size, trimmed


def turn(number: int, words: int = 20) -> list[Event]:
    return [
        ChatRequest(content=f"ask {number} " + "word " * words),
        ChatResponse(reasoning="hm"),
        ToolCallRequest(event_id=f"c{number}", id="x", name="t"),
        ToolCallResponse(id="x", call=f"c{number}", content="result " * words),
        ChatResponse(message="done " * words),
    ]


def many(turns: int) -> list[Event]:
    return [event for number in range(turns) for event in turn(number)]


def test_a_fitting_history_is_unchanged() -> None:
    events = many(3)

    assert trimmed(events, size(events)) is events


def test_the_oldest_events_are_removed_and_replaced_by_a_note() -> None:
    events = many(10)

    kept = trimmed(events, size(events) // 2)

    assert kept[0] == LEFT_OUT
    assert list(kept[1:]) == events[-len(kept) + 1 :]
    assert size(kept[1:]) <= size(events) // 2


def test_a_long_turn_keeps_the_users_message() -> None:
    events = [
        ChatRequest(content="the task"),
        *[event for number in range(20) for event in turn(number)[1:]],
    ]

    kept = trimmed(events, size(events) // 3)

    assert list(kept[:2]) == [LEFT_OUT, ChatRequest(content="the task")]


def test_uncuttable_content_is_kept_even_if_too_long() -> None:
    events = turn(1, words=1_000)

    assert list(trimmed(events, 10))[-1] == events[-1]


@given(turns=st.integers(1, 12), room=st.integers(1, 4_000))
def test_no_call_is_separated_from_its_result(turns: int, room: int) -> None:
    kept = trimmed(many(turns), room)

    calls = [event.event_id for event in kept if isinstance(event, ToolCallRequest)]
    results = [event.call for event in kept if isinstance(event, ToolCallResponse)]
    assert calls == results


@given(turns=st.integers(8, 40))
def test_the_cut_moves_in_coarse_steps(turns: int) -> None:
    """Most requests of a growing turn begin with the same events and hit the cache."""
    room = size(many(8))
    firsts = {trimmed(many(turns) + turn(99)[: length + 1], room)[1] for length in range(5)}

    assert len(firsts) <= 2
