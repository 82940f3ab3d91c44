"""The ways to ask inside a call, the same for a tool of ours and for a call of another loop; and the call that runs."""

from __future__ import annotations

import asyncio
import inspect
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Coroutine, Mapping
from contextvars import ContextVar
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Generic, TypeAlias, cast

from msgspec import Struct

from midturn.errors import DepsMissing, NotAnswered
from midturn.events.types import Source
from midturn.ports import CallRules, ToolRun
from midturn.question.form import Form
from midturn.question.json_value import Json, JsonObject, SecretValue
from midturn.question.public_names import name_methods, public_repr
from midturn.question.question import Question
from midturn.tools.call_scope import CallLife
from midturn.tools.names import missing_deps
from midturn.turn.step import Answer, FormWanted, Given, NoAnswer, OnFailure

if TYPE_CHECKING:
    from typing_extensions import TypeVar

    Deps = TypeVar("Deps", default=object)
else:
    from typing import TypeVar

    Deps = TypeVar("Deps")


# ----------------------------------------------------------------------------------------------------------------------
# Answers, as a function gets them


T = TypeVar("T")


class Unanswered(Struct, frozen=True):
    """There is no answer; `reason` is the tag that says why (docs/recording.md).

    With the reason `reply`, a person said something instead of answering: `reply` holds the words, None where there were none. They are
    yours to act on, or to pass on to the model in what the tool returns.
    """

    reason: str
    reply: str | None = None


class FormAnswers:
    """The answers to a form: `answers[question]` has the type of the question's answer, and is `None` where it was skipped.

    `ask_form` returns one.
    """

    def __init__(self, given: Given) -> None:
        self._given = given

    def __getitem__(self, question: Question[T]) -> T:
        """Return the answer to a question of the form.

        Raises:
            TypeError: It is not a question: answers are found by the question itself, which knows their type.
            KeyError: The form does not have it.
        """
        if not isinstance(cast("object", question), Question):
            raise TypeError(f"Answers are found by question, not by a `{type(question).__name__}`: `answers[question]`.")
        if question.id not in self._given:
            raise KeyError(f"`{question.id}` is not a question of this form; it has {', '.join(map(repr, self._given))}.")
        given = self._given[question.id]
        return question.typed(given.value) if isinstance(given, Answer) else cast("T", None)

    def __contains__(self, question: Question[Any]) -> bool:
        """Say whether the question was answered, rather than skipped."""
        given = self._given.get(question.id)
        return isinstance(given, Answer) and given.value is not None

    def __repr__(self) -> str:
        return f"FormAnswers({', '.join(self._given)})"  # no values: one may be a secret


# ----------------------------------------------------------------------------------------------------------------------
# A tool's own rule for an answer, beyond the answer's type


Check: TypeAlias = Callable[[T], str | Awaitable[str | None] | None]
"""A rule: None where it holds, else the sentence that the person is shown."""


async def refused(check: Check[T], value: T) -> str | None:
    """Return what a rule says against an answer.

    Raises:
        TypeError: It says it in something that is no sentence.
    """
    said = check(value)
    sentence = await said if inspect.isawaitable(said) else said
    if sentence is None or isinstance(cast("object", sentence), str):
        return sentence
    raise TypeError(f"`check` returned a `{type(sentence).__name__}`; it returns None, or the sentence that the person is shown.")


_FAILED = "A question has no answer; the call has failed."


