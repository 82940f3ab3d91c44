"""What a provider is sent for `ask_user`."""

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
    """Return what an object schema describes."""
    return cast("Mapping[str, Mapping[str, JsonObject]]", schema)["properties"]


def test_nothing_is_of_any_type_and_nothing_is_required_under_a_condition() -> None:
    for schema in schemas(DEFINITION.parameters):
        assert schema.get("type") not in (None, "any")
        assert not {"if", "then", "else", "anyOf", "oneOf", "allOf", "not", "dependentRequired", "dependentSchemas", "$ref"} & set(schema)


def test_nothing_is_required_at_the_top() -> None:
    assert "required" not in DEFINITION.parameters


def test_every_parameter_is_described() -> None:
    top = properties(DEFINITION.parameters)
    entry = properties(top["questions"]["items"])
    assert all(parameter.get("description") for parameter in [*top.values(), *entry.values()])


def test_the_arguments_that_are_read_are_the_arguments_that_are_described() -> None:
    top = properties(DEFINITION.parameters)
    assert set(top) == {*SINGLE_KEYS, "questions"}
    assert set(properties(top["questions"]["items"])) == set(ENTRY_KEYS)


def test_a_default_and_what_a_predicate_waits_for_have_five_types() -> None:
    top = properties(DEFINITION.parameters)
    entry = properties(top["questions"]["items"])
    for parameter in (top["default"], entry["default"], properties(entry["when"])["equals"]):
        assert parameter["type"] == ["boolean", "string", "number", "array", "object"]
        assert parameter["items"] == {"type": "string"}


def test_the_definition_is_what_somebody_last_looked_at() -> None:
    """What differs goes to a model with every request: look at it, and if it is right write it to the file."""
    assert msgspec.to_builtins(DEFINITION) == json.loads(Path(__file__).with_name("ask_user.json").read_text(encoding="utf-8"))
