from __future__ import annotations

import asyncio
import json
from collections.abc import Sequence
from pathlib import Path

import pytest

from midturn.errors import ModelError, ScriptError
from midturn.events.types import (
    ChatRequest,
    ChatResponse,
    Event,
    InquiryAnswered,
    ToolCallResponse,
    TurnStart,
)
from midturn.exchange import (
    Finished,
    InquiryAsked,
    ModelRequest,
    ReasoningDelta,
    StructuredPart,
    TextDelta,
    TextPart,
    ToolCallPart,
)
from midturn.models.scripted import ScriptedModel
from midturn.question.answer_type import BooleanType
from midturn.question.persisted_question import PersistedQuestion
from support.clocks import FakeClock
from support.exchanges import ask, finish, recorded

TWO = [{"text": "one"}, {"text": "two"}]


def after(*events: Event, conversation: str = "1") -> ModelRequest:
    return ModelRequest(events=events, recorded=events, conversation=conversation)


def inquiry(
    tool: str = "deploy", question: str = "confirm", events: Sequence[Event] = ()
) -> ModelRequest:
    asked = InquiryAsked(
        tool, question, PersistedQuestion(text="Deploy?", answer_type=BooleanType())
    )
    return ModelRequest(recorded=events, conversation="1", inquiry=asked)


def text_of(finished: Finished) -> str:
    return "".join(part.text for part in finished.parts if isinstance(part, TextPart))


def test_replies_come_in_order() -> None:
    model = ScriptedModel(TWO)

    assert [text_of(finish(model)), text_of(finish(model))] == ["one", "two"]


def test_every_part_of_a_reply_carries_the_next_position() -> None:
    model = ScriptedModel([{"reasoning": "hm", "text": "one", "calls": [{"name": "deploy"}]}])

    parts = finish(model).parts

    assert [part.metadata for part in parts] == [{"scripted": {"next": 1}}] * 3


def test_a_new_object_continues_at_the_recorded_position(tmp_path: Path) -> None:
    path = tmp_path / "s.json"
    path.write_text(json.dumps({"replies": TWO}))
    first = finish(ScriptedModel.from_file(path))

    assert text_of(finish(ScriptedModel.from_file(path), after(*recorded(first.parts)))) == "two"


def test_a_partially_shown_reply_counts_as_used() -> None:
    """Each delta carries the position, so that an interrupted response also keeps it."""
    deltas = [
        event
        for event in ask(ScriptedModel([{"text": "a long answer", "chunk": 4}]))
        if isinstance(event, TextDelta)
    ]

    assert [delta.text for delta in deltas] == ["a lo", "ng a", "nswe", "r"]
    assert {json.dumps(delta.metadata) for delta in deltas} == {'{"scripted": {"next": 1}}'}


def test_two_conversations_use_the_script_independently() -> None:
    model = ScriptedModel(TWO)

    assert text_of(finish(model, after(TurnStart(), conversation="1"))) == "one"
    assert text_of(finish(model, after(TurnStart(), conversation="2"))) == "one"


def test_a_shorter_record_is_treated_as_another_conversation() -> None:
    model = ScriptedModel(TWO)
    finish(model, after(TurnStart(), ChatRequest(content="hello")))

    assert text_of(finish(model, after(TurnStart()))) == "one"


def test_a_reply_lost_with_a_cancelled_turn_is_repeated() -> None:
    """An error leaves no record, but it still consumes its entry."""
    model = ScriptedModel([{"error": {"message": "down", "status": 503}}, *TWO])
    asked = after(TurnStart(), ChatRequest(content="hello"))

    with pytest.raises(ModelError, match="down"):
        finish(model, asked)
    first = finish(model, asked)
    assert [text_of(first), text_of(finish(model, asked))] == ["one", "one"]
    assert text_of(finish(model, after(*asked.recorded, *recorded(first.parts)))) == "two"


def test_the_end_of_the_script_is_reported() -> None:
    model = ScriptedModel([{"text": "one"}])
    finish(model)

    with pytest.raises(
        ScriptError,
        match=(
            r"The script has no more replies: it has 1 reply, and the conversation requests reply"
            r" 2\. Add"
        ),
    ) as caught:
        finish(model)

    assert not caught.value.transient


