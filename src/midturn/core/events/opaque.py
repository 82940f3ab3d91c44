"""What this version does not know, or cannot read, and keeps."""

from __future__ import annotations

from typing import cast

import msgspec
from msgspec import Raw

from midturn.core.events.base import Event
from midturn.core.json_value import Json


class OpaqueEvent(Event, frozen=True, kw_only=True):
    """An event of an unknown kind, or one of a known kind that breaks its rules: kept byte for byte in `raw`, sent to nobody.

    `problem` says what is wrong with it; it is empty for a kind that is merely unknown.
    """

    kind: str
    raw: Raw
    problem: str = ""

    @property
    def type(self) -> str:
        """The kind of this event, as on disk (empty where there is none)."""
        return self.kind

    def to_json(self) -> dict[str, Json]:
        """Return the event as the JSON object that was read."""
        return cast("dict[str, Json]", msgspec.json.decode(self.raw))
