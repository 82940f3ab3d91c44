"""JSON as Python values, and the strict equality of spec 1.2: `true ≠ 1`, and `1 == 1.0`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeAlias, cast

import msgspec

if TYPE_CHECKING:
    Json: TypeAlias = bool | int | float | str | Sequence["Json"] | Mapping[str, "Json"] | None
else:  # msgspec cannot decode into a recursive alias: at run time any decoded value is one
    Json = Any

Scalar: TypeAlias = bool | int | float | str
JsonObject: TypeAlias = Mapping[str, Json]


def canonical(value: Json) -> bytes:
    """Encode `value` so that two values have the same bytes exactly when they are equal JSON (spec 1.2)."""
    return msgspec.json.encode(_plain(value), order="sorted")


def json_equal(left: Json, right: Json) -> bool:
    """Compare as JSON: `true` is not `1`, `1` is `1.0`, the order of keys does not count."""
    return canonical(left) == canonical(right)


def _plain(value: Json) -> Json:
    """Write every integral float as the integer that it equals."""
    if isinstance(value, float):
        return int(value) if value.is_integer() else value
    if isinstance(value, Mapping):
        return {key: _plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(item) for item in cast("Sequence[Json]", value)]
    return value
