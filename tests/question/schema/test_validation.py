"""Validation of values: the reason and location of each error, in bounded time."""

from __future__ import annotations

from typing import Any

import jsonschema_rs
import pytest
from hypothesis import given, strategies as st

from midturn.question.schema import check_schema
from midturn.question.schema_check import validate
from support.json_values import JSON

SERVICE: dict[str, Any] = {
    "type": "object",
    "properties": {
        "name": {"type": "string", "minLength": 2, "pattern": "^[a-z]+$"},
        "port": {"type": "integer", "minimum": 1, "maximum": 65535},
        "tags": {
            "type": "array",
            "items": {"enum": ["a", "b"]},
            "maxItems": 2,
            "uniqueItems": True,
        },
        "mail": {"type": "string", "format": "email"},
        "owner": {"anyOf": [{"$ref": "#/$defs/person"}, {"type": "null"}]},
    },
    "required": ["name", "port"],
    "additionalProperties": False,
    "$defs": {"person": {"type": "object", "properties": {"age": {"type": "integer"}}}},
}


def reasons(schema: Any, value: Any) -> list[str]:
    assert check_schema(schema) == ()
    return [str(problem) for problem in validate(schema, value)]


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ({"name": "web", "port": 80}, []),
        ({"name": "web", "port": 80.0, "owner": None, "tags": []}, []),
        (3, ["must be an object, not 3."]),
        ({}, ["`name`, `port` are missing."]),
        ({"name": "web", "port": 70_000}, ["/port: must be at most 65535, not 70000."]),
        ({"name": "web", "port": True}, ["/port: must be a whole number, not true."]),
        ({"name": "W", "port": 80}, ["/name: must have at least 2 characters, not 1."]),
        ({"name": "Web", "port": 80}, ['/name: "Web" does not match `pattern` "^[a-z]+$".']),
        (
            {"name": "web", "port": 80, "mail": "me"},
            ['/mail: "me" does not match `format` "email".'],
        ),
        ({"name": "web", "port": 80, "prot": 1}, ["/prot: 1 is not allowed here."]),
        (
            {"name": "web", "port": 80, "tags": ["a", "c"]},
            ['/tags/1: must be one of "a", "b", not "c".'],
        ),
        ({"name": "web", "port": 80, "tags": ["a", "a"]}, ["/tags: the items must be unique."]),
        (
            {"name": "web", "port": 80, "owner": {"age": "9"}},
            ['/owner/age: must be a whole number, not "9".'],
        ),
        ({"name": "web", "port": 80, "owner": 9}, ["/owner: 9 matches none of the alternatives."]),
    ],
)
def test_a_value_is_valid_or_the_reason_names_the_location(value: Any, expected: list[str]) -> None:
    assert reasons(SERVICE, value) == expected


def test_at_most_three_reasons_are_reported() -> None:
    assert len(reasons(SERVICE, {"name": "A", "port": "x", "tags": ["c", "d", "e"], "z": 1})) == 3
    assert len(reasons({"items": {"type": "string"}}, list(range(50)))) == 3


@pytest.mark.parametrize(
    ("schema", "value", "reason"),
    [
        ({"const": 1}, True, "must be 1, not true."),
        ({"not": {"type": "string"}}, "x", '"x" is excluded by the schema.'),
        (
            {"oneOf": [{"minimum": 1}, {"minimum": 2}]},
            3,
            "3 matches 2 alternatives; exactly one is allowed.",
        ),
        (
            {"contains": {"const": 1}, "minContains": 2},
            [1, 2],
            "1 items match `contains`; required: at least 2.",
        ),
        ({"if": {"type": "integer"}, "then": {"minimum": 5}}, 3, "must be at least 5, not 3."),
        (
            {"if": {"type": "integer"}, "else": {"maxLength": 1}},
            "ab",
            "must have at most 1 character, not 2.",
        ),
        ({"dependentRequired": {"a": ["b"]}}, {"a": 1}, "with `a`, `b` is missing."),
        ({"dependentSchemas": {"a": {"required": ["c"]}}}, {"a": 1}, "`c` is missing."),
        (
            {"prefixItems": [{"type": "string"}], "items": False},
            ["a", 1],
            "/1: 1 is not allowed here.",
        ),
        ({"multipleOf": 0.1}, 0.25, "0.25 does not match `multipleOf` 0.1."),
        ({"exclusiveMaximum": 5}, 5, "must be less than 5, not 5."),
        ({"type": ["string", "null"]}, 3, "must be a string or null, not 3."),
        ({"maxProperties": 1}, {"a": 1, "b": 2}, "must have at most 1 property, not 2."),
        (
            {"anyOf": [{"type": "string", "maxLength": 2}, {"type": "integer"}]},
            "abc",
            "must have at most 2 characters, not 3.",
        ),
    ],
)
def test_each_keyword_has_its_message(schema: Any, value: Any, reason: str) -> None:
    assert reasons(schema, value) == [reason]


def test_a_format_is_checked_only_for_strings() -> None:
    assert reasons({"type": "string", "format": "date"}, "yesterday")
    assert reasons({"type": ["string", "null"], "format": "date"}, "yesterday")
    assert not reasons({"type": "string", "format": "date"}, "2026-02-28")
    assert not reasons({"format": "date"}, "yesterday")


def test_values_are_compared_as_json() -> None:
    assert reasons({"enum": [1]}, True)
    assert reasons({"enum": [False]}, 0)
    assert not reasons({"enum": [1]}, 1.0)
    assert reasons({"pattern": "^yes$"}, "yes\n")


