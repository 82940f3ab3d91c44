"""JSON as a person sees it: where a problem is, and the shape that a schema asks for."""

from __future__ import annotations

from midturn.core.json_text import compact
from midturn.core.json_value import Json, JsonObject
from midturn.core.loose_json import items, members, objects, text
from midturn.errors import Problem

DEEPEST = 8
MOST_VALUES = 200


def problem_text(problem: Problem) -> str:
    """Say one problem with its path as people write it: `$.replicas: ...`."""
    return f"{json_path(problem.pointer)}: {problem.message}"


def json_path(pointer: str) -> str:
    """Turn a JSON pointer into a path: `/hosts/0/name` → `$.hosts[0].name`."""
    path = "$"
    for raw in pointer.split("/")[1:]:
        key = raw.replace("~1", "/").replace("~0", "~")
        path += f"[{key}]" if key.isdigit() else f".{key}" if key.isidentifier() else f"[{compact(key)}]"
    return path


def skeleton(schema: JsonObject) -> Json:
    """Return a value of the shape that `schema` asks for; it need not be valid.

    An object has its required keys, or all of them where none is required; a list has one item. What is very large, or goes on for
    ever, ends in `null`.
    """
    return _Skeleton(schema).of(schema, 0)


class _Skeleton:
    """Builds at most `MOST_VALUES` values: whoever wrote the schema may have wanted to keep us busy."""

    def __init__(self, root: JsonObject) -> None:
        self._root = root
        self._left = MOST_VALUES

    def of(self, schema: JsonObject, depth: int) -> Json:
        self._left -= 1
        for key in ("default", "const"):
            if key in schema:
                return schema[key]
        if choices := items(schema.get("enum")):
            return choices[0]
        if depth >= DEEPEST or self._left <= 0:
            return None
        if isinstance(reference := schema.get("$ref"), str):
            return self.of(resolved(reference, self._root), depth + 1)
        if ways := [way for key in ("anyOf", "oneOf") for way in objects(schema.get(key)) if way.get("type") != "null"]:
            return self.of(ways[0], depth + 1)
        return self._of_type(schema, depth)

    def _of_type(self, schema: JsonObject, depth: int) -> Json:
        match kind_of(schema):
            case "object":
                properties = members(schema.get("properties"))
                required = [key for key in items(schema.get("required")) if isinstance(key, str)]
                keys = required or [*properties]
                return {key: self.of(members(properties.get(key)), depth + 1) for key in keys if self._left > 0}
            case "array":
                item = self.of(members(schema.get("items")), depth + 1)
                return [] if item is None else [item]
            case "string":
                return ""
            case "integer" | "number":
                minimum = schema.get("minimum")
                return minimum if isinstance(minimum, int | float) else 0
            case "boolean":
                return False
            case _:
                return None


def kind_of(schema: JsonObject) -> str:
    """Return the type of JSON that a schema asks for, the first that is not `null` where it names several; empty where it names none."""
    named = schema.get("type")
    kinds = [named] if isinstance(named, str) else [text(kind) for kind in items(named)]
    implied = "object" if "properties" in schema else "array" if "items" in schema else ""
    return next((kind for kind in kinds if kind != "null"), kinds[0] if kinds else implied)


def resolved(reference: str, root: JsonObject) -> JsonObject:
    """Return the schema in `root` that a reference leads to; an empty one where it leads to none."""
    found: Json = root
    for part in reference.removeprefix("#").split("/")[1:]:
        found = members(found).get(part.replace("~1", "/").replace("~0", "~"))
    return members(found)
