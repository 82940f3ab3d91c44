"""Whoever answers for the user, and the two ways to ask: in a turn, and once beside one. Nothing else calls a prompter."""

from __future__ import annotations

from abc import abstractmethod
from typing import TYPE_CHECKING, Protocol

from midturn.core.prompt import Prompt
from midturn.core.reply import Reply


class Prompter(Protocol):
    """Whoever answers for the user: derive from it, or write `prompt` alone. Cancelling `prompt` takes the prompt away.

    A prompter may also have `user`, who it is, which is recorded, and `about_to_ask(question)`, which is called before `prompt` with the
    `OpenQuestion` that it asks (`prompt.open` is the same).
    """

    @abstractmethod
    async def prompt(self, prompt: Prompt) -> Reply:
        """Ask, and return what the person did.

        Raises:
            TerminalGone: The person is not there any more, and said nothing: the turn is left open.
        """
        ...

    if not TYPE_CHECKING:  # what those inherit who derive; nobody else needs to have it
        concurrent = False
        via = None

        def withdrawn(self, id: str, by: str) -> None:
            """Hear that somebody else answered."""


async def ask_once(prompter: Prompter, prompt: Prompt) -> Reply:
    """Ask something that belongs to no turn, such as whether a file is trusted; nothing is recorded."""
    return await prompter.prompt(prompt)
