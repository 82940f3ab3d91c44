"""Where a turn begins and ends, and what its flags set."""

from __future__ import annotations

from midturn.core.events.base import Event
from midturn.core.json_value import Json


class TurnStart(Event, frozen=True, kw_only=True, omit_defaults=True, tag_field="type", tag="turn_start"):
    """A turn begins."""


class TurnEnd(Event, frozen=True, kw_only=True, omit_defaults=True, tag_field="type", tag="turn_end"):
    """A turn is over: `completed`, `ended_by_user` or `failed` (with `error`). Without it, the last turn is open."""

    status: str
    error: str | None = None


class ConfigDelta(Event, frozen=True, kw_only=True, omit_defaults=True, tag_field="type", tag="config_delta"):
    """What flags set for this conversation; legacy streams write it in more than one shape."""

    delta: Json = None
