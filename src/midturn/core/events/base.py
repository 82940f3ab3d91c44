"""What all events share."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any, TypeVar, cast

import msgspec
from msgspec import Struct

from midturn.core.json_value import Json

_T = TypeVar("_T")


def always(value: _T) -> _T:
    """Give a field a default that is written although defaults are omitted."""
    return msgspec.field(default_factory=lambda: value)


class Event(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One line of a conversation.

    The machine leaves `timestamp` empty (the recorder stamps it) and takes `event_id` from the iterator that it was given.
    `more` counts the events of the same batch that follow. A timestamp stays the text that was read, legacy form included.
    """

    timestamp: str = ""
    event_id: str = ""
    more: int = 0
    metadata: dict[str, Json] | None = None

    @property
    def type(self) -> str:
        """The kind of this event, as on disk."""
        return cast("str", self.__struct_config__.tag)

    def to_json(self) -> dict[str, Json]:
        """Return the event as the JSON object that is on disk."""
        return cast("dict[str, Json]", msgspec.to_builtins(self, enc_hook=encode_custom))

    @property
    def at(self) -> datetime:
        """When this was recorded: RFC 3339, or the legacy `YYYY-MM-DD HH:MM:SS.ffffff` in UTC (trailing zeros may be cut)."""
        moment = datetime.fromisoformat(_padded(self.timestamp))
        return moment if moment.tzinfo else moment.replace(tzinfo=UTC)


def encode_custom(value: Any) -> Json:
    """Encode what msgspec does not know: a question in an event."""
    return cast("Json", value.to_json())


def _padded(timestamp: str) -> str:
    """Fill up fractions of a second that were written with trailing zeros cut."""
    seconds, dot, fraction = timestamp.partition(".")
    if not dot:
        return timestamp
    digits = fraction.rstrip("Z")
    zone = "+00:00" if fraction.endswith("Z") else ""
    return f"{seconds}.{digits:0<6}"[: len(seconds) + 7] + zone if digits.isdigit() else timestamp
