"""Consultations: the model that a question goes to, its request, and the requests under way."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from midturn.assistant.request import ChosenAssistant, chosen_assistant
from midturn.assistant.responder import Consultation, consult
from midturn.journal import Journal
from midturn.ports import Consultant, ConsultFinished, ConsultStarted, Display, Model
from midturn.record.events import Event, InquiryRequest
from midturn.runtime.loop_thread import is_cancelled
from midturn.runtime.surroundings import Surroundings
from midturn.turn.effects import ConsultAssistant
from midturn.turn.inputs import AssistantFailed, AssistantReplied, Happened, TurnSettings
from midturn.values.json_value import JsonObject

if TYPE_CHECKING:
    from midturn.runtime.tool_runs import Spawn


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
        settings = self._chosen(request, tool)
        main = self._surroundings.request(events)
        return await consult(self._model_for(settings), Consultation(asked=request, tool=tool, main=main, settings=settings))

    def _chosen(self, request: InquiryRequest, tool: str) -> ChosenAssistant:
        return chosen_assistant(*self._tables, self._turn.tools[tool].question(request.question_id).target.assistant)


# ----------------------------------------------------------------------------------------------------------------------
# Consultations under way: one task for each question


class Consulting:
    """Asks models on the side, shows which one is asked, and reports what they answered."""

    def __init__(self, consultant: Consultant, journal: Journal, display: Display, report: Callable[[Happened], None]) -> None:
        self._consultant = consultant
        self._journal = journal
        self._display = display
        self._report = report
        self._tasks: dict[str, asyncio.Task[None]] = {}

    def start(self, effect: ConsultAssistant, spawn: Spawn) -> None:
        """Ask a model."""
        self._display.show(ConsultStarted(effect.id, self._consultant.model_asked(effect.request, effect.tool)))
        self._tasks[effect.id] = spawn(self._ask(effect))

    def stop(self, id: str) -> None:
        """Stop asking."""
        task = self._tasks.pop(id, None)
        if task:
            task.cancel()
            self._display.show(ConsultFinished(id))

    async def _ask(self, effect: ConsultAssistant) -> None:
        try:
            happened: Happened = await self._consultant.consult(effect.request, effect.tool, self._journal.events)
        except asyncio.CancelledError:
            if is_cancelled():
                raise
            happened = AssistantFailed(effect.id, "the request was cancelled")
        except Exception as error:  # noqa: BLE001  whatever went wrong: the question closes, and the turn goes on
            happened = AssistantFailed(effect.id, str(error) or type(error).__name__)
        self._tasks.pop(effect.id, None)
        self._display.show(ConsultFinished(effect.id))
        self._report(happened)
