"""The `Prompter` protocol, and the two ways to ask: in a turn, and once beside one. Nothing else calls a prompter."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Awaitable
from typing import TYPE_CHECKING, Literal

from midturn.question.public_names import public_repr

if TYPE_CHECKING:
    from midturn.events.prompt import Prompt
    from midturn.question.reply import Reply


class Prompter(ABC):
    """Answers for the user: derive from it, and write `prompt`. Cancelling `prompt` takes the prompt away.

    `by` says for whom it speaks, and so what is recorded: a `user`, who may have a name (`user`), or a `policy` of the program, which has
    one (`name`). A policy answers, edits, or is `Unavailable`; it neither replies in a person's words nor ends a turn in their place.

    A prompter may also have `about_to_ask(question)`, which is called before `prompt` with the
    `OpenQuestion` that it asks (`prompt.open` is the same).
    """

    concurrent: bool = False
    """Whether several prompts may be open at once."""
    by: Literal["user", "policy"] = "user"
    """Whether a person answers here, or a policy of the program."""
    name: str | None = None
    """The name of the policy, recorded. Without it, the name of the class."""
    user: str | None = None
    """The person, where known; recorded."""
    via: str | None = None
    """The way people answer here (`terminal`, `chat`, …); recorded with each answer."""

    def __repr__(self) -> str:
        return public_repr(self, type(self).__name__)

    @abstractmethod
    async def prompt(self, prompt: Prompt) -> Reply:
        """Ask, and return one of the replies (`Answered`, `Replied`, `WentBack`, `EndedTurn`, `Deferred`, `Edited`, …).

        Args:
            prompt: What to ask, who asks it, and what may be replied.

        Raises:
            TerminalGone: The person is not there any more, and said nothing: the turn is left open.
        """

    def speaker(self, prompt: Prompt) -> Prompter:
        """Return who answers this prompt, and is recorded: itself, unless it passes some prompts on to another.

        Args:
            prompt: What is asked.
        """
        del prompt
        return self

    def withdrawn(self, id: str, by: str) -> Awaitable[None] | None:  # noqa: B027  it may be left as it is
        """Hear that the question was answered elsewhere; sync or async.

        Args:
            id: The question, as `prompt.id`.
            by: Who answered, as a sentence has it.
        """


async def ask_once(prompter: Prompter, prompt: Prompt) -> Reply:
    """Ask something that belongs to no turn, such as whether a file is trusted; nothing is recorded."""
    return await prompter.prompt(prompt)
