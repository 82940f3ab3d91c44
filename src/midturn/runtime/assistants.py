"""Which model is asked on the side, and with what."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from midturn.assistant.responder import Consultation, consult
from midturn.assistant.settings import AssistantSettings, assistant_settings
from midturn.core.events import Event, InquiryRequest
from midturn.core.json_value import JsonObject
from midturn.core.turn.inputs import AssistantFailed, AssistantReplied
from midturn.core.turn.settings import TurnSettings
from midturn.ports import Model
from midturn.runtime.answering import request_for
from midturn.runtime.surroundings import Surroundings


class Assistants:
    """`ports.Consultant` over the models of a configuration: `model_for` builds the one that the settings name."""

    def __init__(self, model_for: Callable[[AssistantSettings], Model], main: JsonObject, inquiry: JsonObject) -> None:
        self._model_for = model_for
        self._main = main
        self._inquiry = inquiry
        self._turn: TurnSettings | None = None
        self._surroundings: Surroundings | None = None

    def attend(self, turn: TurnSettings, surroundings: Surroundings) -> None:
        """Take up the conversation whose questions are to be answered."""
        self._turn = turn
        self._surroundings = surroundings

    async def consult(self, request: InquiryRequest, tool: str, events: Sequence[Event]) -> AssistantReplied | AssistantFailed:
        """Return a checked answer to the request, or why there is none."""
        if self._turn is None or self._surroundings is None:
            raise RuntimeError("no conversation is attended")
        target = self._turn.tools[tool].question(request.question_id).target.assistant
        settings = assistant_settings(self._main, self._inquiry, target)
        main = request_for(self._surroundings, events)
        return await consult(self._model_for(settings), Consultation(asked=request, tool=tool, main=main, settings=settings))
