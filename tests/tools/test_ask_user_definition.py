"""The definition of `ask_user` that is sent to a provider."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import cast

import msgspec

from midturn.question.json_value import Json, JsonObject
from midturn.tools.ask_user_call import ENTRY_KEYS, SINGLE_KEYS, AskUserTool

DEFINITION = AskUserTool().definition


def schemas(schema: JsonObject) -> Iterator[JsonObject]:
    """Yield a schema and every schema inside it."""
    yield schema
    for inner in cast("Mapping[str, JsonObject]", schema.get("properties", {})).values():
        yield from schemas(inner)
    items = schema.get("items")
    if isinstance(items, Mapping):
        yield from schemas(items)


def properties(schema: Json) -> Mapping[str, JsonObject]:
    """Return the properties of an object schema."""
    return cast("Mapping[str, Mapping[str, JsonObject]]", schema)["properties"]


def test_every_parameter_has_a_type_and_requirements_are_unconditional() -> None:
    for schema in schemas(DEFINITION.parameters):
        assert schema.get("type") not in (None, "any")
        assert not {
            "if",
            "then",
            "else",
            "anyOf",
            "oneOf",
            "allOf",
            "not",
            "dependentRequired",
            "dependentSchemas",
            "$ref",
        } & set(schema)


def test_no_top_level_parameter_is_required() -> None:
    assert "required" not in DEFINITION.parameters


def test_every_parameter_is_described() -> None:
    top = properties(DEFINITION.parameters)
    entry = properties(top["questions"]["items"])
    assert all(parameter.get("description") for parameter in [*top.values(), *entry.values()])


def test_accepted_and_documented_arguments_are_the_same() -> None:
    top = properties(DEFINITION.parameters)
    assert set(top) == {*SINGLE_KEYS, "questions"}
    assert set(properties(top["questions"]["items"])) == set(ENTRY_KEYS)


def test_defaults_and_predicate_values_have_five_types() -> None:
    top = properties(DEFINITION.parameters)
    entry = properties(top["questions"]["items"])
    for parameter in (top["default"], entry["default"], properties(entry["when"])["equals"]):
        assert parameter["type"] == ["boolean", "string", "number", "array", "object"]
        assert parameter["items"] == {"type": "string"}


def test_the_definition_matches_the_reviewed_file() -> None:
    """Models read this text with every request.

    Review the difference, and write it to the file if it is right.
    """
    assert msgspec.to_builtins(DEFINITION) == json.loads(
        Path(__file__).with_name("ask_user.json").read_text(encoding="utf-8")
    )
