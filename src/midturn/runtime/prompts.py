"""The prompts that are open now: one task each (spec 2.1)."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from midturn.core.events import AnsweredBy
from midturn.core.prompt import Prompt
from midturn.core.reply import Unavailable
from midturn.core.turn.effects import ClosePrompt
from midturn.core.turn.inputs import Happened, PromptFailed, UserReplied
from midturn.runtime.prompter import Prompter
from midturn.runtime.tool_runs import Spawn


class OpenPrompts:
    """Shows prompts, and reports what came back."""

    def __init__(self, prompter: Prompter | None, report: Callable[[Happened], None]) -> None:
        self._prompter = prompter
        self._report = report
        self._tasks: dict[str, asyncio.Task[None]] = {}
        self._answered_by: dict[str, str] = {}

    @property
    def any_open(self) -> bool:
        """Whether somebody is being asked now."""
        return bool(self._tasks)

    def open(self, prompt: Prompt, spawn: Spawn) -> None:
        """Show a prompt."""
        self._tasks[prompt.id] = spawn(self._ask(prompt))

    def expect_answer(self, id: str, who: AnsweredBy) -> None:
        """Note who answers a question elsewhere, for the prompt that closes because of it."""
        self._answered_by[id] = who.user or who.via or who.by

    def close(self, effect: ClosePrompt) -> None:
        """Take a prompt away, and let the prompter know who answered instead."""
        task = self._tasks.pop(effect.id, None)
        if task is None:
            return
        task.cancel()
        withdrawn = getattr(self._prompter, "withdrawn", None)
        if withdrawn:
            withdrawn(effect.id, self._answered_by.pop(effect.id, effect.by))

    async def _ask(self, prompt: Prompt) -> None:
        if self._prompter is None:
            self._report(UserReplied(prompt.id, Unavailable()))
            return
        try:
            reply = await self._prompter.prompt(prompt)
        except Exception as error:  # noqa: BLE001  a prompter is anybody's code: the question closes, and the turn goes on
            happened: Happened = PromptFailed(prompt.id, str(error) or type(error).__name__)
        else:
            via: str | None = getattr(self._prompter, "via", None)
            happened = UserReplied(prompt.id, reply, AnsweredBy("user", via=via))
        self._tasks.pop(prompt.id, None)
        self._report(happened)
