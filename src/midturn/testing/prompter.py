"""A prompter that answers from a script."""

from __future__ import annotations

import inspect
from collections import deque
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, Literal, TypeAlias, cast, get_args

from midturn.errors import AnswerError, ScriptError
from midturn.events.prompt import Prompt
from midturn.prompter import Prompter
from midturn.question.answer_type import MultiSelectType
from midturn.question.json_value import Json, SecretValue
from midturn.question.reply import Answered, EndedTurn, Reply, Submitted, Unavailable

Unscripted: TypeAlias = Literal["raise", "unavailable", "end_turn"]
ScriptedValue: TypeAlias = "Reply | Json | SecretValue"
ScriptFunction: TypeAlias = Callable[[Prompt], "ScriptedValue | Awaitable[ScriptedValue]"]
Scripted: TypeAlias = "ScriptedValue | Sequence[ScriptedValue] | ScriptFunction"
_REPLIES = cast("tuple[type, ...]", get_args(Reply))


class OutOfScript(ScriptError, AssertionError):  # noqa: N818  an assertion of a test
    """The script has no reply for a prompt. The turn ends with status `failed`."""


class ScriptedPrompter(Prompter):
    """Prompter that replies from a script.

    The key of a reply is `<tool>.<question id>`. The keys of approvals are `<tool>.__run__` and
    `<tool>.__deliver__`.

    Each value of `replies` is one of:

    - an answer or a reply (`Replied("…")`, `EndedTurn()`, …), used once;
    - a list of replies, used in order, unless the list itself is a valid answer to the question;
    - a function of the prompt, called each time.

    A review step without a scripted reply is submitted. At the end of the test, call
    `assert_exhausted` to check that all replies were used and all prompts had a reply. The fixture
    `scripted_prompter` does so.

    Args:
        replies: Replies by key.
        unscripted: Reaction to a prompt without a scripted reply: `raise`, `unavailable` (as if no
            one was attached), or `end_turn`.
        user: Name of the person that the script plays, for questions that are assigned to people.
            Create one prompter for each person. A question for another person suspends the turn.
            Resume it with that person's prompter: `agent.resume(conversation, prompter=…)`.
    """

    def __init__(
        self,
        replies: Mapping[str, Scripted | Any] | None = None,
        *,
        unscripted: Unscripted = "raise",
        user: str | None = None,
    ) -> None:
        self.user = user
        self._scripted: dict[str, Scripted] = dict(replies or {})
        self._queues: dict[str, deque[ScriptedValue]] = {}
        self._used: set[str] = set()
        self._unscripted = unscripted
        self._missing: list[str] = []
        self._invalid: list[str] = []
        self.prompts: list[Prompt] = []
        """All prompts shown so far, in order."""

    async def prompt(self, prompt: Prompt) -> Reply:
        """Return the scripted reply.

        Args:
            prompt: The prompt to reply to.

        Raises:
            OutOfScript: The script has no reply or no further reply for this prompt, and
                `unscripted` is `raise`.
        """
        self.prompts.append(prompt)
        key = f"{prompt.tool}.{prompt.question.id}"
        scripted = self._scripted.get(key)
        if callable(scripted) and not isinstance(scripted, SecretValue):
            self._used.add(key)
            said = cast("Callable[[Prompt], Any]", scripted)(prompt)
            return _reply(await said if inspect.isawaitable(said) else said)
        if key in self._scripted and key not in self._queues:
            self._queues[key] = deque(_split_replies(scripted, prompt))
        if self._queues.get(key):
            self._used.add(key)
            return self._check_reply(key, prompt, _reply(self._queues[key].popleft()))
        return self._default_reply(key, prompt)

    def _check_reply(self, key: str, prompt: Prompt, reply: Reply) -> Reply:
        """Return the reply if it is valid.

        Raises:
            OutOfScript: The reply is an invalid answer, and it is the last one for this key.
        """
        if (
            not isinstance(reply, Answered)
            or isinstance(reply.value, SecretValue)
            or self._queues[key]
            or prompt.kind != "tool"
        ):
            return reply
        try:
            prompt.question.check(reply.value)
        except AnswerError as error:
            self._invalid.append(f"the reply to `{key}` is invalid: {error}")
            raise OutOfScript(
                f"The scripted reply to `{key}` ({prompt.question.text!r}) is invalid: {error}"
            ) from None
        return reply

    def assert_exhausted(self) -> None:
        """Fail if a prompt had no valid reply, or if replies are left over.

        Raises:
            AssertionError: A prompt had no valid reply, or a reply is left over. The message lists
                all of them.
        """
        left = [
            (
                f"`{key}` was never asked"
                if key not in self._used
                else f"`{key}` has {len(self._queues[key])} more"
            )
            for key in self._scripted
            if key not in self._used or self._queues.get(key)
        ]
        problems = [
            *self._invalid,
            *([f"prompts without a reply: {'; '.join(self._missing)}"] if self._missing else []),
            *([f"replies left over: {'; '.join(left)}"] if left else []),
        ]
        if problems:
            raise AssertionError(
                f"The scripted prompter: {'. '.join(problem.rstrip('.') for problem in problems)}."
            )

    def _default_reply(self, key: str, prompt: Prompt) -> Reply:
        if prompt.kind == "review":
            return Submitted()
        if self._unscripted == "unavailable":
            return Unavailable()
        if self._unscripted == "end_turn":
            return EndedTurn()
        self._missing.append(f"`{key}` ({prompt.question.text})")
        known = ", ".join(f"`{name}`" for name in self._scripted) or "none"
        raise OutOfScript(
            f"The script has no reply for `{key}`: {prompt.question.text!r}. It has: {known}."
        )


def _split_replies(scripted: Scripted, prompt: Prompt) -> list[ScriptedValue]:
    """Return the scripted replies as a list. A list that is itself a valid answer counts as one
    reply.
    """
    if not isinstance(scripted, list):
        return [cast("ScriptedValue", scripted)]
    replies = cast("list[ScriptedValue]", scripted)
    if any(isinstance(reply, (*_REPLIES, SecretValue)) for reply in replies):
        return replies
    if (
        isinstance(prompt.question.answer_type, MultiSelectType)
        and replies
        and not any(isinstance(reply, list) for reply in replies)
    ):
        # no single item can be a valid answer, so report errors about the whole list
        return [cast("Json", replies)]
    try:
        prompt.question.check(replies)
    except AnswerError:
        return replies
    return [cast("Json", replies)]


def _reply(said: ScriptedValue) -> Reply:
    return (
        cast("Reply", said)
        if isinstance(said, _REPLIES)
        else Answered(cast("Json | SecretValue", said))
    )
