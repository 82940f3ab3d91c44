"""Ports of the runtime: one small protocol for each."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from datetime import datetime
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias

from msgspec import Struct

from midturn.events.types import Event, InquiryRequest, Source, ToolCall
from midturn.exchange import Finished, ModelEvent, ModelRequest, ToolDefinition
from midturn.journal import Journal
from midturn.question.json_value import DEFAULT_LIMITS, Json, Limits, SecretValue
from midturn.turn.step import AssistantFailed, AssistantReplied, FormWanted, Given

if TYPE_CHECKING:
    from midturn.events.outcome import Outcome
    from midturn.question.question import Question


class Model(Protocol):
    """A language model. Cancelling the task that iterates closes the connection."""

    @property
    def name(self) -> str:
        """The id under which it is recorded, such as `anthropic/claude-haiku-4-5`."""
        ...

    def stream(self, request: ModelRequest) -> AsyncIterator[ModelEvent]:
        """Yield deltas, then exactly one `Finished`.

        Args:
            request: What goes to the model.

        Raises:
            ModelError: It cannot be reached (`transient`), or does not do what was asked.
        """
        ...


AnswerCheck: TypeAlias = Callable[[Any], str | Awaitable[str | None] | None]


class CallRules(Protocol):
    """The place where a running tool says what else an answer must be."""

    def holding(self, question: Question[Any], check: AnswerCheck) -> AbstractContextManager[None]:
        """Hold a rule while its question is open: the person at a prompt sees at once what it says."""
        ...


class NoChecks:
    """Rules that only the tool looks at."""

    def holding(self, question: Question[Any], check: AnswerCheck) -> AbstractContextManager[None]:  # noqa: ARG002
        """Hold nothing."""
        return nullcontext()


def _unheard(ahead: Sequence[str]) -> None:
    """Tell no one."""


class ToolRun(Struct, frozen=True, kw_only=True):
    """One execution of a call, as the tool sees it.

    `answers` holds everything answered in this call so far, by question id; `unanswered` why there is no answer (`deadline`), where the
    tool is to hear that. `ask` waits for the answers to a form; when the call
    ends instead, it is cancelled. `hide` replaces every secret that the call was given, in a text that is cut or shown before the call
    ends; results and errors pass through it anyway, and it may be false while there are none. `checks` takes the rules of
    `ctx.ask(…, check=…)`. `idempotency_key` is the same for every execution of the call. `queued` says that the tool cannot begin before
    other calls are done that are ahead of it, by their `event`: where those wait for people, so does this one. `no_deps` says why there are
    no `deps` although the turn was begun with some.

    Args:
        call: The call.
        conversation: The id of the conversation.
        root: The workspace.
        limits: The limits of the turn.
        deps: What the program passed to `Agent.run`.
    """

    call: ToolCall
    answers: Mapping[str, Json | SecretValue]
    ask: Callable[[FormWanted], Awaitable[Given]]
    hide: Callable[[str], str] = str
    checks: CallRules = NoChecks()
    idempotency_key: str = ""
    conversation: str = ""
    root: str = "."
    limits: Limits = DEFAULT_LIMITS
    deps: object = None
    no_deps: str = ""
    queued: Callable[[Sequence[str]], None] = _unheard
    unanswered: Mapping[str, str] = {}


class Tool(Protocol):
    """Something a model may call: *execute(arguments, answers) → outcome*.

    Derive from it, or write the same methods: `definition` and `execute` are needed.
    """

    @property
    @abstractmethod
    def definition(self) -> ToolDefinition:
        """Name, description and parameters, as sent to the model."""
        ...

    def inquiry_source(self) -> Source:
        """The source of this tool's questions: the tool, under its name."""
        return Source.tool(self.definition.name)

    @abstractmethod
    async def execute(self, run: ToolRun) -> Outcome:
        """Run once, and return `Success`, `ToolError` or `NeedsInput`.

        Cancelling the task stops it, with everything it started. `Rejected` is a "no" in its own words; another exception becomes an
        error that the model reads, and is logged by `midturn.tools`.

        Args:
            run: The call, the answers so far, and the way to ask.
        """
        ...


