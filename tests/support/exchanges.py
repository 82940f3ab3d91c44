"""Helpers to call a model and read its answer."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from midturn.events.types import ChatResponse, Event, ToolCallRequest
from midturn.exchange import (
    Finished,
    ModelEvent,
    ModelRequest,
    Part,
    ReasoningPart,
    StructuredPart,
    TextPart,
    ToolCallPart,
)
from midturn.ports import Model


def ask(model: Model, request: ModelRequest | None = None) -> list[ModelEvent]:
    """Call the model once; return all its events."""

    async def collect() -> list[ModelEvent]:
        return [event async for event in model.stream(request or ModelRequest())]

    return asyncio.run(collect())


def finish(model: Model, request: ModelRequest | None = None) -> Finished:
    """Call the model once; return the end of its answer."""
    last = ask(model, request)[-1]
    assert isinstance(last, Finished)
    return last


def recorded(parts: Sequence[Part]) -> list[Event]:
    """Return the events that a turn records for an answer."""
    return [_event(part, index) for index, part in enumerate(parts)]


def _event(part: Part, index: int) -> Event:
    match part:
        case TextPart(text):
            return ChatResponse(message=text, metadata=part.metadata)
        case ReasoningPart(text):
            return ChatResponse(reasoning=text, metadata=part.metadata)
        case StructuredPart(value):
            return ChatResponse(structured=value, metadata=part.metadata)
        case ToolCallPart(id, name, arguments):
            return ToolCallRequest(
                event_id=f"e_{id}_{index}",
                id=id,
                name=name,
                arguments=arguments,
                metadata=part.metadata,
            )
