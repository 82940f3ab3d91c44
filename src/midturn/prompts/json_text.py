"""JSON as a person sees it: where a problem is, and the shape that a schema asks for."""

from __future__ import annotations

from collections.abc import Sequence
from typing import cast

from midturn.core.json_value import Json, JsonObject
from midturn.core.loose_json import members
from midturn.errors import Problem
from midturn.prompts.content import compact

DEEPEST = 8


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


def skeleton(schema: JsonObject, depth: int = 0) -> Json:
    """Return a value of the shape that `schema` asks for, with the required keys only; it need not be valid."""
    return _skeleton(schema, schema, depth)


def _skeleton(schema: JsonObject, root: JsonObject, depth: int) -> Json:
    for key in ("default", "const"):
        if key in schema:
            return schema[key]
    choices = schema.get("enum")
    if isinstance(choices, Sequence) and not isinstance(choices, str) and choices:
        return choices[0]
    if depth >= DEEPEST:
        return None
    if isinstance(reference := schema.get("$ref"), str):
        return _skeleton(_resolve(reference, root), root, depth + 1)
    return _of_type(schema, root, depth)


def _of_type(schema: JsonObject, root: JsonObject, depth: int) -> Json:
    kind = schema.get("type", "object" if "properties" in schema else None)
    kind = kind[0] if isinstance(kind, Sequence) and not isinstance(kind, str) and kind else kind
    match kind:
        case "object":
            properties = members(schema.get("properties"))
            required = cast("Sequence[str]", schema.get("required") or ())
            return {key: _skeleton(members(properties.get(key)), root, depth + 1) for key in required}
        case "array":
            return []
        case "string":
            return ""
        case "integer" | "number":
            minimum = schema.get("minimum")
            return minimum if isinstance(minimum, int | float) else 0
        case "boolean":
            return False
        case _:
            return None


def _resolve(reference: str, root: JsonObject) -> JsonObject:
    found: Json = root
    for part in reference.removeprefix("#").split("/")[1:]:
        found = members(found).get(part.replace("~1", "/").replace("~0", "~"))
    return members(found)
