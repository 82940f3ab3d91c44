"""JSON that a person types, and the skeleton made from a schema."""

from __future__ import annotations

import json

import pytest

from midturn.errors import Problem
from midturn.question.json_value import Json, JsonObject
from midturn.terminal.prompts.answer_text import json_path, problem_text, skeleton


@pytest.mark.parametrize(
    ("pointer", "path"),
    [
        ("", "$"),
        ("/replicas", "$.replicas"),
        ("/hosts/0/name", "$.hosts[0].name"),
        ("/a~1b/c~0d", '$["a/b"]["c~d"]'),
        ("/", '$[""]'),
    ],
)
def test_pointers_are_shown_as_paths(pointer: str, path: str) -> None:
    assert json_path(pointer) == path
    assert problem_text(Problem(pointer, "is wrong")) == f"{path}: is wrong"


@pytest.mark.parametrize(
    ("schema", "shape"),
    [
        (
            {
                "type": "object",
                "properties": {"a": {"type": "string"}, "b": {"type": "integer"}},
                "required": ["a"],
            },
            {"a": ""},
        ),
        (
            {"type": "object", "properties": {"a": {"type": "string"}, "b": {"type": "integer"}}},
            {"a": "", "b": 0},
        ),
        ({"properties": {"a": {"type": ["null", "string"]}}}, {"a": ""}),
        ({"type": "array", "items": {"type": "string"}}, [""]),
        ({"items": {"type": "object", "properties": {"a": {"type": "boolean"}}}}, [{"a": False}]),
        ({"type": "array"}, []),
        ({"type": "object"}, {}),
        ({"anyOf": [{"type": "null"}, {"type": "integer"}]}, 0),
        ({"type": "number", "minimum": 2}, 2),
        ({"type": ["boolean", "null"]}, False),
        ({"enum": ["x", "y"]}, "x"),
        ({"const": 3}, 3),
        ({"type": "string", "default": "d"}, "d"),
        (
            {
                "$ref": "#/$defs/a",
                "$defs": {
                    "a": {
                        "type": "object",
                        "required": ["n"],
                        "properties": {"n": {"type": "null"}},
                    }
                },
            },
            {"n": None},
        ),
        ({"$ref": "#/nowhere"}, None),
        ({}, None),
        ({"type": "object", "required": ["missing"]}, {"missing": None}),
    ],
)
def test_a_skeleton_has_the_required_keys(schema: JsonObject, shape: Json) -> None:
    assert skeleton(schema) == shape


def test_a_recursive_schema_has_a_skeleton() -> None:
    nested: JsonObject = {
        "$ref": "#/$defs/n",
        "$defs": {
            "n": {"type": "object", "required": ["n"], "properties": {"n": {"$ref": "#/$defs/n"}}}
        },
    }

    assert skeleton(nested) is not None


def test_an_exponentially_growing_schema_has_a_bounded_skeleton() -> None:
    """The schema has ten keys, each of which contains the whole schema again."""
    tree: JsonObject = {
        "type": "object",
        "properties": {f"k{number}": {"$ref": "#"} for number in range(10)},
    }

    assert len(json.dumps(skeleton(tree))) < 10_000
