"""Answers that were given elsewhere: they decide nothing here, and are what the fields hold when their questions are asked again."""

from __future__ import annotations

from collections.abc import Mapping
from typing import cast

from msgspec.structs import replace

from midturn.core.events import ToolCallRequest
from midturn.core.json_value import Json

_KEY = "drafts"


def with_drafts(request: ToolCallRequest, drafts: Mapping[str, Json]) -> ToolCallRequest:
    """Return the request of a call with answers to its questions, by question id; none where there are none."""
    others = {key: value for key, value in (request.metadata or {}).items() if key != _KEY}
    metadata: dict[str, Json] = {**others, _KEY: dict(drafts)} if drafts else others
    return replace(request, metadata=metadata or None)


def drafts_of(request: ToolCallRequest) -> Mapping[str, Json]:
    """Return these answers. Whether they fit their questions is not known: anybody may have written them."""
    found = request.metadata.get(_KEY) if request.metadata else None
    return {} if found is None or not isinstance(found, Mapping) else cast("Mapping[str, Json]", found)
