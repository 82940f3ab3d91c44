"""The supported subset of JSON Schema."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings, strategies as st

from midturn.question.answer_schema import KEYWORDS, REFUSED
from midturn.question.schema import check_schema
from midturn.question.schema_check import validate
from support.json_values import JSON


def nested(levels: int) -> dict[str, Any]:
    schema: dict[str, Any] = {}
    for _ in range(levels - 1):
        schema = {"properties": {"a": schema}}
    return schema


def exponential_schema(levels: int) -> dict[str, Any]:
    """Return a schema whose references double in number at each level when they are expanded."""
    definitions: dict[str, Any] = {"d0": {}}
    for level in range(1, levels + 1):
        definitions[f"d{level}"] = {
            "anyOf": [{"$ref": f"#/$defs/d{level - 1}"}, {"$ref": f"#/$defs/d{level - 1}"}]
        }
    return {"$ref": f"#/$defs/d{levels}", "$defs": definitions}


ACCEPTED: dict[str, Any] = {
    "anything": {},
    "the dialect": {"$schema": "https://json-schema.org/draft/2020-12/schema"},
    "an object": {
        "type": "object",
        "properties": {"a": {"type": ["string", "null"]}},
        "required": ["a"],
        "additionalProperties": False,
    },
    "references": {
        "properties": {"a": {"$ref": "#/$defs/x y~1"}},
        "$defs": {"x y/": {"type": "integer"}},
    },
    "an encoded reference": {"$ref": "#/$defs/x%20y", "$defs": {"x y": {"type": "integer"}}},
    "a reference to a property": {
        "properties": {"a": {"type": "integer"}, "b": {"$ref": "#/properties/a"}}
    },
    "former definitions": {"$ref": "#/definitions/a", "definitions": {"a": {}}},
    "two references to one place": {
        "allOf": [{"$ref": "#/$defs/a"}, {"$ref": "#/$defs/a"}],
        "$defs": {"a": {}},
    },
    "values that look like keywords": {
        "const": {"$ref": "http://x"},
        "default": {"$id": 1},
        "enum": [{"patternProperties": 1}],
    },
    "properties named like keywords": {
        "properties": {"$ref": {"type": "string"}, "$id": {}, "patternProperties": {}}
    },
    "8 levels": nested(8),
    "200 schemas": {"anyOf": [{}] * 199},
    "100 properties": {"properties": {f"p{number}": {} for number in range(100)}},
    "200 values": {"enum": list(range(200))},
    "a long pattern": {"pattern": "a" * 256},
    "256 kinds of text": {"pattern": r"^(?:[a-z]{1,50}\.){2}\p{L}+$"},
    "a text of up to 200 characters": {"pattern": "^.{1,200}$"},
    "one pattern everywhere": {
        "properties": {f"p{number}": {"pattern": r"^\p{L}+$"} for number in range(100)}
    },
    "510 expansions": exponential_schema(7),
    "16 KiB": {"description": "x" * (16 * 1024 - len('{"description":""}'))},
}
REFUSALS: dict[str, tuple[Any, str, str]] = {
    "no object": (True, "", "must be an object"),
    "no JSON": ({"const": float("nan")}, "/const", "are not JSON"),
    "half a character": ({"title": "\ud800"}, "/title", "surrogate"),
    "too large": ({"description": "x" * 16_384}, "", "the limit is 16,384"),
    "a million values": ({"enum": list(range(1_000_000))}, "", "parts"),
    "201 values": ({"enum": list(range(201))}, "/enum", "1 to 200"),
    "no values": ({"enum": []}, "/enum", "1 to 200"),
    "9 levels": (nested(9), "/properties/a" * 8, "nested deeper than 8"),
    "201 schemas": ({"anyOf": [{}] * 200}, "", "201 subschemas"),
    "101 properties": (
        {"properties": {f"p{number}": True for number in range(101)}},
        "",
        "101 properties",
    ),
    "101 properties in two places": (
        {
            "allOf": [
                {"properties": {f"p{number}": True for number in range(size)}} for size in (50, 51)
            ]
        },
        "",
        "101 properties",
    ),
    "a remote reference": (
        {"$ref": "http://127.0.0.1/x"},
        "/$ref",
        "Remote schemas are not fetched",
    ),
    "a file": (
        {"items": {"$ref": "file:///etc/passwd"}},
        "/items/$ref",
        "Remote schemas are not fetched",
    ),
    "a relative reference": ({"$ref": "other.json"}, "/$ref", "Remote schemas are not fetched"),
    "an anchor": ({"$ref": "#name"}, "/$ref", "must be local"),
    "a reference to nowhere": ({"$ref": "#/$defs/a"}, "/$ref", "does not point to a schema"),
    "a reference to no schema": (
        {"$ref": "#/const", "const": {}},
        "/$ref",
        "does not point to a schema",
    ),
    "a schema in itself": ({"$ref": "#"}, "/$ref", "is recursive"),
    "a tree": (
        {"properties": {"kids": {"items": {"$ref": "#"}}}},
        "/properties/kids/items/$ref",
        "is recursive",
    ),
    "two in one another": (
        {
            "$ref": "#/$defs/a",
            "$defs": {"a": {"not": {"$ref": "#/$defs/b"}}, "b": {"$ref": "#/$defs/a"}},
        },
        "/$defs/b/$ref",
        "is recursive",
    ),
    "an unused tree": (
        {"$defs": {"a": {"items": {"$ref": "#/$defs/a"}}}},
        "/$defs/a/items/$ref",
        "is recursive",
    ),
    "doubling references": (exponential_schema(20), "", "references expanded"),
    "another dialect": (
        {"$schema": "http://json-schema.org/draft-07/schema#"},
        "/$schema",
        "other dialects",
    ),
    "a long pattern": ({"pattern": "a" * 257}, "/pattern", "256 characters"),
    "a look-ahead": ({"pattern": "^(?=a)b"}, "/pattern", "linear time"),
    "a back-reference": ({"pattern": r"(a)\1"}, "/pattern", "linear time"),
    "an enormous pattern": ({"pattern": "(a{1000}){1000}"}, "/pattern", "linear time"),
    "patterns that are enormous together": (
        {"allOf": [{"pattern": rf"\p{{L}}{number}"} for number in range(150)]},
        "/allOf/16/pattern",
        "together are too large",
    ),
    "no pattern": (
        {"pattern": "("},
        "/pattern",
        "is not a regular expression: missing ), unterminated subpattern, at character 1",
    ),
    "no pattern, with a name": (
        {"pattern": "(?<year>[)"},
        "/pattern",
        "is not a regular expression: unterminated character set.",
    ),
    "a typing error": ({"proprties": {}}, "/proprties", "Did you mean `properties`?"),
    "an unknown format": ({"format": "credit-card"}, "/format", "must be one of date-time"),
    "a number without end": ({"minimum": 1 << 70}, "/minimum", "64 bits"),
    "zero": ({"multipleOf": 0}, "/multipleOf", "more than 0"),
    "a wrong schema inside": ({"items": [{}]}, "/items", "must be a schema"),
}


@pytest.mark.parametrize("schema", ACCEPTED.values(), ids=ACCEPTED.keys())
def test_the_subset_is_accepted(schema: Any) -> None:
    assert check_schema(schema) == ()


@pytest.mark.parametrize(("schema", "pointer", "words"), REFUSALS.values(), ids=REFUSALS.keys())
def test_unsupported_schemas_are_refused_with_the_name_of_the_rule(
    schema: Any, pointer: str, words: str
) -> None:
    problems = check_schema(schema)
    assert [
        problem for problem in problems if problem.pointer == pointer and words in problem.message
    ], problems
    assert validate(schema, {}), "what may not be used has no valid values"


@pytest.mark.parametrize("keyword", REFUSED)
def test_an_unsupported_keyword_names_the_alternative(keyword: str) -> None:
    problems = check_schema({"allOf": [{keyword: {}}]})
    assert [str(problem) for problem in problems] == [
        f"/allOf/0/{keyword}: `{keyword}` is not allowed: {REFUSED[keyword]}."
    ]


@pytest.mark.parametrize("keyword", sorted(set(KEYWORDS) - {"const", "default"}))
def test_every_keyword_checks_the_type_of_its_value(keyword: str) -> None:
    """No keyword accepts nested arrays. The two keywords that accept any array reject numbers."""
    nonsense: Any = 3 if keyword in {"enum", "examples"} else [[None]]
    assert any(
        problem.pointer.startswith(f"/{keyword}") for problem in check_schema({keyword: nonsense})
    )


def test_all_problems_are_reported_at_once() -> None:
    schema = {
        "type": "strng",
        "properties": {"a": {"minLength": -1, "$id": "x"}},
        "required": ["a", "a"],
        "items": 3,
    }
    assert [problem.pointer for problem in check_schema(schema)] == [
        "/type",
        "/required",
        "/items",
        "/properties/a/minLength",
        "/properties/a/$id",
        "/items",
    ]


def test_nesting_of_any_depth_is_checked() -> None:
    schema: Any = {}
    for _ in range(100_000):
        schema = {"not": schema}
    assert check_schema(schema)
    value: Any = 0
    for _ in range(100_000):
        value = [value]
    assert check_schema({"const": value})


def test_many_unknown_keywords_are_checked() -> None:
    assert len(check_schema({f"k{number}": 1 for number in range(1_500)})) <= 20


KEYWORD_NAMES = st.sampled_from([*KEYWORDS, *REFUSED, "typo"])


def schema_like(inner: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    named = st.dictionaries(st.text(max_size=3), inner, max_size=3)
    return st.dictionaries(KEYWORD_NAMES, inner | named, max_size=4)


SCHEMAS = st.recursive(JSON, schema_like, max_leaves=8)


@settings(suppress_health_check=[HealthCheck.too_slow])
@given(SCHEMAS, JSON)
def test_any_json_is_checked_and_accepted_schemas_work(schema: Any, value: Any) -> None:
    """The validator never receives a schema that it cannot read."""
    problems = check_schema(schema)
    assert all(problem.message for problem in problems)
    reasons = validate(schema, value)
    assert len(reasons) <= 3
    if problems:
        assert reasons
