"""The `Prompter` protocol, and `ask_once` for questions outside of a turn. Only a turn and
`ask_once` call a prompter.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Awaitable
from typing import TYPE_CHECKING, Literal

from midturn.question.public_names import public_repr

if TYPE_CHECKING:
    from midturn.events.prompt import Prompt
    from midturn.question.reply import Reply


class Prompter(ABC):
    """Asks the user. Subclass it and implement `prompt`. Cancelling `prompt` must close the prompt.

    `by` is the recorded kind of responder: `"user"` for a person, whose name is the attribute
    `user`, or `"policy"` for a policy of the program, whose name is the attribute `name`. A policy
    can answer, edit, or be `Unavailable`. It cannot reply in a person's words or end the turn.

    A prompter can also define `about_to_ask(question)`. This method is called before `prompt`
    with the `OpenQuestion` to ask (the same object as `prompt.open`).
    """

    concurrent: bool = False
    """Whether several prompts may be open at the same time."""
    by: Literal["user", "policy"] = "user"
    """Kind of responder: a person (`user`), or a policy of the program (`policy`)."""
    name: str | None = None
    """Name of the policy, recorded with its answers. Defaults to the name of the class."""
    user: str | None = None
    """Name of the person, if known; recorded with each answer."""
    via: str | None = None
    """Interface through which people answer (`terminal`, `chat`, …); recorded with each answer."""

    def __repr__(self) -> str:
        return public_repr(self, type(self).__name__)

    @abstractmethod
    async def prompt(self, prompt: Prompt) -> Reply:
        """Ask, and return the reply (`Answered`, `Replied`, `WentBack`, `EndedTurn`, `Deferred`,
        `Edited`, …).

        Args:
            prompt: The question, its asker, and the allowed replies.

        Raises:
            TerminalGone: The person disconnected without a reply. The turn stays open.
        """

    def speaker(self, prompt: Prompt) -> Prompter:
        """Return the prompter that answers this prompt and is recorded as the responder. Override
        it to pass some prompts to another prompter.

        Args:
            prompt: The prompt to answer.
        """
        del prompt
        return self

    def withdrawn(self, id: str, by: str) -> Awaitable[None] | None:  # noqa: B027  overriding it is optional
        """Called when the question was answered elsewhere. May be sync or async.

        Args:
            id: The question ID, as in `prompt.id`.
            by: The responder, as part of a sentence.
        """


async def ask_once(prompter: Prompter, prompt: Prompt) -> Reply:
    """Ask something outside of a turn, such as whether to trust a file. Nothing is recorded."""
    return await prompter.prompt(prompt)
