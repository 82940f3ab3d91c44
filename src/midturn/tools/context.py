"""The context of a running function: its call, and the way to ask."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Generic, cast

from midturn.ports import ToolRun
from midturn.question.form import Form
from midturn.record.events import Source
from midturn.tools.asker import CallContext
from midturn.tools.call_life import CallLife
from midturn.turn.effects import Answer, Given
from midturn.turn.inputs import FormWanted, OnFailure
from midturn.values.json_value import Json, JsonObject
from midturn.values.secret import SecretValue

if TYPE_CHECKING:
    from typing_extensions import TypeVar

    Deps = TypeVar("Deps", default=object)
else:
    from typing import TypeVar

    Deps = TypeVar("Deps")


class ToolContext(CallContext, Generic[Deps]):
    """What a function knows of its call, and its way to ask. Annotate a parameter of a `tool` with it; the model does not see that one.

    `Deps` is the type of `deps`, the object that the program passed to `Agent.run`.
    """

    def __init__(self, run: ToolRun, source: Source, life: CallLife) -> None:
        super().__init__(life, run.checks)
        self._run = run
        self._source = source
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

    async def given(self, form: Form, on_failure: OnFailure, problem: str | None = None) -> Given:
        """Have a form answered for this call.

        Args:
            form: The questions.
            on_failure: Whether a refusal, or a reply too, is reported; otherwise it ends the call.
            problem: What was wrong with the answer before.
        """
        return await self._given(form, on_failure, problem)

    async def _given(self, form: Form, on_failure: OnFailure, problem: str | None = None) -> Given:
        self._life.check()
        given = await self._run.ask(FormWanted(form, self._source, on_failure, problem=problem))
        self._life.check()
        self._answers.update({name: answer.value for name, answer in given.items() if isinstance(answer, Answer)})
        return given
