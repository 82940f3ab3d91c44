"""Selects the models that answer questions, and sends the side requests that the state machine asks
for.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence

from midturn import ports
from midturn.events.types import Event, InquiryRequest
from midturn.journal import Journal
from midturn.runtime.loop_thread import is_cancelled
from midturn.runtime.services import TurnServices
from midturn.runtime.side_request import ChosenAssistant, chosen_assistant
from midturn.runtime.side_responder import Consultation, consult
from midturn.turn import inputs as steps
from midturn.turn.settings import TurnSettings


class Assistants:
    """The models that answer questions in one conversation (`ports.Consultant`)."""

    def __init__(self, services: TurnServices, settings: TurnSettings) -> None:
        self._services = services
        self._settings = settings

    def model_asked(self, request: InquiryRequest, tool: str) -> str:
        """Return the name of the model that answers this request."""
        return self._chosen(request, tool).model

    async def consult(
        self, request: InquiryRequest, tool: str, events: Sequence[Event]
    ) -> steps.AssistantReplied | steps.AssistantFailed:
        """Return a valid answer to a question, or the reason why there is none."""
        chosen = self._chosen(request, tool)
        main = self._services.request.request(self._settings.conversation, events)
        return await consult(
            self._services.side_models.find(chosen),
            Consultation(asked=request, tool=tool, main=main, settings=chosen),
        )

    def _chosen(self, request: InquiryRequest, tool: str) -> ChosenAssistant:
        models = self._services.side_models
        return chosen_assistant(
            models.main,
            models.inquiry,
            self._settings.tools[tool].question(request.question_id).target.assistant,
        )


async def ask_model(
    effect: steps.ConsultAssistant,
    consultant: ports.Consultant,
    journal: Journal,
    display: ports.Display,
) -> steps.AssistantReplied | steps.AssistantFailed:
    """Ask a model for an answer, and return the result as an input."""
    try:
        happened = await consultant.consult(effect.request, effect.tool, journal.events)
    except asyncio.CancelledError:
        if is_cancelled():
            raise
        happened = steps.AssistantFailed(effect.id, "the request was cancelled")
    except Exception as error:  # noqa: BLE001  whatever went wrong: the question closes, and the turn goes on
        happened = steps.AssistantFailed(effect.id, str(error) or type(error).__name__)
    display.show(ports.ConsultFinished(effect.id))
    if isinstance(happened, steps.AssistantFailed):
        _report_failure(
            effect,
            consultant.model_asked(effect.request, effect.tool),
            happened.error,
            journal,
            display,
        )
    return happened


def _report_failure(
    effect: steps.ConsultAssistant, model: str, error: str, journal: Journal, display: ports.Display
) -> None:
    """Log why a model did not answer.

    The log is for the operator of the run. Another person may be asked instead of the model.
    """
    said = f"`{model}` gave no answer to `{effect.tool}.{effect.request.question_id}`: {error}"
    logging.getLogger("midturn.models").warning("%s (conversation %s)", said, journal.conversation)
    display.show(ports.Notice(said))