class CallContext(ABC):
    """A call that can ask: `ask` one question, `ask_form` several at once, `try_ask` where it can go on without an answer.

    Each has a form for functions that are not async, and so run in a thread: `ask_sync` and so on.
    """

    def __init__(self, life: CallLife, checks: CallRules) -> None:
        self._life = life
        self._checks = checks

    def __repr__(self) -> str:
        return public_repr(self, type(self).__name__)

    @abstractmethod
    async def _given(self, form: Form, on_failure: OnFailure, problem: str | None = None) -> Given:
        """Have a form answered; `problem` is what was wrong with the answer before."""

    def ask(self, question: Question[T], *, check: Check[T] | None = None) -> Coroutine[Any, Any, T]:
        """Ask, wait, and return the answer; nothing runs twice: `if await ctx.ask(…)`.

        Without an answer (denied, suspended, cancelled, replied to) the coroutine is cancelled here: `finally` blocks run.

        Args:
            question: The question; it is recorded when the ask is first awaited, or scheduled as a task.
            check: Your own rule: it gets the answer, and returns None, or a sentence. The person is shown the sentence, and answers
                again; an answer that came from elsewhere is asked for again, with the sentence as the `problem` of the question.

        Raises:
            NotAnswered: No one has answered before the question's deadline.
            QuestionError: The question breaks rules, or repeats a secret that was given in this call.
            RuntimeError: The function is not async; or the call is over.
        """
        return self._life.pending(question, lambda: self._ask(question, check), "ctx.ask_sync(…)")

    def ask_sync(self, question: Question[T], *, check: Check[T] | None = None) -> T:
        """Ask from a function that is not async, and so runs in a thread (see `ask`).

        Args:
            question: The question, as for `ask`.
            check: Your own rule, as for `ask`.

        Raises:
            asyncio.CancelledError: The call has ended without an answer.
            RuntimeError: This is the thread of an event loop; use `await ctx.ask(…)`.
        """
        return self._life.wait_in_thread(lambda: self._ask(question, check))

    def ask_form(self, form: Form) -> Coroutine[Any, Any, FormAnswers]:
        """Ask several questions in one round; `answers[question]` is typed (see `ask`).

        Args:
            form: The questions.
        """
        return self._life.pending(form, lambda: self._ask_form(form), "ctx.ask_form_sync(…)")

    def ask_form_sync(self, form: Form) -> FormAnswers:
        """Ask several questions from a function that is not async (see `ask_sync`).

        Args:
            form: The questions.
        """
        return self._life.wait_in_thread(lambda: self._ask_form(form))

    def try_ask(self, question: Question[T]) -> Coroutine[Any, Any, Answer[T] | Unanswered]:
        """Ask, and go on without an answer where there can be none, or where the person says something else instead.

        Args:
            question: The question, as for `ask`.

        Returns:
            `Answer` (`value`, `by`, `reason`), or `Unanswered` with the `reason` why there is none, and the words of a `reply`.
        """
        return self._life.pending(question, lambda: self._try_ask(question), "ctx.try_ask_sync(…)")

    def try_ask_sync(self, question: Question[T]) -> Answer[T] | Unanswered:
        """Ask from a function that is not async, and go on without an answer where there is none (see `try_ask`)."""
        return self._life.wait_in_thread(lambda: self._try_ask(question))

    async def _ask(self, question: Question[T], check: Check[T] | None) -> T:
        form = Form((question,))  # it says so where this is no question
        if check is None:
            return question.typed(_answer_to(question, await self._given(form, "fail_call")))
        problem: str | None = None
        while True:
            with self._checks.holding(question, check):
                value = question.typed(_answer_to(question, await self._given(form, "fail_call", problem)))
            problem = await refused(check, value)
            if problem is None:
                return value

    async def _ask_form(self, form: Form) -> FormAnswers:
        if not isinstance(cast("object", form), Form):
            raise TypeError(f"`ask_form` takes a form, not a `{type(form).__name__}`: `await ctx.ask_form(Form([question, …]))`.")
        given = await self._given(form, "fail_call")
        late = next((answer for answer in given.values() if isinstance(answer, NoAnswer) and answer.reason == "deadline"), None)
        if late is not None:
            raise NotAnswered(late.message, reason="deadline", answers=FormAnswers(given))
        if any(isinstance(answer, NoAnswer) for answer in given.values()):
            raise asyncio.CancelledError(_FAILED)
        return FormAnswers(given)

    async def _try_ask(self, question: Question[T]) -> Answer[T] | Unanswered:
        match (await self._given(Form((question,)), "report_all")).get(question.id):
            case Answer() as given:
                return Answer(question.typed(given.value), given.reason, given.by)
            case NoAnswer(reason, reply):
                return Unanswered(reason, reply)
            case None:
                raise RuntimeError(f"Nothing was said about `{question.id}`.")


