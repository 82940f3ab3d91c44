from __future__ import annotations

from hypothesis import given, strategies as st

from midturn.events.types import ChatRequest, ChatResponse, Event, ToolCallRequest, ToolCallResponse
from midturn.models.transcript import (
    TAIL,
    CallResult,
    ModelCall,
    ModelMessage,
    ModelWords,
    UserMessage,
    UserWords,
    transcript,
    with_tail,
    words_in_result,
)

ASK = ChatRequest(content="Read the plan")
CALL = ToolCallRequest(
    event_id="c", id="call_1", name="fs_read_file", arguments={"path": "plan.md"}
)
RESULT = ToolCallResponse(id="call_1", call="c", content="the plan")


def test_events_become_messages_by_turn() -> None:
    events = [
        ASK,
        ChatResponse(reasoning="hm"),
        ChatResponse(message="I will"),
        CALL,
        RESULT,
        ChatRequest(content="Thanks"),
    ]

    assert transcript(events) == [
        UserMessage((UserWords("Read the plan"),)),
        ModelMessage(
            (
                ModelWords("hm", thought=True),
                ModelWords("I will"),
                ModelCall("call_1", "fs_read_file", {"path": "plan.md"}),
            )
        ),
        UserMessage((CallResult("call_1", "fs_read_file", "the plan", False), UserWords("Thanks"))),
    ]


def test_a_structured_answer_is_written_as_json() -> None:
    assert transcript([ChatResponse(structured={"a": None})]) == [
        ModelMessage((ModelWords('{"a":null}'),))
    ]


def test_invalid_arguments_are_quoted() -> None:
    (message,) = transcript([ToolCallRequest(id="x", name="t", arguments="{oops")])

    assert message == ModelMessage((ModelCall("x", "t", {"invalid_arguments": "{oops"}),))


def test_legacy_results_are_matched_by_call_id() -> None:
    legacy = [
        ASK,
        ToolCallRequest(id="call_1", name="t"),
        ToolCallResponse(id="call_1", content="ok"),
    ]

    assert transcript(legacy)[-1] == UserMessage((CallResult("call_1", "t", "ok", False),))


@given(st.lists(st.sampled_from(["same", "same_2", "other"]), max_size=8))
def test_call_ids_are_unique_for_any_provider(ids: list[str]) -> None:
    events: list[Event] = []
    for number, used in enumerate(ids):
        events += [
            ToolCallRequest(event_id=f"c{number}", id=used, name="t"),
            ToolCallResponse(id=used, call=f"c{number}", content=str(number)),
        ]

    parts = [part for message in transcript(events) for part in message.parts]
    calls = [part.id for part in parts if isinstance(part, ModelCall)]
    assert len(set(calls)) == len(calls)
    assert [part.id for part in parts if isinstance(part, CallResult)] == calls


def test_the_schema_instruction_ends_the_last_user_message() -> None:
    demand = f'{TAIL}\n{{"type":"object"}}'

    assert with_tail([UserMessage((UserWords("Which?"),))], {"type": "object"}) == [
        UserMessage((UserWords(f"Which?\n\n{demand}"),))
    ]
    assert with_tail([ModelMessage((ModelWords("x"),))], {"type": "object"})[-1] == UserMessage(
        (UserWords(demand),)
    )
    after_result = with_tail(
        [UserMessage((CallResult("i", "t", "ok", False),))], {"type": "object"}
    )
    assert after_result == [UserMessage((CallResult("i", "t", "ok", False), UserWords(demand)))]


def test_trailing_text_moves_into_the_last_result() -> None:
    moved = words_in_result(transcript([CALL, RESULT, ChatRequest(content="Which?")]))

    assert moved[-1] == UserMessage(
        (CallResult("call_1", "fs_read_file", "the plan\n\nWhich?", False),)
    )
    assert words_in_result(transcript([ASK])) == transcript([ASK])
    assert words_in_result([]) == []
