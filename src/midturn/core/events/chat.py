"""What the user and the model say."""

from __future__ import annotations

from msgspec import UNSET, UnsetType

from midturn.core.events.base import Event
from midturn.core.json_value import Json, JsonObject


class ChatRequest(Event, frozen=True, kw_only=True, omit_defaults=True, tag_field="type", tag="chat_request"):
    """What the user asked; with `schema`, an answer of that shape is wanted."""

    content: str
    author: str | None = None
    schema: JsonObject | None = None


class ChatResponse(Event, frozen=True, kw_only=True, omit_defaults=True, tag_field="type", tag="chat_response"):
    """One part of what the model answered: exactly one of `message`, `reasoning`, `structured`."""

    message: str | None = None
    reasoning: str | None = None
    structured: Json | UnsetType = UNSET
