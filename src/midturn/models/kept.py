"""Provider data that has to go back: recorded with a part of an answer, and returned to the same model."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any, cast

from midturn.models.profiles import ModelSpec
from midturn.models.transcript import ModelCall, ModelWords
from midturn.values.json_value import Json

OF_PART = ("id", "provider_name", "provider_details")
OF_RESPONSE = ("provider_name", "canonical_system", "provider_response_id")


def came_with(given: object, names: Sequence[str]) -> dict[str, Json]:
    """Return those fields of a part or a response that are there, as they are recorded."""
    present = {name: value for name in names if (value := getattr(given, name, None)) is not None}
    return cast("dict[str, Json]", json.loads(json.dumps(present, default=str)))


def recorded(part: ModelWords | ModelCall, spec: ModelSpec) -> Mapping[str, Json]:
    """Return what this very model once sent along with the part."""
    kept = (part.metadata or {}).get("provider")
    return kept if isinstance(kept, dict) and kept.get("model") == spec.id else {}


def given_back(kept: Mapping[str, Json], names: Sequence[str]) -> dict[str, Any]:
    """Pick the fields that the library knows: a stream can come from anywhere."""
    return {name: kept[name] for name in names if name in kept}
