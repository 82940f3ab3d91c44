"""Whoever answers for the user, and the two ways to ask: in a turn, and once beside one. Nothing else calls a prompter."""

from __future__ import annotations

from typing import Protocol

from midturn.core.prompt import Prompt
from midturn.core.reply import Reply


class Prompter(Protocol):
    """Whoever answers for the user. Cancelling `prompt` takes the prompt away.

    Optional: `concurrent = True` where several prompts may be open at once; `via`, how people answer there, and `user`, who it is, which
    are recorded; `about_to_ask(question)` is called before `prompt`, with the `OpenQuestion` that it asks; `withdrawn(id, by)` is called
    when somebody else answered, and may be a coroutine function.
    """

    async def prompt(self, prompt: Prompt) -> Reply:
        """Ask, and return what the person did.

        Raises:
            TerminalGone: The person is not there any more, and said nothing: the turn is left open.
        """
        ...


async def ask_once(prompter: Prompter, prompt: Prompt) -> Reply:
    """Ask something that belongs to no turn, such as whether a file is trusted; nothing is recorded."""
    return await prompter.prompt(prompt)
