"""Bounds of a value that leave nothing between them: JSON Schema allows them, and nobody can answer what has them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from midturn.core.json_value import Json

_PAIRS = (("minimum", "maximum"), ("minLength", "maxLength"), ("minItems", "maxItems"), ("minProperties", "maxProperties"))


class CrossedBounds(NamedTuple):
    """Two keywords, of which the one that says the least says more than the one that says the most."""

    lower: str
    least: float
    upper: str
    most: float


def crossed_bounds(schema: Mapping[str, Json]) -> Sequence[CrossedBounds]:
    """Return the bounds of a schema's whole value that no value keeps."""
    pairs = ((lower, schema.get(lower), upper, schema.get(upper)) for lower, upper in _PAIRS)
    return [
        CrossedBounds(lower, least, upper, most)
        for lower, least, upper, most in pairs
        if isinstance(least, int | float) and isinstance(most, int | float) and least > most
    ]
