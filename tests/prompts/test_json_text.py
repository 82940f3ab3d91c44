"""JSON that a person types, and the shape that a schema asks for."""

from __future__ import annotations

import pytest

from midturn.core.json_value import Json, JsonObject
from midturn.errors import Problem
from midturn.prompts.json_text import NotJson, json_path, problem_text, read_json, skeleton


def test_json_is_read() -> None:
    assert read_json('{"a": [1, 2.5, null, true, "本"]}') == {"a": [1, 2.5, None, True, "本"]}


@pytest.mark.parametrize(
    ("text", "message", "offset"),
    [
        ('{"a": 1', "not valid JSON: Expecting ',' delimiter (line 1, column 8)", 7),
        ('{"a": {"b": 1, "b": 2}}', 'the key "b" stands twice in one object', None),
        ("[Infinity]", "Infinity is no JSON; use a number or null", None),
        ("-1e400", "-1e400 is too large for a number", None),
    ],
)
def test_what_is_no_json_is_refused_with_its_place(text: str, message: str, offset: int | None) -> None:
    with pytest.raises(NotJson) as caught:
        read_json(text)

    assert str(caught.value) == message
    assert caught.value.offset == offset


@pytest.mark.parametrize(
    ("pointer", "path"),
    [("", "$"), ("/replicas", "$.replicas"), ("/hosts/0/name", "$.hosts[0].name"), ("/a~1b/c~0d", '$["a/b"]["c~d"]'), ("/", '$[""]')],
)
def test_pointers_are_shown_as_paths(pointer: str, path: str) -> None:
    assert json_path(pointer) == path
    assert problem_text(Problem(pointer, "is wrong")) == f"{path}: is wrong"


@pytest.mark.parametrize(
    ("schema", "shape"),
    [
        ({"type": "object", "properties": {"a": {"type": "string"}, "b": {"type": "integer"}}, "required": ["a"]}, {"a": ""}),
        ({"type": "array", "items": {"type": "string"}}, []),
        ({"type": "number", "minimum": 2}, 2),
        ({"type": ["boolean", "null"]}, False),
        ({"enum": ["x", "y"]}, "x"),
        ({"const": 3}, 3),
        ({"type": "string", "default": "d"}, "d"),
        ({"$ref": "#/$defs/a", "$defs": {"a": {"type": "object", "required": ["n"], "properties": {"n": {"type": "null"}}}}}, {"n": None}),
        ({"$ref": "#/nowhere"}, None),
        ({}, None),
        ({"type": "object", "required": ["missing"]}, {"missing": None}),
    ],
)
def test_a_skeleton_has_the_required_keys(schema: JsonObject, shape: Json) -> None:
    assert skeleton(schema) == shape


def test_a_schema_that_refers_to_itself_has_a_shape_too() -> None:
    nested: JsonObject = {
        "$ref": "#/$defs/n",
        "$defs": {"n": {"type": "object", "required": ["n"], "properties": {"n": {"$ref": "#/$defs/n"}}}},
    }

    assert skeleton(nested) is not None
