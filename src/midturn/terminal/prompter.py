"""The prompter of the person at this terminal (spec 5, 8b)."""

from __future__ import annotations

import os

from midturn.core.prompt import Prompt
from midturn.core.reply import EndedTurn, Reply, Unavailable
from midturn.terminal.device import Device, NoTerminal, TerminalGone, open_device
from midturn.terminal.gate import Gate
from midturn.terminal.mode import choose_mode
from midturn.terminal.plain import ask_plain
from midturn.terminal.settings import PromptSettings
from midturn.terminal.turnstile import TERMINAL


class TerminalPrompter:
    """Asks on the controlling terminal, whatever stdin, stdout and stderr are; one prompt at a time.

    `gate` holds back what others write to the same screen while a prompt is open.
    """

    concurrent = False
    via = "terminal"

    def __init__(self, settings: PromptSettings | None = None, gate: Gate | None = None) -> None:
        self._settings = settings or PromptSettings()
        self._gate = gate or Gate()

    async def prompt(self, prompt: Prompt) -> Reply:
        """Ask, and return what the person did; `Unavailable` where no terminal opens or our job is in the background.

        Cancelling takes the prompt away at once and leaves the terminal as it was found.
        """
        async with TERMINAL.pass_through():
            try:
                with open_device() as device:
                    if not device.in_foreground:
                        return Unavailable()
                    with self._gate.shut():
                        return await self._ask(prompt, device)
            except NoTerminal:
                return Unavailable()
            except TerminalGone:
                return EndedTurn()

    async def _ask(self, prompt: Prompt, device: Device) -> Reply:
        if not self._gate.at_line_start:
            device.write("\n")
        if choose_mode(self._settings.mode, os.environ) == "plain":
            return await ask_plain(prompt, device, self._settings.settle)
        return await ask_plain(prompt, device, self._settings.settle)