def test_an_unexpected_message_is_reported_with_the_expected_one(tmp_path: Path) -> None:
    path = tmp_path / "s.json"
    path.write_text('{"replies": [{"expect": "applied", "text": "Done."}]}')
    request = after(
        ChatRequest(content="applied"),
        ChatResponse(message="hm"),
        ToolCallResponse(id="c", content="rejected"),
    )

    with pytest.raises(ScriptError) as caught:
        finish(ScriptedModel.from_file(path), request)

    assert str(path) in str(caught.value)
    assert "contains:\napplied\nThe newest message is:\nrejected" in str(caught.value)


def test_results_of_concurrent_calls_are_one_message() -> None:
    results = [
        ToolCallResponse(id="a", content="applied"),
        ToolCallResponse(id="b", content="rejected"),
    ]

    assert (
        text_of(finish(ScriptedModel([{"expect": "applied", "text": "Done."}]), after(*results)))
        == "Done."
    )


def test_an_error_consumes_its_entry_and_says_whether_it_is_retryable() -> None:
    model = ScriptedModel(
        [{"error": {"status": 529, "message": "overloaded", "retry_after": 0.05}}, {"text": "back"}]
    )

    with pytest.raises(ModelError) as caught:
        finish(model, after(TurnStart()))

    assert (
        str(caught.value),
        caught.value.status,
        caught.value.retry_after,
        caught.value.transient,
    ) == ("overloaded", 529, 0.05, True)
    assert text_of(finish(model, after(TurnStart()))) == "back"


@pytest.mark.parametrize(
    ("status", "transient"),
    [
        (408, True),
        (409, True),
        (429, True),
        (500, True),
        (529, True),
        (None, True),
        (400, False),
        (401, False),
        (404, False),
    ],
)
def test_the_status_decides_whether_an_error_is_retryable(
    status: int | None,
    transient: bool,  # noqa: FBT001 (the expected value)
) -> None:
    model = ScriptedModel([{"error": {"message": "x"} if status is None else {"status": status}}])

    with pytest.raises(ModelError) as caught:
        finish(model)

    assert caught.value.transient is transient
    assert not isinstance(caught.value, ScriptError)


def test_text_before_an_error_is_shown_first() -> None:
    async def watch() -> None:
        events = ScriptedModel([{"text": "I will", "error": {"status": 500}}]).stream(
            ModelRequest()
        )
        assert await anext(events) == TextDelta("I will", {"scripted": {"next": 1}})
        await anext(events)

    with pytest.raises(ModelError):
        asyncio.run(watch())


def test_calls_without_an_id_get_the_next_free_id_of_the_conversation() -> None:
    calls = [{"name": "a"}, {"name": "b", "id": "call_2"}, {"name": "c"}]
    first = finish(ScriptedModel([{"calls": calls}])).parts
    second = finish(
        ScriptedModel([{"text": "-"}, {"calls": [{"name": "d"}]}]), after(*recorded(first))
    ).parts

    assert [part.id for part in (*first, *second) if isinstance(part, ToolCallPart)] == [
        "call_1",
        "call_2",
        "call_3",
        "call_4",
    ]


def test_a_reply_with_calls_stops_for_the_calls() -> None:
    answer = finish(
        ScriptedModel(
            [{"calls": [{"name": "a", "arguments": {"x": 1}}], "usage": {"output_tokens": 3}}]
        )
    )

    assert answer.stop_reason == "tool_calls"
    assert answer.usage.output_tokens == 3


def test_arguments_can_imitate_broken_json() -> None:
    (call,) = finish(ScriptedModel([{"calls": [{"name": "a", "arguments": "{x"}]}])).parts

    assert isinstance(call, ToolCallPart)
    assert call.arguments == "{x"
    assert call.problem


