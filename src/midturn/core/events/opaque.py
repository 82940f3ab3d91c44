"""What this version does not know, or cannot read, and keeps."""

from __future__ import annotations

from typing import Any, Final

import msgspec
from msgspec import Raw

from midturn.core.events.base import Event
from midturn.core.json_value import Json

NEVER_REDACTED: Final = frozenset({"answer", "reason"})
"""What a `redacted` response never has."""


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
        """Return the event as the JSON object that was read; where that is none, its bytes as `raw`, and the `problem`.

        Should somebody have written an answer into a `redacted` response, it stays behind.
        """
        try:
            fields = msgspec.json.decode(self.raw, type=dict[str, Any])
        except (ValueError, RecursionError):  # msgspec's errors and Unicode's are ValueErrors
            return {"type": self.kind, "problem": self.problem, "raw": bytes(self.raw).decode("utf-8", "replace")}
        redacted = self.kind == "inquiry_response" and fields.get("outcome") == "redacted"
        return {name: value for name, value in fields.items() if not (redacted and name in NEVER_REDACTED)}
