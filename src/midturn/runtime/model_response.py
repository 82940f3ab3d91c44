"""Requests a response from the model, shows it as it arrives, and returns it as one input."""

from __future__ import annotations

import asyncio

from midturn import ports
from midturn.errors import ModelError, ScriptError
from midturn.events.types import ChatResponse
from midturn.exchange import (
    BrokeOff,
    Finished,
    ModelRequest,
    ReasoningDelta,
    TextDelta,
    Usage,
    recorded,
)
from midturn.runtime.loop_thread import is_cancelled
from midturn.turn import inputs as steps


class PartialResponse:
    """State of the model responses in this run: the text shown so far, the usage, and the last
    failure.
    """

    def __init__(self) -> None:
        self.deltas: list[TextDelta | ReasoningDelta] = []
        self.usage = Usage()
        self.failure: ModelError | None = None
        """The error of the last response, if it failed."""

    def said_so_far(self) -> tuple[ChatResponse, ...]:
        """Return the shown part of an interrupted response, with its latest metadata."""
        thought = [delta for delta in self.deltas if isinstance(delta, ReasoningDelta)]
        said = [delta for delta in self.deltas if isinstance(delta, TextDelta)]
        parts: list[ChatResponse] = []
        if thought:
            parts.append(
                ChatResponse(
                    reasoning="".join(delta.text for delta in thought),
                    metadata=thought[-1].metadata,
                )
            )
        if said:
            parts.append(
                ChatResponse(
                    message="".join(delta.text for delta in said), metadata=said[-1].metadata
                )
            )
        return tuple(parts)


async def call_model(
    model: ports.Model, request: ModelRequest, display: ports.Display, partial: PartialResponse
) -> steps.ModelAnswered | steps.ModelFailed | steps.TurnFailed:
    """Request a response, show it, and return it as an input."""
    partial.deltas = []
    display.show(ports.ModelStarted())
    try:
        happened = await _stream(model, request, display, partial)
    except ScriptError as error:
        happened = steps.TurnFailed(str(error))
    except ModelError as error:
        partial.failure = error
        happened = steps.ModelFailed(str(error))
    except asyncio.CancelledError:
        if is_cancelled():
            raise
        happened = steps.ModelFailed(f"{model.name} cancelled its own response")
    display.show(ports.ModelFinished())
    partial.deltas = []
    return happened


async def _stream(
    model: ports.Model, request: ModelRequest, display: ports.Display, partial: PartialResponse
) -> steps.ModelAnswered | steps.ModelFailed:
    finished: Finished | None = None
    restarts = False
    async for event in model.stream(request):
        if restarts:  # keep the interrupted response's text until the retry sends its first delta
            partial.deltas, restarts = [], False
        match event:
            case TextDelta(text):
                partial.deltas.append(event)
                display.show(ports.TextShown(text))
            case ReasoningDelta(text):
                partial.deltas.append(event)
                display.show(ports.ReasoningShown(text))
            case BrokeOff():
                restarts = True
                display.show(ports.ModelFinished())
                display.show(ports.ModelStarted())
            case Finished():
                finished = event
    if finished is None:
        return steps.ModelFailed(f"{model.name} ended its response without finishing it")
    partial.usage += finished.usage
    return steps.ModelAnswered(tuple(map(recorded, finished.counted(model.name))))
