"""A person who answers through the inbox, while the program waits."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Awaitable, Callable
from typing import Any, TypeAlias

from midturn.core.prompt import Prompt
from midturn.core.question.answer_type import SecretType
from midturn.core.reply import Reply, Unavailable
from midturn.prompter import Prompter

Announce: TypeAlias = Callable[[Prompt], Awaitable[Any] | None]
Withdrawn: TypeAlias = Callable[[str, str], Awaitable[Any] | None]


class InboxPrompter(Prompter):
    """Waits until somebody answers with `store.answer` or `midturn answer`, in this process or another; the turn goes on at once then.

    Unlike a turn without a prompter, which is suspended and leaves, the program stays. What an inbox cannot answer while the
    conversation is held (a secret, a permission, a review) counts as if nobody was attached: `detached` decides, and by default the turn
    is suspended.

    Args:
        announce: Hears of each question when it is asked, to tell whoever should answer; `prompt.id` is what
            `store.answer` takes. It may be a coroutine function.
        withdrawn: Hears, with the prompt's `id`, who answered elsewhere. It may be a coroutine function.
    """

    concurrent = True
    via = "inbox"

    def __init__(self, announce: Announce | None = None, withdrawn: Withdrawn | None = None) -> None:
        self._announce = announce
        self._withdrawn = withdrawn

    async def prompt(self, prompt: Prompt) -> Reply:
        """Wait until the answer has come from elsewhere, which takes this prompt away.

        Args:
            prompt: What to ask.
        """
        if prompt.kind not in ("tool", "deliver") or isinstance(prompt.question.answer_type, SecretType):
            return Unavailable()
        if self._announce:
            await _done(self._announce(prompt))
        await asyncio.Event().wait()
        raise AssertionError("nobody sets this event")

    async def withdrawn(self, id: str, by: str) -> None:
        """Pass on who answered.

        Args:
            id: The question, as `prompt.id`.
            by: Who answered.
        """
        if self._withdrawn:
            await _done(self._withdrawn(id, by))


async def _done(said: Awaitable[Any] | None) -> None:
    if inspect.isawaitable(said):
        await said
