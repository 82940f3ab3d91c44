"""The prompter of the person at this terminal."""

from __future__ import annotations

import asyncio
import os
import sys
from contextlib import suppress
from typing import Protocol

from msgspec.structs import replace

from midturn.collector import tidy
from midturn.errors import MidturnError, TerminalGone
from midturn.prompter import Prompter
from midturn.prompts.keys import BackTo, Jump, Ruled
from midturn.question.answer_type import Answered, EndedTurn, Reply, Unavailable, WentBack
from midturn.record.open_question import OpenQuestion
from midturn.record.prompt import Prompt, RuleDraft
from midturn.terminal.attributes import can_open_terminal
from midturn.terminal.device import Device, NoTerminal, open_device
from midturn.terminal.gate import TERMINAL, Gate
from midturn.terminal.live import ask_plain, ask_rich
from midturn.terminal.look import TerminalSettings, choose_mode
from midturn.terminal.notify import NotifyCommand, question_of
from midturn.terminal.restore import HUSH
from midturn.values.text import exact

_HANGING_UP = 0.05  # seconds: some terminal programs send the end of input before they close it


class OwnRules(Protocol):
    """Rules that a person writes at a prompt."""

    def draft(self, prompt: Prompt) -> RuleDraft | None:
        """Return the rule that is offered at a prompt."""
        ...

    def keep(self, prompt: Prompt, rule: str) -> str:
        """Write a rule down; return what is said of that.

        Raises:
            MidturnError: It cannot be written.
        """
        ...


class TerminalPrompter(Prompter):
    """Asks on the controlling terminal, whatever stdin, stdout and stderr are; one prompt at a time.

    `gate` holds back what others write to the same screen while a prompt is open; `rules` offers a rule with a permission, and writes it.

    Args:
        settings: How prompts look and sound; the usual way where none are given.
    """

    concurrent = False
    via = "terminal"

    def __init__(self, settings: TerminalSettings | None = None, gate: Gate | None = None, rules: OwnRules | None = None) -> None:
        self._rules = rules
        self._settings = settings or TerminalSettings()
        self._gate = gate or Gate()
        self._notify = NotifyCommand(self._settings.notify_command, self._tell)
        self._waiting: OpenQuestion | None = None
        self._had_terminal = can_open_terminal()
        self._jump = Jump()

    async def prompt(self, prompt: Prompt) -> Reply:
        """Ask, and return what the person did; `Unavailable` where no terminal opens or our job is in the background.

        Cancelling takes the prompt away at once and leaves the terminal as it was found.

        Args:
            prompt: What to ask.

        Raises:
            TerminalGone: There was a terminal, and it was closed without an answer.
        """
        if self._jump.passes(prompt):
            return WentBack()
        async with TERMINAL.pass_through():
            try:
                with HUSH.lifted(), open_device() as device:
                    return await self._reply(prompt, device)
            except NoTerminal as error:
                if self._had_terminal:
                    raise TerminalGone(str(error)) from error
                return Unavailable()
            finally:
                tidy()

    def about_to_ask(self, question: OpenQuestion) -> None:
        """Take note of what the next prompt asks, as everybody outside the turn sees it.

        Args:
            question: The question.
        """
        self._waiting = question

    def withdrawn(self, id: str, by: str) -> None:
        """Say who answered a prompt that was taken away.

        Args:
            id: The question, as `prompt.id`.
            by: Who answered.
        """
        del id
        if not self._settings.announces:
            return
        with suppress(NoTerminal, TerminalGone), open_device() as device:
            if device.in_foreground:
                self._gate.clear_status()
                device.write(f"The question was answered by {exact(by)}.\n")

    async def _reply(self, prompt: Prompt, device: Device) -> Reply:
        """Ask the person at the terminal; to leave the turn is a person's word only while the terminal is there."""
        if not device.in_foreground:
            device.check()
            return Unavailable()
        if self._rules and prompt.kind == "run":
            prompt = replace(prompt, rule=self._rules.draft(prompt))
        self._gate.asked.add(prompt.event)
        while isinstance(reply := await self._ask(prompt, device), Ruled) and self._rules:
            try:
                device.write(f"{exact(self._rules.keep(prompt, reply.rule))}\n")
            except MidturnError as error:
                prompt = replace(prompt, error=str(error))
            else:
                reply = Answered(value=True)
                break
        self._gate.answered.add(prompt.event)
        if isinstance(reply, EndedTurn):
            await asyncio.sleep(_HANGING_UP)
            device.check()
        return self._jump.begin(prompt, reply) if isinstance(reply, BackTo) else reply

    async def _ask(self, prompt: Prompt, device: Device) -> Reply:
        with self._gate.shut() as at_line_start:
            if not at_line_start:
                device.write("\n")
            if problem := self._call(prompt):
                device.write(f"{exact(problem)}\n")
            if choose_mode(self._settings.mode, os.environ) == "plain":
                return await ask_plain(prompt, device, self._settings)

            return await ask_rich(prompt, device, self._settings)

    def _call(self, prompt: Prompt) -> str | None:
        """Let the user's program know; a person whose answer did not fit is there already."""
        if prompt.error is not None:
            return None
        waiting = self._waiting
        return self._notify.run(waiting.to_json() if waiting is not None and waiting.id == prompt.id else question_of(prompt))

    def _tell(self, problem: str) -> None:
        if sys.stderr is not None:
            with suppress(OSError):  # it is not read
                self._gate.write(sys.stderr, f"midturn: {exact(problem)}\n")
