"""Interfaces between the runtime and its surroundings: model, tool, clock, display and
observers.
"""

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
from midturn.turn.inputs import AssistantFailed, AssistantReplied, FormWanted, Given

if TYPE_CHECKING:
    from midturn.events.outcome import Outcome
    from midturn.question.question import Question


class Model(Protocol):
    """A language model. Cancelling the task that iterates over `stream` closes the connection."""

    @property
    def name(self) -> str:
        """Name to record, such as `anthropic/claude-haiku-4-5`."""
        ...

    def stream(self, request: ModelRequest) -> AsyncIterator[ModelEvent]:
        """Yield deltas, then exactly one `Finished`.

        Args:
            request: The request to send.

        Raises:
            ModelError: The model cannot be reached (`transient`) or returns an invalid response.
        """
        ...


AnswerCheck: TypeAlias = Callable[[Any], str | Awaitable[str | None] | None]


class CallRules(Protocol):
    """Receives the additional checks that a running tool applies to answers."""

    def holding(self, question: Question[Any], check: AnswerCheck) -> AbstractContextManager[None]:
        """Register a check while its question is open, so that a prompt can show its message
        immediately.
        """
        ...


class NoChecks:
    """Registers no checks. The tool still applies them to the answer it receives."""

    def holding(self, question: Question[Any], check: AnswerCheck) -> AbstractContextManager[None]:  # noqa: ARG002
        """Return a context manager that does nothing."""
        return nullcontext()


async def _keep_nothing(name: str, value: Json) -> Json:
    """Refuse to record a value.

    Raises:
        RuntimeError: Always.
    """
    del value
    raise RuntimeError(
        f"The value {name!r} cannot be kept, because this run of the tool is not recorded."
    )


def _ignore_queued(ahead: Sequence[str]) -> None:
    """Ignore the calls that are queued ahead."""


class ToolRun(Struct, frozen=True, kw_only=True):
    """One execution of a tool call. The tool receives it as argument.

    Args:
        call: The call.
        answers: Answers given in this call so far, by question ID.
        ask: Asks a form and waits for the answers. The wait is cancelled if the call ends first.
        hide: Masks all secrets of the call in a string. Use it for text that is truncated, or shown
            before the call ends. Results and errors are always masked.
        checks: Receives the checks of `ctx.ask(…, check=…)`.
        idempotency_key: A key that is the same for every execution of this call.
        conversation: The conversation ID.
        root: The workspace.
        limits: The limits of the turn.
        deps: The value that the program passed to `Agent.run`.
        no_deps: Error message for tools that use `deps`. Set if the turn was started with
            dependencies and resumed without them.
        queued: Called with the `event` IDs of the calls that must end before this one can start.
            If those calls wait for people, this call waits as well. unanswered: Why answers are
        missing (`deadline`), by question ID. Set for tools that handle missing answers. keep:
        Records a value under a name for later runs of this call, and returns it as JSON.
            See `ToolContext.keep`.
        kept: The values that earlier runs of this call recorded with `keep`, by name.
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
    queued: Callable[[Sequence[str]], None] = _ignore_queued
    unanswered: Mapping[str, str] = {}
    keep: Callable[[str, Json], Awaitable[Json]] = _keep_nothing
    kept: Mapping[str, Json] = {}


class Tool(Protocol):
    """A tool that a model can call.

    Subclass it, or write a class with the same methods. Only `definition` and `execute` are
    required.
    """

    @property
    @abstractmethod
    def definition(self) -> ToolDefinition:
        """Name, description and parameters to send to the model."""
        ...

    def inquiry_source(self) -> Source:
        """Return the source to record with this tool's questions."""
        return Source.tool(self.definition.name)

    @abstractmethod
    async def execute(self, run: ToolRun) -> Outcome:
        """Run the call once, and return `Success`, `ToolError` or `NeedsInput`.

        Cancelling the task must stop the tool and everything it started. Raise `Rejected` to report
        a refusal to the model. Any other exception becomes an error that the model reads, and is
        logged by `midturn.tools`.

        Args:
            run: The call, its answers so far, and functions to ask questions.
        """
        ...


