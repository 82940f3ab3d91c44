"""The models that are asked on the side now: one task a question."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import TYPE_CHECKING

from midturn.core.turn.effects import ConsultAssistant
from midturn.core.turn.inputs import AssistantFailed, Happened
from midturn.journal import Journal
from midturn.ports import Consultant, ConsultFinished, ConsultStarted, Display
from midturn.runtime.cancelling import is_cancelled

if TYPE_CHECKING:
    from midturn.runtime.tool_runs import Spawn


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
