"""Whoever answers for the user, and the two ways to ask: in a turn, and once beside one. Nothing else calls a prompter."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Awaitable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from midturn.core.prompt import Prompt
    from midturn.core.reply import Reply


class Prompter(ABC):
    """Whoever answers for the user: derive from it, and write `prompt`. Cancelling `prompt` takes the prompt away.

    A prompter may also have `user`, who it is, which is recorded, and `about_to_ask(question)`, which is called before `prompt` with the
    `OpenQuestion` that it asks (`prompt.open` is the same).
    """

    concurrent: bool = False
    """Whether several prompts may be open at once."""
    via: str | None = None
    """How people answer here (`terminal`, `chat`, …); recorded with each answer."""

    @abstractmethod
    async def prompt(self, prompt: Prompt) -> Reply:
        """Ask, and return what the person did: `Answered`, `Replied`, `WentBack`, `EndedTurn`, `Edited`, `Submitted`, `Unavailable`.

        Args:
            prompt: What to ask, who asks it, and what may be replied.

        Raises:
            TerminalGone: The person is not there any more, and said nothing: the turn is left open.
        """

    def withdrawn(self, id: str, by: str) -> Awaitable[None] | None:  # noqa: B027  it may be left as it is
        """Hear that somebody else answered; sync or async.

        Args:
            id: The question, as `prompt.id`.
            by: Who answered, as a sentence has it.
        """


async def ask_once(prompter: Prompter, prompt: Prompt) -> Reply:
    """Ask something that belongs to no turn, such as whether a file is trusted; nothing is recorded."""
    return await prompter.prompt(prompt)
