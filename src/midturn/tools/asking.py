"""Questions inside a tool call, for midturn's own tools and for calls in an external agent loop."""

from __future__ import annotations

import asyncio
import inspect
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Coroutine, Iterator, Mapping, Sequence
from contextvars import ContextVar
from copy import deepcopy
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Generic, TypeAlias, cast

from msgspec import Struct

from midturn.errors import DepsMissing, NotAnswered
from midturn.events.types import Source
from midturn.ports import CallRules, ToolRun
from midturn.question.answer_type import SecretType
from midturn.question.form import Form
from midturn.question.json_value import Json, JsonObject, SecretValue
from midturn.question.public_names import name_methods, public_repr
from midturn.question.question import Question
from midturn.question.walker import copied
from midturn.tools.call_scope import CallScope
from midturn.tools.names import missing_deps
from midturn.turn.inputs import Answer, FormWanted, Given, NoAnswer, OnFailure

if TYPE_CHECKING:
    from typing_extensions import TypeVar

    Deps = TypeVar("Deps", default=object)
else:
    from typing import TypeVar

    Deps = TypeVar("Deps")


# --------------------------------------------------------------------------------------------------
# Answers as returned to a function


T = TypeVar("T")


class Unanswered(Struct, frozen=True):
    """There is no answer. `reason` is one of the values in docs/reference/events.md.

    If `reason` is `reply`, a person sent a message instead of answering. `reply` is the message,
    otherwise None. The tool can act on the message, or include it in its result for the model.
    """

    reason: str
    reply: str | None = None


class FormAnswers:
    """The answers to a form. `answers[question]` has the type of the question's answer, or is None
    if the question was skipped.

    Iteration yields the answered questions, in the order of the form. Returned by `ask_form` and
    `try_ask_form`.
    """

    def __init__(self, given: Given, questions: Sequence[Question[Any]]) -> None:
        self._given = given
        self._questions = tuple(questions)

    @property
    def ids(self) -> tuple[str, ...]:
        """The ids of all questions of the form, in the order of the form."""
        return tuple(question.id for question in self._questions)

    def to_json(self) -> dict[str, Json]:
        """Return the answers as JSON, by question id, in the order of the form.

        A skipped question is null. Secrets, and questions that were not answered before their
        deadline, are left out.
        """
        answers: dict[str, Json] = {}
        for question in self._questions:
            given = self._given.get(question.id)
            if isinstance(given, Answer) and not isinstance(question.answer_type, SecretType):
                answers[question.id] = cast("Json", copied(given.value))
        return answers

    def __getitem__(self, question: Question[T]) -> T:
        """Return the answer to a question of the form.

        Raises:
            TypeError: The key is not a question. The key must be the question object, because it
                determines the type of the answer.
            KeyError: The form does not contain the question.
        """
        if not isinstance(cast("object", question), Question):
            raise TypeError(
                "Look up an answer by its question (`answers[question]`), not by a"
                f" `{type(question).__name__}`."
            )
        if question.id not in self._given:
            raise KeyError(
                f"`{question.id}` is not a question of this form; it has"
                f" {', '.join(map(repr, self._given))}."
            )
        given = self._given[question.id]
        return question.typed(given.value) if isinstance(given, Answer) else cast("T", None)

    def __contains__(self, question: Question[Any]) -> bool:
        """Return whether the question was answered and not skipped."""
        given = self._given.get(question.id)
        return isinstance(given, Answer) and given.value is not None

    def __iter__(self) -> Iterator[Question[Any]]:
        return (question for question in self._questions if question in self)

    def __repr__(self) -> str:
        return f"FormAnswers({', '.join(self._given)})"  # no values: one may be a secret


# --------------------------------------------------------------------------------------------------
# A tool's own validation of an answer, after the type was checked


Check: TypeAlias = Callable[[T], str | Awaitable[str | None] | None]
"""Validates an answer: returns None if it is valid, otherwise an error message for the person."""


async def refused(check: Check[T], value: T) -> str | None:
    """Return the error message of a check, or None if the answer is valid.

    Raises:
        TypeError: The check returned a value that is neither text nor None.
    """
    result = check(value)
    message = await result if inspect.isawaitable(result) else result
    if message is None or isinstance(cast("object", message), str):
        return message
    raise TypeError(
        f"`check` returned a `{type(message).__name__}`; it must return None, or an error message"
        " for the person."
    )


_CALL_FAILED = "The call failed because a question has no answer."


