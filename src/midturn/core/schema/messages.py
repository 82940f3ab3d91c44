"""What a value breaks when one keyword of a schema does not hold, in words for a person or a model."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeAlias, TypeGuard

from midturn.core.json_value import Json, JsonObject, canonical, json_equal, shown

_Judge: TypeAlias = Callable[[Any, Any], str | None]
_LISTED = 8  # values of an enum in a message


def _is_number(value: Json) -> TypeGuard[float]:
    return isinstance(value, int | float) and not isinstance(value, bool)


_KINDS: Mapping[str, tuple[str, Callable[[Json], bool]]] = {
    "string": ("a string", lambda value: isinstance(value, str)),
    "boolean": ("true or false", lambda value: isinstance(value, bool)),
    "integer": ("a whole number", lambda value: _is_number(value) and value == value // 1),
    "number": ("a number", _is_number),
    "array": ("an array", lambda value: isinstance(value, list | tuple)),
    "object": ("an object", lambda value: isinstance(value, Mapping)),
    "null": ("null", lambda value: value is None),
}


def keyword_message(keyword: str, constraint: Json, value: Json) -> str | None:
    """Say what is wrong with a value under one keyword that looks at the value alone; None where it holds, or is of another sort."""
    judge = _JUDGES.get(keyword)
    if judge is None:
        return None
    applies, judged = judge
    return judged(constraint, value) if applies(value) else None


def fits_type(node: JsonObject, value: Json) -> bool:
    """Tell whether the `type` of a node, if it has one, admits a value."""
    return "type" not in node or keyword_message("type", node["type"], value) is None


def _type(types: str | Sequence[str], value: Json) -> str | None:
    names = [types] if isinstance(types, str) else types
    if any(_KINDS[name][1](value) for name in names):
        return None
    return f"must be {' or '.join(_KINDS[name][0] for name in names)}, not {shown(value)}."


def _enum(values: Sequence[Json], value: Json) -> str | None:
    if any(json_equal(value, each) for each in values):
        return None
    more = f" … ({len(values)} values)" if len(values) > _LISTED else ""
    return f"must be one of {', '.join(map(shown, values[:_LISTED]))}{more}, not {shown(value)}."


def _const(only: Json, value: Json) -> str | None:
    return None if json_equal(only, value) else f"must be {shown(only)}, not {shown(value)}."


def _bound(holds: Callable[[float, float], bool], words: str) -> _Judge:
    return lambda limit, value: None if holds(value, limit) else f"must be {words} {shown(limit)}, not {shown(value)}."


def _at_least(one: str, many: str) -> _Judge:
    return lambda least, value: None if len(value) >= least else f"must have at least {_counted(least, one, many)}, not {len(value)}."


def _at_most(one: str, many: str) -> _Judge:
    return lambda most, value: None if len(value) <= most else f"must have at most {_counted(most, one, many)}, not {len(value)}."


def _counted(count: float, one: str, many: str) -> str:
    return f"{int(count)} {one if count == 1 else many}"


def _unique(wanted: bool, value: Sequence[Json]) -> str | None:  # noqa: FBT001 (the value of the keyword)
    return "the items must differ from one another." if wanted and len({canonical(item) for item in value}) < len(value) else None


def _required(names: Sequence[str], value: JsonObject) -> str | None:
    missing = [f"`{name}`" for name in names if name not in value]
    if not missing:
        return None
    return f"{', '.join(missing)} {'is' if len(missing) == 1 else 'are'} missing."


def _dependent_required(names: Mapping[str, Sequence[str]], value: JsonObject) -> str | None:
    return next((f"with `{name}`, {message}" for name in names if name in value and (message := _required(names[name], value))), None)


def _is_text(value: Json) -> bool:
    return isinstance(value, str)


def _is_array(value: Json) -> bool:
    return isinstance(value, list | tuple)


def _is_object(value: Json) -> bool:
    return isinstance(value, Mapping)


def _is_any(_: Json) -> bool:
    return True


_JUDGES: Mapping[str, tuple[Callable[[Json], bool], _Judge]] = {
    "type": (_is_any, _type),
    "enum": (_is_any, _enum),
    "const": (_is_any, _const),
    "minimum": (_is_number, _bound(lambda value, limit: value >= limit, "at least")),
    "maximum": (_is_number, _bound(lambda value, limit: value <= limit, "at most")),
    "exclusiveMinimum": (_is_number, _bound(lambda value, limit: value > limit, "more than")),
    "exclusiveMaximum": (_is_number, _bound(lambda value, limit: value < limit, "less than")),
    "minLength": (_is_text, _at_least("character", "characters")),
    "maxLength": (_is_text, _at_most("character", "characters")),
    "minItems": (_is_array, _at_least("item", "items")),
    "maxItems": (_is_array, _at_most("item", "items")),
    "uniqueItems": (_is_array, _unique),
    "minProperties": (_is_object, _at_least("property", "properties")),
    "maxProperties": (_is_object, _at_most("property", "properties")),
    "required": (_is_object, _required),
    "dependentRequired": (_is_object, _dependent_required),
}
