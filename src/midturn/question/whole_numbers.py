"""Normalize whole numbers in answers: JSON treats 4 and 4.0 as equal, but other programming
languages may not.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import cast

from midturn.question.json_value import Json, JsonObject, items, json_equal, members

_BRANCHES = ("allOf", "anyOf", "oneOf")


def whole_numbers(schema: Json, value: Json) -> Json:
    """Return a valid value with every `integer` written without a fraction, and enum members as
    declared.

    Args:
        schema: The JSON Schema that the value satisfies.
        value: The value, such as `{"count": 4.0}`.
    """
    return _normalized(schema, value, schema)


def _normalized(schema: Json, value: Json, root: Json) -> Json:
    if not isinstance(schema, Mapping):
        return value
    for part in _parts(schema, root):
        value = _normalized(part, value, root)
    declared = [schema["const"]] if "const" in schema else items(schema.get("enum"))
    same = next((item for item in declared if json_equal(item, value)), None)
    if same is not None:
        return same
    match value:
        case float() if value.is_integer() and _is_integer(schema):
            return int(value)
        case Mapping():
            return {
                key: _normalized(_of_member(schema, key), item, root)
                for key, item in cast("JsonObject", value).items()
            }
        case list() | tuple():
            return [_normalized(_of_item(schema, at), item, root) for at, item in enumerate(value)]
        case _:
            return value


def _parts(schema: JsonObject, root: Json) -> Iterator[Json]:
    """Yield the schemas that apply to the same value: a local reference, and the branches."""
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
