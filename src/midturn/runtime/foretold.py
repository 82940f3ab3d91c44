"""What a call would ask first, told together with its permission: one question for one thing.

A tool may foretell the question that it would ask if it ran now, such as whether to overwrite a file that exists. The person then sees that
question in place of the permission's own words. Who says yes to it has answered it, as long as the tool asks the very same question.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from typing import Any

from msgspec.structs import replace

from midturn.core.events import InquiryRequest
from midturn.core.prompt import Prompt
from midturn.core.question import Question
from midturn.core.reply import Answered, Reply
from midturn.core.subject import CallSubject
from midturn.core.turn.inputs import Asking
from midturn.ports import Journal, Tool, ToolRun
from midturn.runtime.surroundings import Surroundings

_LOG = logging.getLogger(__name__)


class Foretold:
    """The questions that were told beforehand, by call."""

    def __init__(self, tools: Mapping[str, Tool], surroundings: Surroundings, journal: Journal) -> None:
        self._tools = tools
        self._surroundings = surroundings
        self._journal = journal
        self._told: dict[str, Question[Any]] = {}
        self._agreed: dict[str, Question[Any]] = {}

    def shown(self, prompt: Prompt) -> Prompt:
        """Return the prompt of a permission as the person sees it."""
        question = self._first_question(prompt)
        if question is None or not isinstance(prompt.subject, CallSubject):
            return prompt
        self._told[prompt.subject.call.event] = question
        return replace(prompt, question=replace(prompt.question, text=question.text, context=question.context))

    def note(self, prompt: Prompt, reply: Reply) -> None:
        """Take note of what a person said who saw it."""
        if not isinstance(prompt.subject, CallSubject):
            return
        told = self._told.pop(prompt.subject.call.event, None)
        if told is not None and isinstance(reply, Answered) and reply.value is True:
            self._agreed[prompt.subject.call.event] = told

    def is_answered(self, prompt: Prompt) -> bool:
        """Tell whether a question of the tool is the one that the person has just said yes to; it counts once."""
        asked = next((event for event in reversed(self._journal.events) if event.event_id == prompt.event), None)
        if not isinstance(asked, InquiryRequest):
            return False
        told = self._agreed.pop(asked.call, None)
        return told is not None and asked.question_id == told.id and asked.question.key == told.persisted().key

    def _first_question(self, prompt: Prompt) -> Question[Any] | None:
        foretell: Callable[[ToolRun], Question[Any] | None] | None = getattr(self._tools.get(prompt.tool), "foretell", None)
        if prompt.kind != "run" or foretell is None or not isinstance(prompt.subject, CallSubject):
            return None
        try:
            return foretell(self._surroundings.of_run(prompt.subject.call, {}, _nobody))
        except Exception:  # noqa: BLE001  whatever it is: the call itself will say what is wrong
            _LOG.debug("%r could not foretell what it asks", prompt.tool, exc_info=True)
            return None


async def _nobody(asking: Asking) -> Any:
    """Answer nothing: what is foretold is not asked."""
    raise NotImplementedError(asking)
