"""The closed subset of JSON Schema."""

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


def doubling(levels: int) -> dict[str, Any]:
    """A schema whose references double at each level when they are written out."""
    definitions: dict[str, Any] = {"d0": {}}
    for level in range(1, levels + 1):
        definitions[f"d{level}"] = {"anyOf": [{"$ref": f"#/$defs/d{level - 1}"}, {"$ref": f"#/$defs/d{level - 1}"}]}
    return {"$ref": f"#/$defs/d{levels}", "$defs": definitions}


ACCEPTED: dict[str, Any] = {
    "anything": {},
    "the dialect": {"$schema": "https://json-schema.org/draft/2020-12/schema"},
    "an object": {"type": "object", "properties": {"a": {"type": ["string", "null"]}}, "required": ["a"], "additionalProperties": False},
    "references": {"properties": {"a": {"$ref": "#/$defs/x y~1"}}, "$defs": {"x y/": {"type": "integer"}}},
    "an encoded reference": {"$ref": "#/$defs/x%20y", "$defs": {"x y": {"type": "integer"}}},
    "a reference to a property": {"properties": {"a": {"type": "integer"}, "b": {"$ref": "#/properties/a"}}},
    "former definitions": {"$ref": "#/definitions/a", "definitions": {"a": {}}},
    "two references to one place": {"allOf": [{"$ref": "#/$defs/a"}, {"$ref": "#/$defs/a"}], "$defs": {"a": {}}},
    "values that look like keywords": {"const": {"$ref": "http://x"}, "default": {"$id": 1}, "enum": [{"patternProperties": 1}]},
    "properties named like keywords": {"properties": {"$ref": {"type": "string"}, "$id": {}, "patternProperties": {}}},
    "8 levels": nested(8),
    "200 schemas": {"anyOf": [{}] * 199},
    "100 properties": {"properties": {f"p{number}": {} for number in range(100)}},
    "200 values": {"enum": list(range(200))},
    "a long pattern": {"pattern": "a" * 256},
    "256 kinds of text": {"pattern": r"^(?:[a-z]{1,50}\.){2}\p{L}+$"},
    "a text of up to 200 characters": {"pattern": "^.{1,200}$"},
    "one pattern everywhere": {"properties": {f"p{number}": {"pattern": r"^\p{L}+$"} for number in range(100)}},
    "510 expansions": doubling(7),
    "16 KiB": {"description": "x" * (16 * 1024 - len('{"description":""}'))},
}
REFUSALS: dict[str, tuple[Any, str, str]] = {
    "no object": (True, "", "must be an object"),
    "no JSON": ({"const": float("nan")}, "/const", "are not JSON"),
    "half a character": ({"title": "\ud800"}, "/title", "surrogate"),
    "too large": ({"description": "x" * 16_384}, "", "16,384 are allowed"),
    "a million values": ({"enum": list(range(1_000_000))}, "", "parts"),
    "201 values": ({"enum": list(range(201))}, "/enum", "1 to 200"),
    "no values": ({"enum": []}, "/enum", "1 to 200"),
    "9 levels": (nested(9), "/properties/a" * 8, "nested deeper than 8"),
    "201 schemas": ({"anyOf": [{}] * 200}, "", "201 schemas"),
    "101 properties": ({"properties": {f"p{number}": True for number in range(101)}}, "", "101 properties"),
    "101 properties in two places": (
        {"allOf": [{"properties": {f"p{number}": True for number in range(size)}} for size in (50, 51)]},
        "",
        "101 properties",
    ),
    "a remote reference": ({"$ref": "http://127.0.0.1/x"}, "/$ref", "Nothing is ever fetched"),
    "a file": ({"items": {"$ref": "file:///etc/passwd"}}, "/items/$ref", "Nothing is ever fetched"),
    "a relative reference": ({"$ref": "other.json"}, "/$ref", "Nothing is ever fetched"),
    "an anchor": ({"$ref": "#name"}, "/$ref", "must be local"),
    "a reference to nowhere": ({"$ref": "#/$defs/a"}, "/$ref", "leads to no schema"),
    "a reference to no schema": ({"$ref": "#/const", "const": {}}, "/$ref", "leads to no schema"),
    "a schema in itself": ({"$ref": "#"}, "/$ref", "leads back to itself"),
    "a tree": ({"properties": {"kids": {"items": {"$ref": "#"}}}}, "/properties/kids/items/$ref", "leads back to itself"),
    "two in one another": (
        {"$ref": "#/$defs/a", "$defs": {"a": {"not": {"$ref": "#/$defs/b"}}, "b": {"$ref": "#/$defs/a"}}},
        "/$defs/b/$ref",
        "leads back to itself",
    ),
    "an unused tree": ({"$defs": {"a": {"items": {"$ref": "#/$defs/a"}}}}, "/$defs/a/items/$ref", "leads back to itself"),
    "doubling references": (doubling(20), "", "references written out"),
    "another dialect": ({"$schema": "http://json-schema.org/draft-07/schema#"}, "/$schema", "other dialects"),
    "a long pattern": ({"pattern": "a" * 257}, "/pattern", "256 characters"),
    "a look-ahead": ({"pattern": "^(?=a)b"}, "/pattern", "linear time"),
    "a back-reference": ({"pattern": r"(a)\1"}, "/pattern", "linear time"),
    "an enormous pattern": ({"pattern": "(a{1000}){1000}"}, "/pattern", "linear time"),
    "patterns that are enormous together": (
        {"allOf": [{"pattern": rf"\p{{L}}{number}"} for number in range(150)]},
        "/allOf/16/pattern",
        "too large together",
    ),
    "no pattern": ({"pattern": "("}, "/pattern", "is not a regular expression: missing ), unterminated subpattern, at character 1"),
    "no pattern, with a name": ({"pattern": "(?<year>[)"}, "/pattern", "is not a regular expression: unterminated character set."),
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
def test_everything_else_is_refused_by_the_name_of_its_rule(schema: Any, pointer: str, words: str) -> None:
    problems = check_schema(schema)
    assert [problem for problem in problems if problem.pointer == pointer and words in problem.message], problems
    assert validate(schema, {}), "what may not be used has no valid values"


@pytest.mark.parametrize("keyword", REFUSED)
def test_a_keyword_that_is_left_out_says_what_to_use_instead(keyword: str) -> None:
    problems = check_schema({"allOf": [{keyword: {}}]})
    assert [str(problem) for problem in problems] == [f"/allOf/0/{keyword}: `{keyword}` is not allowed: {REFUSED[keyword]}."]


@pytest.mark.parametrize("keyword", sorted(set(KEYWORDS) - {"const", "default"}))
def test_every_keyword_has_a_shape(keyword: str) -> None:
    """None takes an array in an array; the two that take any array do not take a number."""
    nonsense: Any = 3 if keyword in {"enum", "examples"} else [[None]]
    assert any(problem.pointer.startswith(f"/{keyword}") for problem in check_schema({keyword: nonsense}))


def test_every_problem_is_found_at_once() -> None:
    schema = {"type": "strng", "properties": {"a": {"minLength": -1, "$id": "x"}}, "required": ["a", "a"], "items": 3}
    assert [problem.pointer for problem in check_schema(schema)] == [
        "/type",
        "/required",
        "/items",
        "/properties/a/minLength",
        "/properties/a/$id",
        "/items",
    ]


def test_nesting_of_any_depth_is_judged() -> None:
    schema: Any = {}
    for _ in range(100_000):
        schema = {"not": schema}
    assert check_schema(schema)
    value: Any = 0
    for _ in range(100_000):
        value = [value]
    assert check_schema({"const": value})


def test_as_many_unknown_keywords_as_fit_are_judged() -> None:
    assert len(check_schema({f"k{number}": 1 for number in range(1_500)})) <= 20


KEYWORD_NAMES = st.sampled_from([*KEYWORDS, *REFUSED, "typo"])


def schema_like(inner: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    named = st.dictionaries(st.text(max_size=3), inner, max_size=3)
    return st.dictionaries(KEYWORD_NAMES, inner | named, max_size=4)


SCHEMAS = st.recursive(JSON, schema_like, max_leaves=8)


@settings(suppress_health_check=[HealthCheck.too_slow])
@given(SCHEMAS, JSON)
def test_any_json_is_judged_and_what_is_accepted_can_be_used(schema: Any, value: Any) -> None:
    """The validator never meets a schema that it cannot read."""
    problems = check_schema(schema)
    assert all(problem.message for problem in problems)
    reasons = validate(schema, value)
    assert len(reasons) <= 3
    if problems:
        assert reasons