class CallContext(ABC):
    """A call that can ask questions. Use `ask` for one question, `ask_form` for several questions,
    and `try_ask` or `try_ask_form` if the call can continue without an answer.

    Functions that are not async run in a thread. They use the same methods with the suffix `_sync`.
    """

    def __init__(self, life: CallScope, checks: CallRules) -> None:
        self._life = life
        self._checks = checks

    def __repr__(self) -> str:
        return public_repr(self, type(self).__name__)

    @abstractmethod
    async def _given(
        self,
        form: Form,
        on_failure: OnFailure,
        problem: str | None = None,
        on_behalf_of: str | None = None,
    ) -> Given:
        """Ask a form and return the answers. `problem` is the reason why the previous answer was
        rejected. `on_behalf_of` is the name of the agent that asks, if it is another agent.
        """

    def ask(
        self,
        question: Question[T],
        *,
        check: Check[T] | None = None,
        on_behalf_of: str | None = None,
    ) -> Coroutine[Any, Any, T]:
        """Ask a question, wait, and return the answer: `if await ctx.ask(…)`. The function
        continues at this line; it is not run again.

        If there is no answer (denied, suspended, cancelled, replied), the tool's coroutine is
        cancelled at this line and its `finally` blocks run.

        Args:
            question: The question. It is recorded when the coroutine is first awaited or scheduled
                as a task.
            check: Validates the answer: returns None, or an error message. The person sees the
                message and answers again. If the answer came from another process, the question is
                asked again, with the message as the question's `problem`.
            on_behalf_of: Name of the agent that asks, if the tool runs another agent: one line of
                at most 128 characters. Every interface shows this agent as the source of the
                question. The answer is not remembered for other questions.

        Raises:
            NotAnswered: No one answered before the question's deadline.
            QuestionError: The question is invalid, or it asks for a secret that was already entered
                in this call.
            RuntimeError: The function is not async, or the call is over.
        """
        return self._life.pending(
            question, lambda: self._ask(question, check, on_behalf_of), "ctx.ask_sync(…)"
        )

    def ask_sync(
        self,
        question: Question[T],
        *,
        check: Check[T] | None = None,
        on_behalf_of: str | None = None,
    ) -> T:
        """Ask from a synchronous function, which runs in a thread (see `ask`).

        Args:
            question: The question, as for `ask`.
            check: Validates the answer, as for `ask`.
            on_behalf_of: Name of the agent that asks, as for `ask`.

        Raises:
            asyncio.CancelledError: The call ended without an answer.
            RuntimeError: Called in the thread of an event loop. Use `await ctx.ask(…)` there.
        """
        return self._life.wait_in_thread(lambda: self._ask(question, check, on_behalf_of))

    def ask_form(
        self, form: Form, *, on_behalf_of: str | None = None
    ) -> Coroutine[Any, Any, FormAnswers]:
        """Ask several questions as one form. `answers[question]` is the typed answer (see `ask`).

        Args:
            form: The questions.
            on_behalf_of: Name of the agent that asks, as for `ask`.
        """
        return self._life.pending(
            form, lambda: self._ask_form(form, on_behalf_of), "ctx.ask_form_sync(…)"
        )

    def ask_form_sync(self, form: Form, *, on_behalf_of: str | None = None) -> FormAnswers:
        """Ask several questions from a synchronous function (see `ask_sync`).

        Args:
            form: The questions.
            on_behalf_of: Name of the agent that asks, as for `ask`.
        """
        return self._life.wait_in_thread(lambda: self._ask_form(form, on_behalf_of))

    def try_ask(
        self, question: Question[T], *, on_behalf_of: str | None = None
    ) -> Coroutine[Any, Any, Answer[T] | Unanswered]:
        """Ask a question. The call continues even if there is no answer or if the person replies
        with a message.

        Args:
            question: The question, as for `ask`.
            on_behalf_of: Name of the agent that asks, as for `ask`.

        Returns:
            `Answer` (`value`, `by`, `reason`), or `Unanswered` with the `reason`, and with the
            person's message as `reply` if there is one.
        """
        return self._life.pending(
            question, lambda: self._try_ask(question, on_behalf_of), "ctx.try_ask_sync(…)"
        )

    def try_ask_sync(
        self, question: Question[T], *, on_behalf_of: str | None = None
    ) -> Answer[T] | Unanswered:
        """Ask a question from a synchronous function. The call continues even if there is no answer
        (see `try_ask`).

        Args:
            question: The question, as for `ask`.
            on_behalf_of: Name of the agent that asks, as for `ask`.
        """
        return self._life.wait_in_thread(lambda: self._try_ask(question, on_behalf_of))

    def try_ask_form(
        self, form: Form, *, on_behalf_of: str | None = None
    ) -> Coroutine[Any, Any, FormAnswers | Unanswered]:
        """Ask several questions as one form. The call continues even if there are no answers or
        if the person replies with a message.

        Args:
            form: The questions.
            on_behalf_of: Name of the agent that asks, as for `ask`.

        Returns:
            `FormAnswers`, or `Unanswered` with the `reason` and the text of a `reply`. If one
            question has no answer, the result is `Unanswered`. To get the answers that were given
            before a deadline, use `ask_form` and `NotAnswered.answers`.
        """
        return self._life.pending(
            form, lambda: self._try_ask_form(form, on_behalf_of), "ctx.try_ask_form_sync(…)"
        )

    def try_ask_form_sync(
        self, form: Form, *, on_behalf_of: str | None = None
    ) -> FormAnswers | Unanswered:
        """Ask several questions as one form from a synchronous function. The call continues even if
        there are no answers (see `try_ask_form`).

        Args:
            form: The questions.
            on_behalf_of: Name of the agent that asks, as for `ask`.
        """
        return self._life.wait_in_thread(lambda: self._try_ask_form(form, on_behalf_of))

    async def _ask(
        self, question: Question[T], check: Check[T] | None, on_behalf_of: str | None
    ) -> T:
        form = Form((question,))  # raises an error if this is not a question
        if check is None:
            given = await self._given(form, "fail_call", on_behalf_of=on_behalf_of)
            return question.typed(_answer_to(question, given))
        problem: str | None = None
        while True:
            with self._checks.holding(question, check):
                given = await self._given(form, "fail_call", problem, on_behalf_of)
                value = question.typed(_answer_to(question, given))
            problem = await refused(check, value)
            if problem is None:
                return value

    async def _ask_form(self, form: Form, on_behalf_of: str | None) -> FormAnswers:
        _check_form("ask_form", form)
        given = await self._given(form, "fail_call", on_behalf_of=on_behalf_of)
        late = next(
            (
                answer
                for answer in given.values()
                if isinstance(answer, NoAnswer) and answer.reason == "deadline"
            ),
            None,
        )
        if late is not None:
            raise NotAnswered(
                late.message, reason="deadline", answers=FormAnswers(given, form.questions)
            )
        if any(isinstance(answer, NoAnswer) for answer in given.values()):
            raise asyncio.CancelledError(_CALL_FAILED)
        return FormAnswers(given, form.questions)

    async def _try_ask(
        self, question: Question[T], on_behalf_of: str | None
    ) -> Answer[T] | Unanswered:
        form = Form((question,))
        given = await self._given(form, "report_all", on_behalf_of=on_behalf_of)
        match given.get(question.id):
            case Answer() as answer:
                return Answer(question.typed(answer.value), answer.reason, answer.by)
            case NoAnswer(reason, reply):
                return Unanswered(reason, reply)
            case None:
                raise RuntimeError(f"There is no result for the question `{question.id}`.")

    async def _try_ask_form(self, form: Form, on_behalf_of: str | None) -> FormAnswers | Unanswered:
        _check_form("try_ask_form", form)
        given = await self._given(form, "report_all", on_behalf_of=on_behalf_of)
        missing = next((none for none in given.values() if isinstance(none, NoAnswer)), None)
        if missing is not None:
            return Unanswered(missing.reason, missing.reply)
        return FormAnswers(given, form.questions)


