"""JSON that a person types: read strictly, with errors that say where; and the shape that a schema asks for."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from typing import Any, NoReturn, cast

from midturn.core.json_value import Json, JsonObject
from midturn.errors import Problem
from midturn.prompts.content import compact

DEEPEST = 8


class NotJson(ValueError):  # noqa: N818 (it says what the text is)
    """The text is no JSON; `offset` is where it stops making sense, None where no place can be named."""

    def __init__(self, message: str, offset: int | None = None) -> None:
        self.offset = offset
        super().__init__(message)


def read_json(text: str) -> Json:
    """Read JSON as the standard has it: no repeated keys, no `NaN`, no number that overflows.

    Raises:
        NotJson: The text is no JSON; the message says what, where and in which line.
    """
    try:
        value = json.loads(text, object_pairs_hook=_unique, parse_constant=_no_constant, parse_float=_finite)
        compact(value).encode()
    except json.JSONDecodeError as error:
        raise NotJson(f"not valid JSON: {error.msg} (line {error.lineno}, column {error.colno})", error.pos) from None
    except UnicodeEncodeError:
        raise NotJson("not valid JSON: half of a surrogate pair") from None
    except RecursionError:
        raise NotJson("not accepted: nested too deeply") from None
    except NotJson:
        raise
    except ValueError:
        raise NotJson("not accepted: a number with too many digits") from None
    return cast("Json", value)


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
            properties = _object(schema.get("properties"))
            required = cast("Sequence[str]", schema.get("required") or ())
            return {key: _skeleton(_object(properties.get(key)), root, depth + 1) for key in required}
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
        found = _object(found).get(part.replace("~1", "/").replace("~0", "~"))
    return _object(found)


def _object(value: Json) -> JsonObject:
    return cast("JsonObject", value) if isinstance(value, Mapping) else {}


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        keys = [key for key, _ in pairs]
        twice = next(key for key in keys if keys.count(key) > 1)
        raise NotJson(f"the key {compact(twice)} stands twice in one object")
    return found


def _no_constant(name: str) -> NoReturn:
    raise NotJson(f"{name} is no JSON; use a number or null")


def _finite(digits: str) -> float:
    number = float(digits)
    if not math.isfinite(number):
        raise NotJson(f"{digits} is too large for a number")
    return number