def test_a_schema_turns_a_json_text_into_a_value() -> None:
    request = ModelRequest(schema={"type": "object"})

    assert isinstance(
        finish(ScriptedModel([{"text": '{"a": 1}'}]), request).parts[0], StructuredPart
    )
    assert isinstance(finish(ScriptedModel([{"text": "no json"}]), request).parts[0], TextPart)


def test_the_delay_of_a_reply_is_divided_among_its_deltas() -> None:
    clock = FakeClock()

    events = ask(
        ScriptedModel(
            [{"reasoning": "hm", "text": "abcd", "chunk": 2, "delay_ms": 300}], sleep=clock.sleep
        )
    )

    assert [type(event) for event in events] == [ReasoningDelta, TextDelta, TextDelta, Finished]
    assert clock.slept == pytest.approx([0.1, 0.1, 0.1])


def test_a_cancelled_reply_is_repeated() -> None:
    model = ScriptedModel([{"text": "one", "delay_ms": 60_000}])

    async def cancel() -> None:
        async with asyncio.timeout(0.01):
            await anext(model.stream(after(TurnStart())))

    with pytest.raises(TimeoutError):
        asyncio.run(cancel())
    model._sleep = FakeClock().sleep
    assert text_of(finish(model, after(TurnStart()))) == "one"


def test_the_first_matching_entry_answers_and_its_last_answer_repeats() -> None:
    model = ScriptedModel(
        inquiries=[
            {"tool": "other", "answers": [{"answer": 0}]},
            {
                "tool": "deploy",
                "question": "*",
                "answers": [{"reason": "a", "answer": 1}, {"answer": 2}],
            },
            {"answers": [{"answer": 3}]},
        ]
    )

    given = [finish(model, inquiry()).parts[0] for _ in range(3)]

    assert [part.value for part in given if isinstance(part, StructuredPart)] == [
        {"reason": "a", "answer": 1},
        {"answer": 2},
        {"answer": 2},
    ]
    assert [part.metadata for part in given] == [
        {"scripted": {"next": place, "inquiry": 1}} for place in (1, 2, 3)
    ]


def test_answers_continue_after_a_restart_and_do_not_consume_replies() -> None:
    response = InquiryAnswered(id="i", answer=1, metadata={"scripted": {"next": 1, "inquiry": 0}})
    model = ScriptedModel(TWO, [{"answers": [{"answer": 1}, {"answer": 2}]}])

    (given,) = finish(model, inquiry(events=[response])).parts

    assert isinstance(given, StructuredPart)
    assert given.value == {"answer": 2}
    assert text_of(finish(model, after(response))) == "one"


def test_concurrent_questions_get_different_answers() -> None:
    model = ScriptedModel(
        inquiries=[{"answers": [{"answer": 1, "delay_ms": 1}, {"answer": 2, "delay_ms": 1}]}]
    )

    async def one() -> object:
        return [event async for event in model.stream(inquiry())][-1]

    async def both() -> list[object]:
        return [*await asyncio.gather(one(), one())]

    values = [
        part.value
        for last in asyncio.run(both())
        if isinstance(last, Finished)
        for part in last.parts
        if isinstance(part, StructuredPart)
    ]
    assert values == [{"answer": 1}, {"answer": 2}]


def test_a_failing_answer_carries_its_position() -> None:
    model = ScriptedModel(
        inquiries=[{"answers": [{"error": {"status": 500, "message": "boom"}}, {"answer": 1}]}]
    )

    with pytest.raises(ModelError, match="boom") as caught:
        finish(model, inquiry())

    assert caught.value.metadata == {"scripted": {"next": 1, "inquiry": 0}}


def test_a_question_without_an_entry_is_named_in_the_error() -> None:
    with pytest.raises(ScriptError, match=r"has no answer for `confirm` of `deploy`"):
        finish(ScriptedModel(inquiries=[{"tool": "other", "answers": [{"answer": 1}]}]), inquiry())


def test_unknown_metadata_does_not_change_the_position() -> None:
    events = [
        ChatResponse(message="x", metadata={"scripted": {"next": "7"}}),
        ChatResponse(message="x", metadata={"scripted": 3}),
    ]

    assert text_of(finish(ScriptedModel(TWO), after(*events))) == "one"
