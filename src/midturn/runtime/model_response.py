"""The response of the model that is under way."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import TYPE_CHECKING

from midturn.core.exchange import Finished, ModelRequest, Part, ReasoningDelta, ReasoningPart, TextDelta, TextPart, Usage
from midturn.core.turn.inputs import Happened, ModelAnswered, ModelFailed, TurnFailed
from midturn.errors import ModelError, ScriptError
from midturn.ports import Display, Model, ModelFinished, ModelStarted, ReasoningShown, TextShown
from midturn.runtime.cancelling import is_cancelled

if TYPE_CHECKING:
    from midturn.runtime.tool_runs import Spawn


class ModelResponse:
    """Asks the model, shows what it says as it says it, and reports the whole."""

    def __init__(self, model: Model, display: Display, report: Callable[[Happened], None]) -> None:
        self._model = model
        self._display = display
        self._report = report
        self._said: list[TextDelta | ReasoningDelta] = []
        self._task: asyncio.Task[None] | None = None
        self.usage = Usage()
        self.failure: ModelError | None = None
        """What the last response failed with, if it did."""

    def start(self, request: ModelRequest, spawn: Spawn) -> None:
        """Ask the model."""
        self._said = []
        self._task = spawn(self._answer(request))

    def stop(self) -> None:
        """Stop the response at once."""
        if self._task:
            self._task.cancel()

    def said_so_far(self) -> tuple[Part, ...]:
        """Return what was shown of a response that is being cut off, with the metadata that came last."""
        thought = [delta for delta in self._said if isinstance(delta, ReasoningDelta)]
        said = [delta for delta in self._said if isinstance(delta, TextDelta)]
        parts: list[Part] = []
        if thought:
            parts.append(ReasoningPart("".join(delta.text for delta in thought), thought[-1].metadata))
        if said:
            parts.append(TextPart("".join(delta.text for delta in said), said[-1].metadata))
        return tuple(parts)

    async def _answer(self, request: ModelRequest) -> None:
        self._display.show(ModelStarted())
        try:
            happened = await self._stream(request)
        except ScriptError as error:
            happened = TurnFailed(str(error))
        except ModelError as error:
            self.failure = error
            happened = ModelFailed(str(error))
        except asyncio.CancelledError:
            if is_cancelled():
                raise
            happened = ModelFailed(f"{self._model.name} cancelled its own response")
        self._display.show(ModelFinished())
        self._said = []
        self._task = None
        self._report(happened)

    async def _stream(self, request: ModelRequest) -> Happened:
        finished: Finished | None = None
        async for event in self._model.stream(request):
            match event:
                case TextDelta(text):
                    self._said.append(event)
                    self._display.show(TextShown(text))
                case ReasoningDelta(text):
                    self._said.append(event)
                    self._display.show(ReasoningShown(text))
                case Finished():
                    finished = event
        if finished is None:
            return ModelFailed(f"{self._model.name} ended its response without finishing it")
        self.usage += finished.usage
        return ModelAnswered(finished.counted())
