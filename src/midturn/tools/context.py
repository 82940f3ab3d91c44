"""What a running function knows, and how it asks."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Generic, cast

from midturn.core.form import Form
from midturn.core.json_value import Json, JsonObject
from midturn.core.question import Question
from midturn.core.secret import SecretValue
from midturn.core.source import Source
from midturn.core.turn.effects import Given, GivenAnswer, NoAnswer
from midturn.core.turn.inputs import Asking, OnFailure
from midturn.ports import ToolRun
from midturn.tools.answers import Answer, FormAnswers, Unanswered
from midturn.tools.call_life import CallLife

if TYPE_CHECKING:
    from typing_extensions import TypeVar

    Deps = TypeVar("Deps", default=object)
else:
    from typing import TypeVar

    Deps = TypeVar("Deps")
T = TypeVar("T")


class ToolContext(Generic[Deps]):
    """What a function knows of its call, and its way to ask. Annotate a parameter with it; the model does not see that parameter.

    `Deps` is the type of `deps`, the object that the program passed to `Agent.run`.
    """

    def __init__(self, run: ToolRun, source: Source, life: CallLife) -> None:
        self._run = run
        self._source = source
        self._life = life
        self._answers = dict(run.answers)

    @property
    def answers(self) -> Mapping[str, Json | SecretValue]:
        """Everything answered in this call so far, by question id."""
        return MappingProxyType(self._answers)

    @property
    def arguments(self) -> JsonObject:
        """The arguments of the call, as the model sent them (or as a person edited them)."""
        return cast("JsonObject", self._run.call.arguments)

    @property
    def deps(self) -> Deps:
        """Whatever the program passed to `Agent.run`."""
        return cast("Deps", self._run.deps)

    @property
    def idempotency_key(self) -> str:
        """The same for every execution of this call, also after a crash: for services that can tell a repeated request."""
        return self._run.idempotency_key

    @property
    def root(self) -> Path:
        """The workspace root."""
        return Path(self._run.root).absolute()

    @property
    def cancelled(self) -> bool:
        """Whether the call was cancelled: a function in a thread looks here between its steps."""
        return self._life.ended

    async def ask(self, question: Question[T]) -> T:
        """Ask, wait, and return the answer; nothing runs twice.

        Without an answer (denied, suspended, cancelled, replied to) the coroutine is cancelled here: `finally` blocks run.
        """
        return (await self.ask_form(Form((question,))))[question]

    def ask_sync(self, question: Question[T]) -> T:
        """Ask from a function that is not async, and so runs in a thread (see `ask`).

        Raises:
            asyncio.CancelledError: The call has ended without an answer.
        """
        return self._life.wait_in_thread(lambda: self.ask(question))

    async def ask_form(self, form: Form) -> FormAnswers:
        """Ask several questions in one round; `answers[question]` is typed (see `ask`)."""
        given = await self._send(form, "fail_call")
        if any(isinstance(answer, NoAnswer) for answer in given.values()):
            raise asyncio.CancelledError("A question has no answer; the call has failed.")
        return FormAnswers(given)

    async def try_ask(self, question: Question[T]) -> Answer[T] | Unanswered:
        """Ask, and go on without an answer where nobody may or can give one."""
        match (await self._send(Form((question,)), "report")).get(question.id):
            case GivenAnswer() as given:
                return Answer(question.typed(given.value), given.reason, given.by)
            case NoAnswer(reason):
                return Unanswered(reason)
            case None:
                raise RuntimeError(f"Nothing was said about `{question.id}`.")

    async def _send(self, form: Form, on_failure: OnFailure) -> Given:
        if not isinstance(cast("object", form), Form):
            raise TypeError(f"`ask_form` takes a form, not a `{type(form).__name__}`: `await ctx.ask_form(Form([question, …]))`.")
        self._life.check()
        given = await self._run.ask(Asking(form, self._source, on_failure))
        self._life.check()
        self._answers.update({name: answer.value for name, answer in given.items() if isinstance(answer, GivenAnswer)})
        return given
