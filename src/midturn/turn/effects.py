"""Effects of a step, in order: its records first, as one batch, durable before anything else begins."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Generic, TypeAlias, TypeVar

from msgspec import Struct

from midturn.record.events import Child, Event, InquiryRequest, TurnStatus
from midturn.record.exchange import ToolCall
from midturn.values.json_value import Json
from midturn.values.secret import SecretValue

if TYPE_CHECKING:
    from midturn.record.prompt import Prompt


T_co = TypeVar("T_co", covariant=True)


class Answer(Struct, Generic[T_co], frozen=True):
    """An answer with its circumstances: `by` is a tag of docs/recording.md (`user`, `assistant`, …), `reason` the responder's words.

    Args:
        value: The answer, of the type of the question.
    """

    value: T_co
    reason: str | None = None
    by: str = "user"


class NoAnswer(Struct, frozen=True):
    """Why there is none: a tag of docs/recording.md, with the words of a `reply`, if any.

    `user` never reaches a tool: it ends the turn. `reply` reaches one that wants to hear of it; otherwise it ends the call. `message` is
    what the model would read if it did: at a reply the marker, with what was answered of the form by then; empty where the record alone
    tells of a refusal.
    """

    reason: str
    reply: str | None = None
    message: str = ""


Given: TypeAlias = Mapping[str, Answer[Json | SecretValue] | NoAnswer]


class Record(Struct, frozen=True):
    """Append this event. The records of a step are one batch: one write, one sync."""

    event: Event


class CallModel(Struct, frozen=True):
    """Ask the model, with the conversation as recorded."""


class StopModel(Struct, frozen=True):
    """Stop the model's response."""


class Foretell(Struct, frozen=True):
    """Find out what the tool of this call would ask first, and run nothing: `Foretold` says so."""

    call: ToolCall


class RunTool(Struct, frozen=True):
    """Run the tool with the answers so far, by question id; `unanswered` says why there is none (`deadline`), where the tool hears that."""

    call: ToolCall
    answers: Mapping[str, Json | SecretValue]
    unanswered: Mapping[str, str] = {}


class GiveAnswers(Struct, frozen=True):
    """Resolve one `await ctx.ask` of a running tool."""

    call: str
    ask: int
    answers: Given


class RunChild(Struct, frozen=True):
    """Let a running tool have another agent run the turn that it wants; `child` is on record, and says in which conversation."""

    number: int
    child: Child


class StopTool(Struct, frozen=True):
    """Cancel the tool; what it still returns is dropped."""

    call: str


class PromptUser(Struct, frozen=True):
    """Show this to a person; `id` names what is asked as long as this process runs, here and in what comes back."""

    id: str
    prompt: Prompt


class ClosePrompt(Struct, frozen=True):
    """Take the prompt away: it was answered elsewhere, or the answer is not needed any more."""

    id: str


class ConsultAssistant(Struct, frozen=True):
    """Ask a model on the side."""

    request: InquiryRequest
    tool: str

    @property
    def id(self) -> str:
        """What names the question, here and in what comes back."""
        return self.request.event_id


class StopAssistant(Struct, frozen=True):
    """Stop asking a model."""

    id: str


class Warn(Struct, frozen=True):
    """Tell the user, once; `event` is the recorded event that it is about."""

    text: str
    event: str | None = None


class SuspendTurn(Struct, frozen=True):
    """Nothing can move without an answer: stop waiting coroutines and leave the turn open."""


class LeaveOpen(Struct, frozen=True):
    """The model is down: stop, and leave the turn open for `resume`."""

    error: str


class EndTurn(Struct, frozen=True):
    """The turn is over, and recorded as such."""

    status: TurnStatus
    error: str | None = None


Effect: TypeAlias = (
    Record
    | CallModel
    | StopModel
    | Foretell
    | RunTool
    | GiveAnswers
    | RunChild
    | StopTool
    | PromptUser
    | ClosePrompt
    | ConsultAssistant
    | StopAssistant
    | Warn
    | SuspendTurn
    | LeaveOpen
    | EndTurn
)


def records_first(records: Sequence[Event], others: Sequence[Effect]) -> tuple[Effect, ...]:
    """Return the effects of a step: what it records comes first, so that it is one batch, durable before what it leads to begins."""
    return (*map(Record, records), *others)
