"""JSON that somebody else wrote: what is not of the expected kind reads as if it was not there."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import cast

from midturn.core.json_value import Json, JsonObject


def members(value: object) -> JsonObject:
    """Return an object's members; none where it is not an object."""
    return cast("JsonObject", value) if isinstance(value, Mapping) else {}


def items(value: object) -> Sequence[Json]:
    """Return an array's items; none where it is not an array."""
    return cast("Sequence[Json]", value) if isinstance(value, list | tuple) else ()


def objects(value: object) -> list[JsonObject]:
    """Return the objects in an array."""
    return [members(item) for item in items(value) if isinstance(item, Mapping)]


def text(value: object) -> str:
    """Return a text; an empty one where it is something else."""
    return value if isinstance(value, str) else ""
