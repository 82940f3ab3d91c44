"""A person who answers by script."""

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
Scripted: TypeAlias = "ScriptedValue | Sequence[ScriptedValue] | Callable[[Prompt], ScriptedValue | Awaitable[ScriptedValue]]"
_REPLIES = cast("tuple[type, ...]", get_args(Reply))


class OutOfScript(ScriptError, AssertionError):  # noqa: N818  an assertion of a test
    """A prompt was shown that the script has no reply for: its turn ends `failed`."""


class ScriptedPrompter(Prompter):
    """Answer prompts by `<tool>.<question id>`; approvals are `<tool>.__run__` and `<tool>.__deliver__`.

    A value is an answer, a reply (`Replied("…")`, `EndedTurn()`, …), or a function of the prompt, which replies as often as it is asked.
    Everything else replies once; a list holds one reply for each time, unless the list itself is a valid answer to the question.
    A review step that the script does not name is submitted.

    Args:
        replies: What is said, by key.
        unscripted: For any other prompt: `raise`, be `unavailable`, or `end_turn`.
        user: Whom the script plays, for questions of certain people. Several people are several prompters, one after the other: the turn
            waits for the next person, and is resumed with `agent.resume(conversation, prompter=…)`.

    Call `assert_exhausted` when the test is over (the fixture `scripted_prompter` does): replies left over and prompts without one fail it.
    """

    def __init__(
        self, replies: Mapping[str, Scripted | Any] | None = None, *, unscripted: Unscripted = "raise", user: str | None = None
    ) -> None:
        self.user = user
        self._replies: dict[str, Scripted] = dict(replies or {})
        self._queues: dict[str, deque[ScriptedValue]] = {}
        self._used: set[str] = set()
        self._unscripted = unscripted
        self._missing: list[str] = []
        self._wrong: list[str] = []
        self.prompts: list[Prompt] = []
        """Every prompt that was shown, in order."""

    async def prompt(self, prompt: Prompt) -> Reply:
        """Reply as the script says.

        Args:
            prompt: What to ask.

        Raises:
            OutOfScript: The script has no (further) reply, and `unscripted` is `raise`.
        """
        self.prompts.append(prompt)
        key = f"{prompt.tool}.{prompt.question.id}"
        scripted = self._replies.get(key)
        if callable(scripted) and not isinstance(scripted, SecretValue):
            self._used.add(key)
            said = cast("Callable[[Prompt], Any]", scripted)(prompt)
            return _reply(await said if inspect.isawaitable(said) else said)
        if key in self._replies and key not in self._queues:
            self._queues[key] = deque(_one_by_one(scripted, prompt))
        if self._queues.get(key):
            self._used.add(key)
            return self._fitting(key, prompt, _reply(self._queues[key].popleft()))
        return self._without_script(key, prompt)

    def _fitting(self, key: str, prompt: Prompt, reply: Reply) -> Reply:
        """Return the reply, unless it is an answer that does not fit: then the script is wrong, and says why.

        Raises:
            OutOfScript: It does not fit, and no other reply follows.
        """
        if not isinstance(reply, Answered) or isinstance(reply.value, SecretValue) or self._queues[key] or prompt.kind != "tool":
            return reply
        try:
            prompt.question.check(reply.value)
        except AnswerError as error:
            self._wrong.append(f"the reply to `{key}` does not fit: {error}")
            raise OutOfScript(f"The scripted reply to `{key}` ({prompt.question.text!r}) does not fit: {error}") from None
        return reply

    def assert_exhausted(self) -> None:
        """Fail if a prompt had no reply, or none that fits, or if replies are left over.

        Raises:
            AssertionError: It lists all of them.
        """
        left = [
            f"`{key}` was never asked" if key not in self._used else f"`{key}` has {len(self._queues[key])} more"
            for key in self._replies
            if key not in self._used or self._queues.get(key)
        ]
        problems = [
            *self._wrong,
            *([f"prompts without a reply: {'; '.join(self._missing)}"] if self._missing else []),
            *([f"replies left over: {'; '.join(left)}"] if left else []),
        ]
        if problems:
            raise AssertionError(f"The scripted prompter: {'. '.join(problem.rstrip('.') for problem in problems)}.")

    def _without_script(self, key: str, prompt: Prompt) -> Reply:
        if prompt.kind == "review":
            return Submitted()
        if self._unscripted == "unavailable":
            return Unavailable()
        if self._unscripted == "end_turn":
            return EndedTurn()
        self._missing.append(f"`{key}` ({prompt.question.text})")
        known = ", ".join(f"`{name}`" for name in self._replies) or "none"
        raise OutOfScript(f"The script has no reply for `{key}`: {prompt.question.text!r}. It has: {known}.")


def _one_by_one(scripted: Scripted, prompt: Prompt) -> list[ScriptedValue]:
    """Return the replies in a script's value: a list that answers the question as it is counts as one."""
    if not isinstance(scripted, list):
        return [cast("ScriptedValue", scripted)]
    several = cast("list[ScriptedValue]", scripted)
    if any(isinstance(said, (*_REPLIES, SecretValue)) for said in several):
        return several
    if isinstance(prompt.question.answer_type, MultiSelectType) and several and not any(isinstance(said, list) for said in several):
        return [cast("Json", several)]  # one by one, none could be an answer: what is wrong is said of the list
    try:
        prompt.question.check(several)
    except AnswerError:
        return several
    return [cast("Json", several)]


def _reply(said: ScriptedValue) -> Reply:
    return cast("Reply", said) if isinstance(said, _REPLIES) else Answered(cast("Json | SecretValue", said))