def test_a_stored_schema_is_checked_before_use() -> None:
    """A stored question may contain a schema that was never checked."""
    (problem,) = validate({"$ref": "file:///etc/passwd"}, "root")
    assert "/$ref" in problem.message
    assert problem.pointer == ""


SLOW: dict[str, tuple[Any, Any]] = {
    "nested repetition": ({"pattern": "^(a+)+$"}, "a" * 40_000 + "!"),
    "alternatives of alternatives": ({"pattern": "^(a|a)*$"}, "a" * 40_000 + "!"),
    "many ways to match": ({"pattern": "(?:[ab]{1,145}[ab]{1,145}){2}c"}, "ab" * 1_000_000),
    "a pattern on everything": ({"items": {"pattern": r"\s+$"}}, [" " * 1_000] * 1_000),
    "numbers without end": ({"uniqueItems": True}, [10**30 + number for number in range(20_000)]),
    "alternatives times items": (
        {"items": {"anyOf": [{"const": -number} for number in range(1, 150)]}},
        list(range(40_000)),
    ),
    "values times items": (
        {"items": {"enum": [{"a": {"b": number}} for number in range(200)]}},
        [{"a": {"b": -1}}] * 15_000,
    ),
    "reports of alternatives": (
        {"anyOf": [{"anyOf": [{"items": {"type": "string"}}] * 12}] * 12},
        list(range(2_000)),
    ),
    "missing properties": (
        {"required": [f"k{number}" for number in range(1_000)]},
        {f"z{number}": 1 for number in range(40_000)},
    ),
    "fractions": ({"items": {"multipleOf": 1e-300}}, [1e300] * 10_000),
    "equal items": ({"uniqueItems": True}, [{"a": number} for number in range(20_000)]),
    "long texts": ({"items": {"const": "a" * 10_000}}, ["a" * 10_000] * 200),
}


@pytest.mark.parametrize(("schema", "value"), SLOW.values(), ids=SLOW.keys())
@pytest.mark.timeout(120)
def test_any_schema_and_value_are_decided_in_bounded_time(schema: Any, value: Any) -> None:
    """Without the limits, each case would take seconds, minutes or all the memory."""
    assert len(validate(schema, value)) <= 3


@pytest.mark.timeout(120)
def test_a_large_value_is_checked() -> None:
    rows = {
        "type": "array",
        "items": {
            "type": "object",
            "properties": {"id": {"type": "integer"}, "name": {"type": "string"}},
        },
    }
    good = [{"id": number, "name": f"name {number}"} for number in range(5_000)]
    assert validate(rows, good) == ()
    assert [problem.pointer for problem in validate(rows, [*good, {"id": "x"}])] == ["/5000/id"]


def test_a_megabyte_of_text_is_checked_with_a_simple_pattern() -> None:
    assert validate({"type": "string", "pattern": "^[a-z ]+$"}, "word " * 200_000) == ()


def resolve(value: Any, pointer: str) -> Any:
    """Return the value that a JSON pointer refers to. Fails if there is none."""
    for step in pointer.split("/")[1:]:
        value = (
            value[int(step)]
            if hasattr(value, "append")
            else value[step.replace("~1", "/").replace("~0", "~")]
        )
    return value


SIMPLE: st.SearchStrategy[Any] = st.sampled_from(
    [
        *(
            {"type": "string"},
            {"type": ["integer", "null"]},
            {"enum": [1, "a", None]},
            {"const": True},
            {"minimum": 2},
            {"maxLength": 1},
        ),
        *(
            {"required": ["a"]},
            {"minItems": 1},
            {"pattern": "^a"},
            {"uniqueItems": True},
            {"multipleOf": 2},
            {},
            True,
            False,
        ),
    ]
)


def combined(inner: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    several = st.lists(inner, min_size=1, max_size=3)
    shapes: list[dict[str, st.SearchStrategy[Any]]] = [
        {"items": inner},
        {"properties": st.fixed_dictionaries({"a": inner}), "additionalProperties": st.just(False)},
        {"prefixItems": several, "items": inner},
        {"not": inner},
        {"contains": inner},
        {"dependentSchemas": st.fixed_dictionaries({"a": inner})},
        {"if": inner, "then": inner, "else": inner},
        *({keyword: several} for keyword in ("anyOf", "allOf", "oneOf")),
        {"$ref": st.just("#/$defs/d"), "$defs": st.fixed_dictionaries({"d": SIMPLE})},
    ]
    return st.one_of(*(st.fixed_dictionaries(shape) for shape in shapes))


def is_usable(schema: Any) -> bool:
    return check_schema(schema) == ()


COMBINED = st.recursive(SIMPLE, combined, max_leaves=6).filter(is_usable)
VALUES = JSON | st.recursive(
    st.sampled_from(["a", "ab", 1, 2, 3, None, True]),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.sampled_from(["a", "b"]), inner, max_size=2)
    ),
    max_leaves=6,
)


@given(COMBINED, VALUES)
def test_reasons_are_given_if_and_only_if_the_validator_refuses(schema: Any, value: Any) -> None:
    valid = jsonschema_rs.Draft202012Validator(schema, offline=True).is_valid(value)
    found = validate(schema, value)
    assert (found == ()) == valid
    assert len(set(found)) == len(found)


@given(COMBINED, VALUES)
def test_reasons_point_into_the_value(schema: Any, value: Any) -> None:
    for problem in validate(schema, value):
        resolve(value, problem.pointer)
