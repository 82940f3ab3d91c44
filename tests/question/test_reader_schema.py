"""JSON Schemas of answers and forms for front ends."""

from __future__ import annotations

from typing import Any

import jsonschema_rs
import pytest
from hypothesis import assume, given

from midturn.errors import AnswerError
from midturn.question.answer_schema import answer_schema
from midturn.question.answer_type import SecretType, SelectOption, When
from midturn.question.json_value import JsonObject
from midturn.question.question import Question
from midturn.question.reader_schema import form_schema, reader_schema
from support.asked_questions import authored_questions
from support.json_values import JSON


def is_valid(schema: JsonObject, value: object) -> bool:
    return jsonschema_rs.is_valid(dict(schema), value)


OTHER = {
    "type": "object",
    "properties": {"other": {"type": "string"}},
    "required": ["other"],
    "additionalProperties": False,
}


@pytest.mark.parametrize(
    ("question", "schema"),
    [
        (Question.boolean("q", "Q?"), {"type": "boolean"}),
        (Question.text("q", "Q?"), {"type": "string"}),
        (Question.select("q", "Q?", ["a", 2]), {"enum": ["a", 2]}),
        (
            Question.select("q", "Q?", ["a", SelectOption(2, "two")]),
            {"oneOf": [{"const": "a", "title": "a"}, {"const": 2, "title": "2: two"}]},
        ),
        (
            Question.select("q", "Q?", ["a"], allow_other=True),
            {"anyOf": [{"enum": ["a"]}, OTHER]},
        ),
        (
            Question.multi_select("q", "Q?", ["a", "b"], min=1, max=1),
            {
                "type": "array",
                "items": {"enum": ["a", "b"]},
                "minItems": 1,
                "maxItems": 1,
                "uniqueItems": True,
            },
        ),
        (
            Question.multi_select("q", "Q?", ["a", SelectOption("b", "B")], allow_other=True),
            {
                "type": "array",
                "items": {
                    "anyOf": [
                        {
                            "oneOf": [
                                {"const": "a", "title": "a"},
                                {"const": "b", "title": "b: B"},
                            ]
                        },
                        OTHER,
                    ]
                },
                "uniqueItems": True,
            },
        ),
        (Question.text("q", "Q?", max_length=3), {"type": "string", "maxLength": 3}),
        (
            Question.text("q", "Q?", optional=True),
            {"anyOf": [{"type": "string"}, {"type": "null"}]},
        ),
    ],
)
def test_schema_has_bounds_and_descriptions(question: Question[Any], schema: object) -> None:
    assert reader_schema(question) == schema


def test_schema_for_models_has_no_bounds() -> None:
    question = Question.multi_select("q", "Q?", [SelectOption("a", "A")], min=1, max=1)

    assert answer_schema(question) == {"type": "array", "items": {"enum": ["a"]}}


def test_a_secret_has_no_schema() -> None:
    with pytest.raises(ValueError, match="secret"):
        reader_schema(Question.secret("q", "Q?"))


@given(authored_questions(), JSON)
def test_valid_answers_fit_the_schema(authored: dict[str, Any], value: Any) -> None:
    question = Question.from_json(authored)
    assume(not isinstance(question.answer_type, SecretType))
    try:
        answer = question.check(value)
    except AnswerError:
        return
    assert is_valid(reader_schema(question), answer)


# Forms
# --------------------------------------------------------------------------------------------------


SHIP = Question.boolean("ship", "Ship it?")
ENV = Question.select("env", "Where?", ["staging"], context="All.", when=When("ship", equals=True))
NOTE = Question.text("note", "A note?", default="-", optional=True)


def test_schema_of_a_form() -> None:
    assert form_schema([SHIP, ENV, NOTE]) == {
        "type": "object",
        "properties": {
            "ship": {"type": "boolean", "title": "Ship it?"},
            "env": {"enum": ["staging"], "title": "Where?", "description": "All."},
            "note": {
                "anyOf": [{"type": "string"}, {"type": "null"}],
                "title": "A note?",
                "default": "-",
            },
        },
        "required": ["ship"],
        "allOf": [
            {
                "if": {"properties": {"ship": {"const": True}}, "required": ["ship"]},
                "then": {"required": ["env"]},
            }
        ],
    }


@pytest.mark.parametrize(
    ("answers", "fits"),
    [
        ({"ship": True, "env": "staging"}, True),
        ({"ship": True}, False),
        ({"ship": False}, True),
        ({"env": "staging"}, False),
        ({"ship": True, "env": "staging", "note": None}, True),
        ({"ship": True, "env": "moon"}, False),
    ],
)
def test_answers_to_a_form_fit_its_schema(answers: dict[str, Any], *, fits: bool) -> None:
    assert is_valid(form_schema([SHIP, ENV, NOTE]), answers) is fits


@pytest.mark.parametrize(
    ("answers", "fits"),
    [
        ({"note": None}, False),
        ({}, False),
        ({"why": "Because."}, True),
        ({"note": "Here."}, True),
    ],
)
def test_a_condition_on_a_skipped_question(answers: dict[str, Any], *, fits: bool) -> None:
    why = Question.text("why", "Why no note?", when=When("note", equals=None))

    assert is_valid(form_schema([NOTE, why]), answers) is fits


def test_a_conditional_optional_question_is_not_required() -> None:
    extra = Question.text("extra", "More?", optional=True, when=When("ship", equals=True))

    assert "allOf" not in form_schema([SHIP, extra])


@pytest.mark.parametrize("optional", [False, True])
def test_references_of_a_schema_point_into_the_form(*, optional: bool) -> None:
    schema = {
        "$defs": {"port": {"type": "integer", "maximum": 9}},
        "type": "object",
        "properties": {
            "port": {"$ref": "#/$defs/port"},
            "whole": {"$ref": "#/properties/port"},
        },
    }
    ports = Question.schema("ports", "Ports?", schema, optional=optional)
    form = form_schema([SHIP, ports])

    assert is_valid(form, {"ship": True, "ports": {"port": 1, "whole": 9}})
    assert not is_valid(form, {"ship": True, "ports": {"port": 10}})
    assert not is_valid(form, {"ship": True, "ports": {"whole": 10}})