def _check_form(method: str, form: object) -> None:
    """Raise an error if the argument of a method is not a form."""
    if not isinstance(form, Form):
        raise TypeError(
            f"`{method}` needs a form, not a `{type(form).__name__}`: `await"
            f" ctx.{method}(Form([question, …]))`."
        )


def _answer_to(question: Question[Any], given: Given) -> Json | SecretValue:
    """Return the answer to a question.

    Raises:
        NotAnswered: The deadline has passed.
        asyncio.CancelledError: There is no answer.
    """
    match given.get(question.id):
        case Answer() as answer:
            return answer.value
        case NoAnswer(reason="deadline", message=message):
            raise NotAnswered(message, reason="deadline")
        case _:
            raise asyncio.CancelledError(_CALL_FAILED)


CALL: ContextVar[CallContext] = ContextVar("midturn_call")
"""The running call, for code that the call runs."""


def ask(
    question: Question[T], *, check: Check[T] | None = None, on_behalf_of: str | None = None
) -> Coroutine[Any, Any, T]:
    """Ask from any code inside a running tool, without passing its context:
    `answer = await midturn.ask(question)` (see `ToolContext.ask`).

    Args:
        question: The question.
        check: Validates the answer.
        on_behalf_of: Name of the agent that asks, as for `ToolContext.ask`.

    Raises:
        RuntimeError: No tool is running, or the function is not async. Use `ask_sync` there.
    """
    return _call().ask(question, check=check, on_behalf_of=on_behalf_of)


