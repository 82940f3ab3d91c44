"""Whole numbers in answers: JSON writes 4 and 4.0 for one number, and programs in other languages tell them apart."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import cast

from midturn.question.json_value import Json, JsonObject, items, json_equal, members

_BRANCHES = ("allOf", "anyOf", "oneOf")


def whole_numbers(schema: Json, value: Json) -> Json:
    """Return a valid value with every `integer` written without a fraction, and members of an `enum` as they were declared.

    Args:
        schema: The JSON Schema that the value satisfies.
        value: The value, such as `{"count": 4.0}`.
    """
    return _written(schema, value, schema)


def _written(schema: Json, value: Json, root: Json) -> Json:
    if not isinstance(schema, Mapping):
        return value
    for part in _parts(schema, root):
        value = _written(part, value, root)
    declared = [schema["const"]] if "const" in schema else items(schema.get("enum"))
    same = next((one for one in declared if json_equal(one, value)), None)
    if same is not None:
        return same
    match value:
        case float() if value.is_integer() and _is_integer(schema):
            return int(value)
        case Mapping():
            return {key: _written(_of_member(schema, key), one, root) for key, one in cast("JsonObject", value).items()}
        case list() | tuple():
            return [_written(_of_item(schema, at), one, root) for at, one in enumerate(value)]
        case _:
            return value


def _parts(schema: JsonObject, root: Json) -> Iterator[Json]:
    """Yield the schemas that describe the same value: a local reference, and the branches."""
    reference = schema.get("$ref")
    if isinstance(reference, str) and reference.startswith("#/"):
        target: Json = root
        for step in reference.removeprefix("#/").split("/"):
            target = members(target).get(step.replace("~1", "/").replace("~0", "~"))
        yield target
    for keyword in _BRANCHES:
        yield from items(schema.get(keyword))


def _is_integer(schema: JsonObject) -> bool:
    kinds = [schema.get("type"), *items(schema.get("type"))]
    return "integer" in kinds and "number" not in kinds


def _of_member(schema: JsonObject, key: str) -> Json:
    properties = members(schema.get("properties"))
    return properties[key] if key in properties else schema.get("additionalProperties")


def _of_item(schema: JsonObject, at: int) -> Json:
    first = items(schema.get("prefixItems"))
    return first[at] if at < len(first) else schema.get("items")
