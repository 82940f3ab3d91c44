"""JSON as Python values, and the strict equality of spec 1.2: `true ≠ 1`, and `1 == 1.0`."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeAlias, cast

import msgspec

from midturn.errors import Problem

if TYPE_CHECKING:
    Json: TypeAlias = bool | int | float | str | Sequence["Json"] | Mapping[str, "Json"] | None
else:  # msgspec cannot decode into a recursive alias: at run time any decoded value is one
    Json = Any

Scalar: TypeAlias = bool | int | float | str
JsonObject: TypeAlias = Mapping[str, Json]

LONGEST_INTEGER = 1024  # bits: what an IEEE double reaches, and far below the digits at which Python refuses to read a number
SHOWN = 60  # characters of a value in a message
_LONE_SURROGATE = re.compile("[\ud800-\udfff]")


def canonical(value: Json) -> bytes:
    """Encode `value` so that two values have the same bytes exactly when they are equal JSON (spec 1.2)."""
    return msgspec.json.encode(_plain(value), order="sorted")


def json_equal(left: Json, right: Json) -> bool:
    """Compare as JSON: `true` is not `1`, `1` is `1.0`, the order of keys does not count."""
    return canonical(left) == canonical(right)


def pointer_to(parent: str, key: str | int) -> str:
    """Return the JSON pointer of the member `key` of what `parent` points to (RFC 6901)."""
    return f"{parent}/{str(key).replace('~', '~0').replace('/', '~1')}"


def shown(value: Json) -> str:
    """Return a value for a message: as JSON, cut where it is long."""
    text = msgspec.json.encode(value).decode()
    return text if len(text) <= SHOWN else f"{text[: SHOWN - 1]}…"


def json_problem(value: object, depth_limit: int) -> Problem | None:
    """Say what keeps `value` from being JSON that can be written, sent and read again, or None.

    Refused are nesting deeper than `depth_limit` (`[]` is 1 deep), NaN and infinities, integers beyond 1,024 bits, lone surrogates,
    keys that are no strings, and Python values that JSON does not know. The walk keeps its own stack: depth cannot exhaust Python's.
    """
    open_values: list[tuple[object, str, int]] = [(value, "", 0)]
    while open_values:
        item, pointer, depth = open_values.pop()
        problem = _own_problem(item)
        if problem is not None:
            return Problem(pointer, problem)
        members = _members(item)
        if members is None:
            continue
        if depth == depth_limit:
            return Problem(pointer, f"the value is nested deeper than {depth_limit} levels. Flatten it.")
        open_values.extend((member, pointer_to(pointer, key), depth + 1) for key, member in members)
    return None


def _members(item: object) -> Iterable[tuple[str | int, object]] | None:
    """List what is inside a container, last first (the walk takes from the end); None for a scalar."""
    if isinstance(item, Mapping):
        return reversed(list(cast("Mapping[str, object]", item).items()))
    if isinstance(item, list | tuple):
        return reversed(list(enumerate(cast("Sequence[object]", item))))
    return None


def _own_problem(item: object) -> str | None:
    """Judge one value without what is inside it."""
    match item:
        case None | bool() | list() | tuple():
            return None
        case str():
            return _text_problem(item)
        case int():
            return None if item.bit_length() <= LONGEST_INTEGER else "the number is too large. Write it as a string."
        case float():
            return None if math.isfinite(item) else "NaN and infinities are no JSON. Use a finite number or null."
        case Mapping():
            return next(filter(None, map(_key_problem, cast("Mapping[object, object]", item))), None)
        case _:
            return f"a Python {type(item).__name__} is no JSON. Use a boolean, number, string, list, object or null."


def _key_problem(key: object) -> str | None:
    return _text_problem(key) if isinstance(key, str) else "the keys of an object are strings."


def _text_problem(text: str) -> str | None:
    return "the text has a lone surrogate, which is no Unicode text. Remove it." if _LONE_SURROGATE.search(text) else None


def _plain(value: Json) -> Json:
    """Write every integral float as the integer that it equals."""
    if isinstance(value, float):
        return int(value) if value.is_integer() else value
    if isinstance(value, Mapping):
        return {key: _plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(item) for item in cast("Sequence[Json]", value)]
    return value
