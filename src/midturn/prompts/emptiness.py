"""An empty text that nobody asked for is sent only when Enter says so twice."""

from __future__ import annotations

from midturn.core.prompt import Prompt
from midturn.prompts.content import initial

EMPTY_TEXT = "that is an empty text: press Enter again to send it"
EMPTY_SECRET = "nothing was typed: press Enter again to send an empty secret"  # noqa: S105 (it is none)


class Empty:
    """Refuses an empty answer once, unless the question may be skipped, or starts from an empty text."""

    def __init__(self, prompt: Prompt) -> None:
        self._refuses = not prompt.question.optional and initial(prompt) != ""

    def refuses(self) -> bool:
        """Tell whether to ask again; the second time it is meant."""
        refuses, self._refuses = self._refuses, False
        return refuses