def ask_sync(
    question: Question[T], *, check: Check[T] | None = None, on_behalf_of: str | None = None
) -> T:
    """Ask from synchronous code inside a tool (see `ToolContext.ask_sync`).

    Args:
        question: The question, as for `ask`.
        check: Validates the answer, as for `ask`.
        on_behalf_of: Name of the agent that asks, as for `ToolContext.ask`.
    """
    return _call().ask_sync(question, check=check, on_behalf_of=on_behalf_of)


def ask_form(form: Form, *, on_behalf_of: str | None = None) -> Coroutine[Any, Any, FormAnswers]:
    """Ask several questions as one form, from any code inside a running tool (see
    `ToolContext.ask_form`).

    Args:
        form: The questions.
        on_behalf_of: Name of the agent that asks, as for `ToolContext.ask`.
    """
    return _call().ask_form(form, on_behalf_of=on_behalf_of)


def ask_form_sync(form: Form, *, on_behalf_of: str | None = None) -> FormAnswers:
    """Ask several questions as one form, from synchronous code inside a tool.

    Args:
        form: The questions.
        on_behalf_of: Name of the agent that asks, as for `ToolContext.ask`.
    """
    return _call().ask_form_sync(form, on_behalf_of=on_behalf_of)


def try_ask(
    question: Question[T], *, on_behalf_of: str | None = None
) -> Coroutine[Any, Any, Answer[T] | Unanswered]:
    """Ask from any code inside a running tool. The call continues even if there is no answer (see
    `ToolContext.try_ask`).

    Args:
        question: The question.
        on_behalf_of: Name of the agent that asks, as for `ToolContext.ask`.
    """
    return _call().try_ask(question, on_behalf_of=on_behalf_of)


def try_ask_sync(
    question: Question[T], *, on_behalf_of: str | None = None
) -> Answer[T] | Unanswered:
    """Ask from synchronous code inside a tool. The call continues even if there is no answer.

    Args:
        question: The question, as for `try_ask`.
        on_behalf_of: Name of the agent that asks, as for `ToolContext.ask`.
    """
    return _call().try_ask_sync(question, on_behalf_of=on_behalf_of)


def try_ask_form(
    form: Form, *, on_behalf_of: str | None = None
) -> Coroutine[Any, Any, FormAnswers | Unanswered]:
    """Ask several questions as one form, from any code inside a running tool. The call continues
    even if there are no answers (see `ToolContext.try_ask_form`).

    Args:
        form: The questions.
        on_behalf_of: Name of the agent that asks, as for `ToolContext.ask`.
    """
    return _call().try_ask_form(form, on_behalf_of=on_behalf_of)


def try_ask_form_sync(form: Form, *, on_behalf_of: str | None = None) -> FormAnswers | Unanswered:
    """Ask several questions as one form, from synchronous code inside a tool. The call continues
    even if there are no answers.

    Args:
        form: The questions.
        on_behalf_of: Name of the agent that asks, as for `ToolContext.ask`.
    """
    return _call().try_ask_form_sync(form, on_behalf_of=on_behalf_of)


def _call() -> CallContext:
    call = CALL.get(None)
    if call is None:
        raise RuntimeError("No tool is running. Ask inside a tool, or in `inquirer.run(…)`.")
    return call


