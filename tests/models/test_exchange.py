from __future__ import annotations

from midturn.events.types import ChatRequest, ChatResponse, Event, ToolCallRequest
from midturn.exchange import Finished, Spent, TextPart, ToolCallPart, Usage, spent_in


def test_the_cost_of_a_response_is_in_its_last_part() -> None:
    finished = Finished(
        (TextPart("a"), ToolCallPart("c", "t", {}, metadata={"scripted": {"next": 1}})),
        Usage(120, 3),
    )

    first, last = finished.counted("test/one")

    assert first == TextPart("a")
    assert last.metadata == {
        "scripted": {"next": 1},
        "usage": {"input_tokens": 120, "output_tokens": 3, "model": "test/one"},
    }


def test_a_response_without_cost_is_unchanged() -> None:
    free = Finished((TextPart("a"),))

    assert free.counted("m") is free.parts
    assert Finished((), Usage(1)).counted("m") == ()


def test_usage_is_summed() -> None:
    assert Usage(1, 2, 3, 4) + Usage(10, 20, 30, 40) == Usage(11, 22, 33, 44)


def test_a_response_of_several_parts_is_one_request_and_invalid_numbers_count_as_zero() -> None:
    cost = Spent("test/one", Usage(120, 3))
    turn: list[Event] = [
        ChatRequest(content="Hello."),
        ChatResponse(message="I will."),
        ToolCallRequest(id="c", name="t", arguments={}, metadata=cost.metadata),
        ChatRequest(content="And then?"),
        ChatResponse(
            message="Done.", metadata={"usage": {"input_tokens": "many", "model": "test/one"}}
        ),
    ]

    assert [*spent_in(turn)] == [cost, Spent("", Usage())]
