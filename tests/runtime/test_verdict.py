from __future__ import annotations

import pytest

from midturn.exchange import (
    Finished,
    Part,
    ReasoningPart,
    StopReason,
    StructuredPart,
    TextPart,
    ToolCallPart,
)
from midturn.runtime.side_responder import Right, Wrong, read_answer


def read(*parts: Part, stop: StopReason = "stop") -> Right | Wrong:
    return read_answer(Finished(parts, stop_reason=stop))


@pytest.mark.parametrize(
    "text",
    [
        '{"reason": "fine", "answer": true}',
        '  {"answer": true, "reason": " fine "}\n',
        '```json\n{"reason": "fine", "answer": true}\n```',
        '```\n{"reason": "fine", "answer": true}```\n',
    ],
)
def test_a_text_with_one_json_object_is_read(text: str) -> None:
    assert read(ReasoningPart("hm"), TextPart(text)) == Right(True, "fine")


def test_a_structured_value_is_read() -> None:
    assert read(StructuredPart({"reason": "fine", "answer": ["a"]}, {"k": 1})) == Right(
        ["a"], "fine"
    )


def test_a_missing_or_blank_reason_is_null() -> None:
    assert read(StructuredPart({"answer": 1})) == Right(1, None)
    assert read(StructuredPart({"answer": 1, "reason": "  "})) == Right(1, None)
    assert read(StructuredPart({"answer": 1, "reason": None})) == Right(1, None)


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ('I would say {"reason": "x", "answer": true}', "not a JSON object"),
        ('{"answer": true} is what they want; {"answer": false}', "not a JSON object"),
        (
            '{"reason": "x", "answer": false, "answer": true}',
            'the key "answer" appears twice in one object',
        ),
        ('{"reason": "x", "answer": NaN}', "NaN is not JSON"),
        ('{"reason": "x"}', "the key `answer` is missing"),
        ('{"reason": "x", "answer": true, "apply": true}', "the key `apply` does not belong in it"),
        ('{"reason": 3, "answer": true}', "`reason` is not a string"),
        ("true", "not a JSON object"),
        ("[" * 100_000, "not a JSON object"),
        (" ", "it is empty"),
    ],
)
def test_other_responses_are_wrong(text: str, problem: str) -> None:
    verdict = read(TextPart(text))

    assert isinstance(verdict, Wrong)
    assert problem in verdict.problem


def test_two_different_answers_are_wrong() -> None:
    """Contradictory answers approve nothing. The same answer twice is accepted."""
    yes, no = (
        StructuredPart({"reason": "fine", "answer": True}),
        StructuredPart({"reason": "risky", "answer": False}),
    )

    assert read(yes, no) == Wrong("it gives several answers, and they differ")
    assert read(yes, StructuredPart({"reason": "really fine", "answer": True})) == Right(
        True, "fine"
    )


def test_a_call_is_wrong_even_with_an_answer() -> None:
    verdict = read(TextPart('{"reason": "x", "answer": true}'), ToolCallPart("c", "deploy", {}))

    assert verdict == Wrong("it called the tool `deploy` in place of an answer")


def test_a_refusal_and_a_truncated_response_are_named() -> None:
    assert read(TextPart("I cannot"), stop="refusal") == Wrong("the model refused to answer")
    assert read(stop="length") == Wrong("it was cut off before it began")
