"""Going back from a review to a question of the person's choice, one Back after the other."""

from __future__ import annotations

from midturn.core.prompt import Prompt
from midturn.core.reply import Reply, WentBack


class BackTo(WentBack, frozen=True):
    """Back, and on until the question with this `index`."""

    index: int = 1


class Jump:
    """What is left of the way back to a question: whoever asks passes each prompt here first."""

    def __init__(self) -> None:
        self._from: Prompt | None = None
        self._index = 0

    def begin(self, prompt: Prompt, reply: BackTo) -> Reply:
        """Take note of where a reply goes; return what is told to the turn."""
        self._from, self._index = prompt, reply.index
        return WentBack()

    def passes(self, prompt: Prompt) -> bool:
        """Tell whether the way goes on past this prompt, so that nobody is shown it."""
        if self._from is None:
            return False
        goes_on = _is_of_same_call(self._from, prompt) and prompt.kind == "tool" and prompt.index > self._index and prompt.can_go_back
        if not goes_on:
            self._from = None
        return goes_on


def _is_of_same_call(one: Prompt, other: Prompt) -> bool:
    """Tell whether two prompts that come one after the other belong to one call: a form keeps the screen until it is done."""
    return (one.conversation, one.tool, one.arguments) == (other.conversation, other.tool, other.arguments)