class ToolContext(CallContext, Generic[Deps]):
    """The context of a call, which can ask questions. A parameter of a `tool` that is annotated
    with this class receives the context. The parameter is not part of the schema for the model.

    `Deps` is the type of `deps`, the object that the program passed to `Agent.run`.
    """

    def __init__(
        self, run: ToolRun, source: Source, life: CallScope, wanted_deps: str = ""
    ) -> None:
        super().__init__(life, run.checks)
        self._wanted_deps = wanted_deps
        self._run = run
        self._source = source
        self._answers = dict(run.answers)
        self._kept = dict(run.kept)

    @property
    def answers(self) -> Mapping[str, Json | SecretValue]:
        """All answers of this call so far, by question id."""
        return MappingProxyType(self._answers)

    @property
    def arguments(self) -> JsonObject:
        """The arguments of the call, as the model sent them or as a person edited them."""
        return cast("JsonObject", self._run.call.arguments)

    @property
    def deps(self) -> Deps:
        """The object that the program passed to `Agent.run` as `deps`.

        Raises:
            ConfigError: The run has no `deps`, although the turn was started with `deps`, or
                although the annotation requires a type, as in `ToolContext[Shop]`. The run ends,
                and the call stays open.
        """
        if self._run.no_deps:
            raise DepsMissing(self._run.no_deps)
        if self._wanted_deps and self._run.deps is None:
            raise DepsMissing(missing_deps(self._run.call.name, self._wanted_deps))
        return cast("Deps", self._run.deps)

    @property
    def idempotency_key(self) -> str:
        """A key that is the same for every execution of this call, even after a crash. Pass it to
        services that detect repeated requests.
        """
        return self._run.idempotency_key

    async def keep(self, name: str, value: Json) -> None:
        """Store a value for later runs of this call. The value is durable when this method returns.

        A call runs again from its start if its process died, or if an answer arrives after its turn
        was suspended. `kept` then returns the value, so that the tool can continue its work, for
        example a job that it started at another service. The value is not sent to the model. It is
        written to the log, so a value that contains a secret of this call is rejected.

        Args:
            name: Name of the value within this call, 1 to 100 characters. A later value with the
                same name replaces it.
            value: The value, as JSON of at most 256 KiB.

        Raises:
            ValueError: The name or the value is not allowed.
            RuntimeError: The call is over.
        """
        self._life.check()
        self._kept[name] = await self._run.keep(name, value)

    def keep_sync(self, name: str, value: Json) -> None:
        """Store a value from a synchronous function (see `keep`).

        Args:
            name: Name of the value, as for `keep`.
            value: The value, as for `keep`.

        Raises:
            asyncio.CancelledError: The call has ended.
        """
        self._life.wait_in_thread(lambda: self.keep(name, value))

    def kept(self, name: str) -> Json:
        """Return the last value that this call stored under a name, in this run or in an earlier
        run. Return None if there is no value.

        Args:
            name: Name of the value.
        """
        return deepcopy(self._kept.get(name))

    @property
    def root(self) -> Path:
        """The workspace root."""
        return Path(self._run.root).absolute()

    @property
    def cancelled(self) -> bool:
        """Whether the call was cancelled. Functions in a thread should check it between steps."""
        return self._life.ended

    async def given(
        self,
        form: Form,
        on_failure: OnFailure,
        problem: str | None = None,
        on_behalf_of: str | None = None,
    ) -> Given:
        """Ask a form in this call.

        Args:
            form: The questions.
            on_failure: Whether a refusal or a reply is returned to the tool or ends the call.
            problem: Reason why the previous answer was rejected.
            on_behalf_of: Name of the agent that asks, if it is another agent.
        """
        return await self._given(form, on_failure, problem, on_behalf_of)

    async def given_by_people(self, form: Form, *, on_behalf_of: str) -> Given:
        """Ask the form of another agent in this call. Only people can answer it, regardless of the
        configuration. Missing answers and replies are returned.

        Args:
            form: The questions.
            on_behalf_of: Name of the other agent.
        """
        asking = FormWanted(
            form, self._source, "report_all", human_only=True, on_behalf_of=on_behalf_of
        )
        return await self._answered(asking)

    async def _given(
        self,
        form: Form,
        on_failure: OnFailure,
        problem: str | None = None,
        on_behalf_of: str | None = None,
    ) -> Given:
        asking = FormWanted(
            form, self._source, on_failure, problem=problem, on_behalf_of=on_behalf_of
        )
        return await self._answered(asking)

    async def _answered(self, asking: FormWanted) -> Given:
        if self._life.ended:
            self._life.check()
        given = await self._run.ask(asking)
        if self._life.ended:
            self._life.check()
        for name, answer in given.items():
            if isinstance(answer, Answer):
                self._answers[name] = answer.value
        return given


name_methods(CallContext, "")
