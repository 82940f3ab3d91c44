"""State of calls that is not recorded: secrets, and the tools' own checks of answers. It lasts for
one session.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Awaitable, Callable, Generator, Iterable, Mapping, Sequence
from contextlib import contextmanager
from copy import deepcopy
from typing import TYPE_CHECKING, Any

from msgspec import Struct
from msgspec.structs import replace

from midturn.errors import AnswerError
from midturn.events.types import ToolCall
from midturn.ports import ToolRun
from midturn.question.json_value import Json, Limits, SecretValue
from midturn.question.reply import Answered
from midturn.runtime.run_options import RunOptions
from midturn.tools.asking import refused
from midturn.turn.inputs import Answer, FormWanted, Given

if TYPE_CHECKING:
    from midturn.question.question import Question
    from midturn.question.reply import Reply
    from midturn.tools.asking import Check


class _AnswerCheck(Struct, frozen=True):
    question: Question[Any]
    check: Check[Any]


class CallChecks:
    """A tool's own checks of answers, in addition to the type check (`ctx.ask(…, check=…)`), by
    question id. See `ports.CallRules`.
    """

    def __init__(self) -> None:
        self.rules: dict[str, _AnswerCheck] = {}

    @contextmanager
    def holding(self, question: Question[Any], check: Check[Any]) -> Generator[None]:
        """Store a check while its question is open."""
        self.rules[question.id] = _AnswerCheck(question, check)
        try:
            yield
        finally:
            self.rules.pop(question.id, None)

    async def refusal(self, question_id: str, reply: Reply) -> str | None:
        """Return why the tool rejects a reply. None if the tool accepts it, or if it is not an
        answer of the question's type.
        """
        rule = self.rules.get(question_id)
        if rule is None or not isinstance(reply, Answered):
            return None
        try:
            answer = rule.question.check(reply.value)
            why = await refused(rule.check, rule.question.typed(answer))
        except AnswerError:  # the state machine reports the error
            return None
        except Exception:  # noqa: BLE001  the tool's own code: reported when the tool checks
            return None
        return _scrub(why, [answer]) if why is not None and isinstance(answer, SecretValue) else why


class CallSecrets:
    """All secrets that one call received, in all its attempts and runs.

    Call the object to replace the secrets in a text. It is false if there are no secrets.
    """

    def __init__(self) -> None:
        self._given: list[SecretValue] = []

    def __bool__(self) -> bool:
        return bool(self._given)

    def learn(self, answers: Iterable[object]) -> None:
        """Store the secrets among these answers, before they are passed to the tool."""
        for answer in answers:
            given: Any = answer
            value = given.value if isinstance(answer, Answer) else answer
            if isinstance(value, SecretValue) and value not in self._given:
                self._given.append(value)

    def __call__(self, text: str) -> str:
        """Replace every secret of the call, in each encoding in which a program may write it."""
        if not self._given:
            return text
        return _scrub(text, self._given)


def _scrub(text: str, secrets: Sequence[SecretValue]) -> str:
    from midturn.tools.returned import scrub  # imported here because few calls receive a secret

    return scrub(text, secrets)


class CallState:
    """The secrets and checks of all calls of a session, and other values that tools receive.

    A session may run a call several times, so this state outlives a driver.
    """

    def __init__(self, conversation: str, root: str, limits: Limits, options: RunOptions) -> None:
        self.limits = limits
        self._conversation = conversation
        self._root = root
        self._options = options
        self._secrets = defaultdict[str, CallSecrets](CallSecrets)
        self._checks = defaultdict[str, CallChecks](CallChecks)

    def secrets(self, call: str) -> CallSecrets:
        """Return the secrets of a call, given its `event_id`."""
        return self._secrets[call]

    def checks(self, call: str) -> CallChecks:
        """Return the checks of a call, given its `event_id`."""
        return self._checks[call]

    def tool_run(
        self,
        call: ToolCall,
        answers: Mapping[str, Json | SecretValue],
        ask: Callable[[FormWanted], Awaitable[Given]],
    ) -> ToolRun:
        """Return one execution of a call, as the tool sees it.

        The execution gets a copy of the arguments. A function that modifies them does not affect
        the record or the next run.
        """
        return ToolRun(
            call=replace(call, arguments=deepcopy(call.arguments)),
            answers=answers,
            ask=ask,
            hide=self._secrets[call.event],
            checks=self._checks[call.event],
            idempotency_key=f"{self._conversation}.{call.event}",
            conversation=self._conversation,
            root=self._root,
            limits=self.limits,
            deps=self._options.deps,
            no_deps=self._options.no_deps,
        )
