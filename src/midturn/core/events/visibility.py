"""Which events a provider may see: an allow-list, decided here and nowhere else."""

from __future__ import annotations

from typing import Final, TypeAlias

from midturn.core.events.base import Event
from midturn.core.events.chat import ChatRequest, ChatResponse
from midturn.core.events.tool_call import ToolCallRequest, ToolCallResponse

VisibleEvent: TypeAlias = ChatRequest | ChatResponse | ToolCallRequest | ToolCallResponse

_ALLOWED: Final = (ChatRequest, ChatResponse, ToolCallRequest, ToolCallResponse)


def visible(event: Event) -> bool:
    """Say whether providers are sent this event."""
    return isinstance(event, _ALLOWED)
