"""Which model is asked on the side, and with what."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from midturn.assistant.chosen import ChosenAssistant, chosen_assistant
from midturn.core.events import Event, InquiryRequest
from midturn.core.json_value import JsonObject
from midturn.core.turn.inputs import AssistantFailed, AssistantReplied
from midturn.core.turn.settings import TurnSettings
from midturn.ports import Model
from midturn.runtime.surroundings import Surroundings


class Assistants:
    """`ports.Consultant` in one conversation: `model_for` builds the model that the settings name.

    `tables` are the main assistant's settings and those of questions in general; a question's own are laid over them.
    """

    def __init__(
        self,
        model_for: Callable[[ChosenAssistant], Model],
        tables: tuple[JsonObject, JsonObject],
        turn: TurnSettings,
        surroundings: Surroundings,
    ) -> None:
        self._model_for = model_for
        self._tables = tables
        self._turn = turn
        self._surroundings = surroundings

    def model_asked(self, request: InquiryRequest, tool: str) -> str:
        """Return the name of the model that a question goes to."""
        return self._chosen(request, tool).model

    async def consult(self, request: InquiryRequest, tool: str, events: Sequence[Event]) -> AssistantReplied | AssistantFailed:
        """Return a checked answer to the request, or why there is none."""
        from midturn.assistant.responder import Consultation, consult  # in most turns no model is asked

        settings = self._chosen(request, tool)
        main = self._surroundings.request(events)
        return await consult(self._model_for(settings), Consultation(asked=request, tool=tool, main=main, settings=settings))

    def _chosen(self, request: InquiryRequest, tool: str) -> ChosenAssistant:
        return chosen_assistant(*self._tables, self._turn.tools[tool].question(request.question_id).target.assistant)
