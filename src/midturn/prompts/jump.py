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
        self._call: str | None = None
        self._index = 0

    def note(self, prompt: Prompt, reply: Reply) -> Reply:
        """Take note of where a reply goes; return what is told to the turn."""
        if not isinstance(reply, BackTo):
            return reply
        self._call, self._index = _call(prompt), reply.index
        return WentBack()

    def passes(self, prompt: Prompt) -> bool:
        """Tell whether the way goes on past this prompt, so that nobody is shown it."""
        goes_on = _call(prompt) == self._call and prompt.kind == "tool" and prompt.index > self._index and prompt.can_go_back
        if not goes_on:
            self._call = None
        return goes_on


def _call(prompt: Prompt) -> str:
    """Return what the prompts of one form have in common: their ids end in the question and its attempt."""
    return prompt.id.rsplit(".", 2)[0]