def _answer_to(question: Question[Any], given: Given) -> Json | SecretValue:
    """Return the one answer that was waited for.

    Raises:
        NotAnswered: No one has answered in time.
        asyncio.CancelledError: There is none.
    """
    match given.get(question.id):
        case Answer() as answer:
            return answer.value
        case NoAnswer(reason="deadline", message=message):
            raise NotAnswered(message, reason="deadline")
        case _:
            raise asyncio.CancelledError(_FAILED)


CALL: ContextVar[CallContext] = ContextVar("midturn_call")
"""The call that runs now, as far as code inside of it can see."""


def ask(question: Question[T], *, check: Check[T] | None = None) -> Coroutine[Any, Any, T]:
    """Ask from any depth inside a running tool, without its context: `answer = await midturn.ask(question)` (see `ToolContext.ask`).

    Args:
        question: The question.
        check: Your own rule for the answer.

    Raises:
        RuntimeError: No tool is running here; or the function is not async: use `ask_sync`.
    """
    return _call().ask(question, check=check)


def ask_sync(question: Question[T], *, check: Check[T] | None = None) -> T:
    """Ask from any depth inside a tool that is not async (see `ToolContext.ask_sync`).

    Args:
        question: The question, as for `ask`.
        check: Your own rule, as for `ask`.
    """
    return _call().ask_sync(question, check=check)


def ask_form(form: Form) -> Coroutine[Any, Any, FormAnswers]:
    """Ask several questions in one round, from any depth inside a running tool (see `ToolContext.ask_form`).

    Args:
        form: The questions.
    """
    return _call().ask_form(form)


def ask_form_sync(form: Form) -> FormAnswers:
    """Ask several questions in one round, from any depth inside a tool that is not async.

    Args:
        form: The questions.
    """
    return _call().ask_form_sync(form)


def try_ask(question: Question[T]) -> Coroutine[Any, Any, Answer[T] | Unanswered]:
    """Ask from any depth inside a running tool, and go on where there is no answer (see `ToolContext.try_ask`).

    Args:
        question: The question.
    """
    return _call().try_ask(question)


def try_ask_sync(question: Question[T]) -> Answer[T] | Unanswered:
    """Ask from any depth inside a tool that is not async, and go on where there is no answer.

    Args:
        question: The question, as for `try_ask`.
    """
    return _call().try_ask_sync(question)


def _call() -> CallContext:
    call = CALL.get(None)
    if call is None:
        raise RuntimeError("No tool is running here, so there is no call to ask in. Ask inside a tool, or in `inquirer.run(…)`.")
    return call


class ToolContext(CallContext, Generic[Deps]):
    """A function's view of its call, and its way to ask. Annotate a parameter of a `tool` with it; the model does not see that one.

    `Deps` is the type of `deps`, the object that the program passed to `Agent.run`.
    """

    def __init__(self, run: ToolRun, source: Source, life: CallLife, wanted_deps: str = "") -> None:
        super().__init__(life, run.checks)
        self._wanted_deps = wanted_deps
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
        """Whatever the program passed to `Agent.run`.

        Raises:
            ConfigError: The turn was begun with dependencies, and is continued without; or the context is annotated with a type, as in
                `ToolContext[Shop]`, and the run has none. The run ends, and the call stays open.
        """
        if self._run.no_deps:
            raise DepsMissing(self._run.no_deps)
        if self._wanted_deps and self._run.deps is None:
            raise DepsMissing(missing_deps(self._run.call.name, self._wanted_deps))
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
        if self._life.ended:
            self._life.check()
        given = await self._run.ask(FormWanted(form, self._source, on_failure, problem=problem))
        if self._life.ended:
            self._life.check()
        for name, answer in given.items():
            if isinstance(answer, Answer):
                self._answers[name] = answer.value
        return given


name_methods(CallContext, "")