class Consultant(Protocol):
    """Asks a model to answer a question in a side request."""

    def model_asked(self, request: InquiryRequest, tool: str) -> str:
        """Return the name of the model that answers this question."""
        ...

    async def consult(
        self, request: InquiryRequest, tool: str, events: Sequence[Event]
    ) -> AssistantReplied | AssistantFailed:
        """Return a validated answer, or the reason for a missing answer. `events` are the
        recorded events of the conversation.
        """
        ...


class Clock(Protocol):
    """Source of time. Tests replace it, so that they need not wait."""

    def now(self) -> datetime:
        """Return the current time in UTC."""
        ...

    def monotonic(self) -> float:
        """Return the monotonic time in seconds."""
        ...

    async def sleep(self, seconds: float) -> None:
        """Wait for a number of seconds."""
        ...


class TextShown(Struct, frozen=True):
    """The next piece of the assistant's text."""

    text: str


class ReasoningShown(Struct, frozen=True):
    """The next piece of the model's reasoning."""

    text: str


class ModelStarted(Struct, frozen=True):
    """A request was sent to the model."""


class ModelFinished(Struct, frozen=True):
    """The model's response is complete or was interrupted."""


class ConsultStarted(Struct, frozen=True):
    """A side request starts, in which `model` answers the question `id`."""

    id: str
    model: str


class ConsultFinished(Struct, frozen=True):
    """The side request for question `id` succeeded, failed or was cancelled."""

    id: str


class ToolBegan(Struct, frozen=True):
    """A tool call starts, or runs again after an answer (`again`)."""

    call: ToolCall
    again: bool = False


class ToolEnded(Struct, frozen=True):
    """A tool call has its result. `exception` is the exception that the tool raised, if any."""

    call: ToolCall
    content: str
    is_error: bool
    exception: BaseException | None = None


class Recorded(Struct, frozen=True):
    """An event was stored durably.

    Args:
        event: The event.
        position: Number of the event in its conversation, from 1, as in `StoreChange`.
    """

    event: Event
    position: int


class Notice(Struct, frozen=True):
    """A message to the user, such as a warning or a retry. `seconds` is the delay that the
    message announces.
    """

    text: str
    seconds: float = 0.0


Happening: TypeAlias = (
    TextShown
    | ReasoningShown
    | ModelStarted
    | ModelFinished
    | ConsultStarted
    | ConsultFinished
    | ToolBegan
    | ToolEnded
    | Recorded
    | Notice
)


class Display(Protocol):
    """Shows a running turn.

    `show` must not block. While a prompt is open, the display buffers its output.

    Set `marks_cuts = True` if the display can mark a discarded response, or shows no text at all.
    Otherwise, an interrupted response is not requested again.
    """

    def show(self, happening: Happening) -> None:
        """Show an event of the turn."""
        ...


class RunObservation(Protocol):
    """Observes one run of a turn. Its methods must not raise."""

    def show(self, happening: Happening) -> None:
        """Called for each event of the run."""
        ...

    def end(self, status: str) -> None:
        """Called when the run ends."""
        ...


class RequestObservation(Protocol):
    """Observes one request to a model."""

    def end(self, finished: Finished | None, error: BaseException | None) -> None:
        """Called when the request ends, with the response or the error. Both are None if the
        request was abandoned.
        """
        ...


class Observer(Protocol):
    """Observes all runs of this process, for example for OpenTelemetry."""

    def run_began(self, journal: Journal) -> RunObservation:
        """Called when a run of a turn starts, in the task that runs it."""
        ...

    def request_began(self, model: str, request: ModelRequest) -> RequestObservation:
        """Called when a request to a model starts."""
        ...

    def answered(self, conversation: str, turn: Sequence[Event], batch: Sequence[Event]) -> None:
        """Called when an answer is recorded while no run is active. `turn` contains the events
        before the answer.
        """
        ...

    def refused(self, error: Exception) -> None:
        """Called when an answer from another process is rejected."""
        ...

    def claimed(self, events: Sequence[Event]) -> None:
        """Called when a worker claims a conversation in order to continue its turn."""
        ...


OBSERVERS: list[Observer] = []
"""All observers of this process."""


def show_claimed(events: Sequence[Event]) -> None:
    """Notify all observers that a worker claimed a conversation."""
    for observer in OBSERVERS:
        observer.claimed(events)
