"""A person who answers where `input()` reads: in a notebook, in an interactive interpreter."""

from __future__ import annotations

import getpass

from midturn.core.prompt import Prompt
from midturn.core.reply import EndedTurn, Reply, Unavailable
from midturn.prompter import Prompter
from midturn.prompts.plain.dialog import Dialog, Say, Saying
from midturn.prompts.plain.prompt import plain_dialog
from midturn.prompts.plain.scene import Scene


class InputPrompter(Prompter):
    """Asks with `print()` and `input()`, and secrets with `getpass`: for notebooks, which have no terminal of their own.

    It blocks the event loop while it waits, as `input()` does there; nothing that others answer meanwhile takes the question away. Where
    there is no input at all, it is as if nobody was attached.

    Args:
        width: How many cells a row has.
    """

    via = "input"

    def __init__(self, width: int = 80) -> None:
        self._width = width

    async def prompt(self, prompt: Prompt) -> Reply:
        """Ask, line by line, until there is a reply; the end of input ends the turn.

        Args:
            prompt: What to ask.
        """
        scene = Scene(prompt, self._width)
        try:
            reply = _conversed(plain_dialog(scene))
        except EOFError:
            return EndedTurn()
        except (OSError, RuntimeError):  # no input here: a notebook that runs unattended, a closed stdin
            return Unavailable()
        print(scene.transcript(reply))  # noqa: T201  where the person reads
        return reply


def _conversed(dialog: Dialog) -> Reply:
    saying = next(dialog)
    while True:
        try:
            saying = dialog.send(_heard(saying))
        except StopIteration as stop:
            return stop.value


def _heard(saying: Saying) -> str:
    """Say something, and return the line that was typed; a text to be edited stays as it is, for there is no editor."""
    if not isinstance(saying, Say):
        return saying.text
    for row in saying.rows:
        print(row)  # noqa: T201  where the person reads
    return getpass.getpass(saying.ask) if saying.entry == "hidden" else input(saying.ask)
