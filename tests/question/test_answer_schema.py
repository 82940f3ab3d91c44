"""The schema of `{"reason", "answer"}`."""

from __future__ import annotations

from typing import Any

import jsonschema_rs
import msgspec
import pytest
from hypothesis import given

from midturn.errors import AnswerError
from midturn.question.answer_schema import answer_schema
from midturn.question.answer_type import SecretType, SelectOption
from midturn.question.question import Question
from midturn.runtime.side_responder import inquiry_schema
from support.asked_questions import authored_questions
from support.json_values import JSON

HEAD = (
    '{"type":"object","properties":{"reason":{"type":"string","description":"Brief explanation of'
    ' why you chose this answer."},"answer":'
)
TAIL = '},"required":["reason","answer"],"additionalProperties":false}'


@pytest.mark.parametrize(
    ("question", "answer"),
    [
        (Question.boolean("q", "Q?"), '{"type":"boolean"}'),
        (Question.select("q", "Q?", ["a", SelectOption(2, "two"), True]), '{"enum":["a",2,true]}'),
        (
            Question.multi_select("q", "Q?", ["a", "b"], min=1),
            '{"type":"array","items":{"enum":["a","b"]}}',
        ),
        (Question.text("q", "Q?"), '{"type":"string"}'),
        (
            Question.schema("q", "Q?", {"type": "integer", "minimum": 1}),
            '{"type":"integer","minimum":1}',
        ),
        (Question.text("q", "Q?", optional=True), '{"anyOf":[{"type":"string"},{"type":"null"}]}'),
        (
            Question.select("q", "Q?", ["a"], allow_other=True),
            '{"anyOf":[{"enum":["a"]},{"type":"object","properties":{"other":{"type":"string"}},"required":["other"],"additionalProperties":false}]}',
        ),
    ],
)
def test_the_schema_is_stable_to_the_byte(question: Question[Any], answer: str) -> None:
    assert msgspec.json.encode(inquiry_schema(question)).decode() == HEAD + answer + TAIL
    assert msgspec.json.encode(answer_schema(question)).decode() == answer


def test_the_schema_depends_only_on_the_type() -> None:
    """So the next question of the same type hits the provider's cache."""
    one = Question.boolean("a", "A?", default=True, context="x", exclusive=True)
    assert inquiry_schema(one) == inquiry_schema(Question.boolean("b", "B?"))


def test_definitions_move_to_the_top_and_references_are_updated() -> None:
    schema = {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "type": "object",
        "properties": {
            "a": {"$ref": "#/$defs/d"},
            "b": {"$ref": "#/properties/a"},
            "c": {"const": {"$ref": "#/properties/a"}},
        },
        "allOf": [{"not": {"required": ["z"]}}],
        "$defs": {"d": {"type": "integer"}},
    }
    for question in (
        Question.schema("q", "Q?", schema),
        Question.schema("q", "Q?", schema, optional=True),
    ):
        whole = inquiry_schema(question)
        assert whole["$defs"] == schema["$defs"]
        validator = jsonschema_rs.Draft202012Validator(dict(whole), offline=True)
        assert validator.is_valid({"reason": "", "answer": {"a": 1, "b": 2}})
        assert not validator.is_valid({"reason": "", "answer": {"a": 1, "b": "2"}})
        assert validator.is_valid({"reason": "", "answer": {"c": {"$ref": "#/properties/a"}}})
        assert validator.is_valid({"reason": "", "answer": None}) is question.optional


def test_a_secret_has_no_answer_schema() -> None:
    with pytest.raises(ValueError, match="cannot be asked for a secret"):
        inquiry_schema(Question.secret("q", "Q?"))


@given(authored_questions(), JSON)
def test_a_valid_answer_is_valid_under_the_schema(authored: dict[str, Any], value: Any) -> None:
    question = Question.from_json(authored)
    if isinstance(question.answer_type, SecretType):
        return
    try:
        answer = question.check(value)
    except AnswerError:
        return
    assert jsonschema_rs.Draft202012Validator(
        dict(inquiry_schema(question)), offline=True
    ).is_valid({"reason": "r", "answer": answer})