class Consultant(Protocol):
    """Asks a model on the side."""

    def model_asked(self, request: InquiryRequest, tool: str) -> str:
        """Return the name of the model that a question goes to."""
        ...

    async def consult(self, request: InquiryRequest, tool: str, events: Sequence[Event]) -> AssistantReplied | AssistantFailed:
        """Return a checked answer to the request, or why there is none. `events` is the conversation as recorded."""
        ...


class Clock(Protocol):
    """Time, so that tests need not wait."""

    def now(self) -> datetime:
        """The time of day, in UTC."""
        ...

    def monotonic(self) -> float:
        """Seconds that only count up."""
        ...

    async def sleep(self, seconds: float) -> None:
        """Wait."""
        ...


class TextShown(Struct, frozen=True):
    """The next piece of the assistant's words."""

    text: str


class ReasoningShown(Struct, frozen=True):
    """The next piece of the model's reasoning."""

    text: str


class ModelStarted(Struct, frozen=True):
    """The model was asked."""


class ModelFinished(Struct, frozen=True):
    """The model's response is complete, or broke off."""


class ConsultStarted(Struct, frozen=True):
    """A model is asked the question `id` on the side."""

    id: str
    model: str


class ConsultFinished(Struct, frozen=True):
    """It is not asked any more: it has answered, failed, or was stopped."""

    id: str


class ToolBegan(Struct, frozen=True):
    """A tool runs (again, after an answer: `again`)."""

    call: ToolCall
    again: bool = False


class ToolEnded(Struct, frozen=True):
    """A call has its response; `exception` is what the tool raised, where it failed that way."""

    call: ToolCall
    content: str
    is_error: bool
    exception: BaseException | None = None


class Recorded(Struct, frozen=True):
    """An event is durable."""

    event: Event


class Notice(Struct, frozen=True):
    """Something the user should know: a warning, a retry. `seconds` says for how long nothing happens because of it."""

    text: str
    seconds: float = 0.0


Happening: TypeAlias = (
    TextShown | ReasoningShown | ModelStarted | ModelFinished | ConsultStarted | ConsultFinished | ToolBegan | ToolEnded | Recorded | Notice
)


class Display(Protocol):
    """The watcher of a turn. `show` must not block; a prompt that is open holds back what it draws.

    One that has `marks_cuts = True` can tell words that do not count from those that do, or shows none: an answer that broke off is asked
    for again then.
    """

    def show(self, happening: Happening) -> None:
        """Take note of what happened."""
        ...


class RunObservation(Protocol):
    """Observes one run of a turn; nothing that it does may fail."""

    def show(self, happening: Happening) -> None:
        """Take note of what happened."""
        ...

    def end(self, status: str) -> None:
        """Take note that the run is over."""
        ...


class RequestObservation(Protocol):
    """Observes one request to a model."""

    def end(self, finished: Finished | None, error: BaseException | None) -> None:
        """Take note of its end: finished, failed, or neither where it was left."""
        ...


class Observer(Protocol):
    """Observes every run in this process, as OpenTelemetry's does."""

    def run_began(self, journal: Journal) -> RunObservation:
        """Observe a run of a turn; called in the task that runs it."""
        ...

    def request_began(self, model: str, request: ModelRequest) -> RequestObservation:
        """Observe a request to a model."""
        ...

    def answered(self, conversation: str, turn: Sequence[Event], batch: Sequence[Event]) -> None:
        """Take note of an answer that was recorded where no run is; `turn` is the turn before it."""
        ...

    def refused(self, error: Exception) -> None:
        """Take note of an answer from outside that was not taken."""
        ...

    def claimed(self, events: Sequence[Event]) -> None:
        """Take note of a conversation whose turn was due, and that a worker goes on with."""
        ...


OBSERVERS: list[Observer] = []
"""All that observe this process."""


def show_claimed(events: Sequence[Event]) -> None:
    """Let all of them know that a worker goes on with a conversation."""
    for observer in OBSERVERS:
        observer.claimed(events)
