"""Inputs and effects of the state machine.

The events of a step (`Record`) come first and are one batch, which is durable before any other
effect begins.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Generic, Literal, TypeAlias, TypeVar

from msgspec import Struct

from midturn.events.types import (
    AnsweredBy,
    Child,
    Event,
    InquiryRequest,
    Note,
    Said,
    Source,
    ToolCall,
    TurnStatus,
)
from midturn.question.json_value import Json, JsonObject, SecretValue
from midturn.routing.rules import Ruling

# annotations only: these classes are not decoded from JSON, and a turn without tools needs none of
# the modules
if TYPE_CHECKING:
    from midturn.events.outcome import Success, ToolError
    from midturn.events.prompt import Prompt
    from midturn.question.form import Form
    from midturn.question.question import Question
    from midturn.question.reply import Reply

OnFailure: TypeAlias = Literal["fail_call", "report", "report_all"]


class TurnRequested(Struct, frozen=True):
    """The user sends a message. `delta` holds the settings that flags change for this
    conversation. `metadata` is the program's own data about the message.
    """

    content: str
    author: str | None = None
    schema: JsonObject | None = None
    delta: JsonObject | None = None
    metadata: dict[str, Json] | None = None


class TurnResumed(Struct, frozen=True):
    """A process continues a turn that was left open."""


class ModelAnswered(Struct, frozen=True):
    """The model's response is complete; `parts` are its texts, its reasoning and its calls, in
    order, as events.
    """

    parts: tuple[Said, ...]


class CallBegun(Struct, frozen=True):
    """A loop of another program makes a call, or makes an unfinished call again.

    `agent` is the name of the agent that makes the call, if the loop runs several agents. `outer`
    is the `event_id` of the outer call whose function makes this call, if there is one.
    """

    id: str
    name: str
    arguments: JsonObject
    agent: str = ""
    outer: str = ""


class CallLeft(Struct, frozen=True):
    """A loop of another program leaves a call, which stays as it is recorded: unfinished, with
    open questions.
    """

    call: str


class LoopEnded(Struct, frozen=True):
    """A loop of another program is done with the turn. The turn is over unless it has unfinished
    calls.
    """


class ModelFailed(Struct, frozen=True):
    """The model was still unavailable after its retries: the turn stays open."""

    error: str


class TurnFailed(Struct, frozen=True):
    """An error that resuming cannot repair: the turn ends as `failed`."""

    error: str


class FormWanted(Struct, frozen=True):
    """A form that a tool asks.

    Args:
        form: The form.
        source: Source of the questions.
        on_failure: Effect of a missing answer: `fail_call` ends the call, `report` reports it to
            the coroutine that asked, and `report_all` also reports a reply to the model, which
            would otherwise end the call.
        human_only: Whether only people may answer, regardless of the configuration. For a
            question that is only `exclusive`, a configuration may allow a model or a default.
        problem: Reason why the tool refused the previous answer.
        on_behalf_of: Name of another agent that asks through the tool, or None.
    """

    form: Form
    source: Source
    on_failure: OnFailure = "fail_call"
    human_only: bool = False
    problem: str | None = None
    on_behalf_of: str | None = None

    def has_asked(self, recorded: Source) -> bool:
        """Return whether a recorded question with this source can be one of this form's questions.

        The answer to one agent is not used for another agent, or for the tool itself. An agent
        that makes the whole call may have changed its name since then.
        """
        if self.on_behalf_of is not None:
            return recorded == self.source
        return recorded.source != "other" or self.source.source == "other"


class QuestionPreviewed(Struct, frozen=True):
    """The question that the tool of a call would ask first; None if there is no such question, or
    if allowing the call would not answer it.

    `ruling` is the result of the program's own rule about the call, if the tool has such a rule.
    """

    call: str
    question: Question[bool] | None
    ruling: Ruling | None = None


class TimePassed(Struct, frozen=True):
    """Reports the time `now` (RFC 3339, UTC): deadlines up to this time have passed.

    Also sent before a question with a deadline is asked.
    """

    now: str


class TimeRead(Struct, frozen=True):
    """Reports the time `now` of an untrusted clock: new deadlines count from this time, and no
    deadline expires.
    """

    now: str


class TimeIsUp(Struct, frozen=True):
    """The turn has reached its limit of seconds (`limits.seconds`)."""

    seconds: float


class ToolReturned(Struct, frozen=True):
    """A tool has returned a form. This run of the tool is over, and another run begins with the
    answers.
    """

    call: str
    asking: FormWanted


class ToolAwaits(Struct, frozen=True):
    """A coroutine of a running tool waits for answers; `ask` numbers the `await ctx.ask`
    expressions of one run.
    """

    call: str
    ask: int
    asking: FormWanted


class FormDropped(Struct, frozen=True):
    """A coroutine no longer waits for its answers."""

    call: str
    ask: int


class ChildTurnRequested(Struct, frozen=True):
    """A running tool wants another agent to run a turn.

    Args:
        number: Number of the request in this run of the tool.
        child: The turn, in a new conversation. If an equal turn is on record, the recorded turn
            is used.
        lost: The recorded turn that cannot be used, because its conversation does not exist; empty
            if there is none.
    """

    number: int
    child: Child
    lost: str = ""

    @property
    def call(self) -> str:
        """The call of the tool."""
        return self.child.call


class ChildTurnChanged(Struct, frozen=True):
    """A turn inside a tool runs (`moving`), waits only for people (`resting`), is `over`, or was
    `ended` by a person.
    """

    call: str
    child: str
    now: Literal["moving", "resting", "over", "ended"]


class ValueKept(Struct, frozen=True):
    """A coroutine of a running tool keeps a value for later runs of its call.

    `number` identifies the coroutine that waits until the value is durable.
    """

    call: str
    number: int
    name: str
    value: Json


class ToolQueued(Struct, frozen=True):
    """A tool has to wait for the tools of the calls in `ahead`."""

    call: str
    ahead: tuple[str, ...]


class ToolDone(Struct, frozen=True):
    """A tool is done."""

    call: str
    outcome: Success | ToolError


class UserReplied(Struct, frozen=True):
    """A prompter has returned. `id` is the id of the decision, as in `PromptUser`."""

    id: str
    reply: Reply
    who: AnsweredBy = AnsweredBy("user")
    digest: str = ""
    """Digest of the subject in the prompt. Empty: the present subject."""


class AnsweredElsewhere(Struct, frozen=True):
    """An answer from outside the prompt: the inbox, a browser, a program.

    Args:
        event_id: The `event_id` of the request or approval that is answered.
        reply: The reply.
        who: The person or program that replied.
        key: Key of a queued vote. The key is recorded with the vote.
        digest: Digest of the subject that the sender saw (see `OpenQuestion.digest`).
    """

    event_id: str
    reply: Reply
    who: AnsweredBy
    key: str = ""
    digest: str = ""


class Noted(Struct, frozen=True):
    """A note on an open request: a withdrawn vote, a reassignment or a notification. A note is
    not an answer.
    """

    event_id: str
    note: Note


class PromptFailed(Struct, frozen=True):
    """A prompter has raised an exception."""

    id: str
    error: str


class AssistantReplied(Struct, frozen=True):
    """A model has answered a question in a side request, and the answer is valid."""

    id: str
    answer: Json
    model: str
    reason: str | None = None
    metadata: dict[str, Json] | None = None


class AssistantFailed(Struct, frozen=True):
    """A model has given no valid answer to a question."""

    id: str
    error: str
    metadata: dict[str, Json] | None = None


class Interrupted(Struct, frozen=True):
    """Ctrl-C without an open prompt. `parts` is the text of the model so far."""

    parts: tuple[Said, ...] = ()


AboutCall: TypeAlias = (
    ToolDone
    | ToolQueued
    | ToolReturned
    | QuestionPreviewed
    | FormDropped
    | ChildTurnRequested
    | ChildTurnChanged
    | ValueKept
)
"""Inputs about a running call; `call` is the `event_id` of its request."""

AboutDecision: TypeAlias = (
    UserReplied | AnsweredElsewhere | Noted | PromptFailed | AssistantReplied | AssistantFailed
)
"""Inputs about a decision, open or not, from people, prompters and models."""

Happened: TypeAlias = (
    TurnRequested
    | TurnResumed
    | TimePassed
    | TimeRead
    | ModelAnswered
    | CallBegun
    | CallLeft
    | LoopEnded
    | ModelFailed
    | TurnFailed
    | TimeIsUp
    | ToolAwaits
    | AboutCall
    | AboutDecision
    | Interrupted
)


# Answers for tools
# --------------------------------------------------------------------------------------------------


T_co = TypeVar("T_co", covariant=True)


class Answer(Struct, Generic[T_co], frozen=True):
    """An answer with its responder and its reason. `by` is a tag of the events reference (`user`,
    `assistant`, …). `reason` is the text that the responder gave.

    Args:
        value: The answer, of the type of the question.
    """

    value: T_co
    reason: str | None = None
    by: str = "user"


class NoAnswer(Struct, frozen=True):
    """The reason for a missing answer.

    Args:
        reason: A tag of the events reference. `user` never reaches a tool, because it ends the
            turn. `reply` reaches only a tool that handles replies. For other tools, a reply ends
            the call.
        reply: The text of a `reply`.
        message: Text for the model: for a reply, the marker with the answers so far; empty for a
            refusal that was recorded by an earlier run.
    """

    reason: str
    reply: str | None = None
    message: str = ""


Given: TypeAlias = Mapping[str, Answer[Json | SecretValue] | NoAnswer]


class Record(Struct, frozen=True):
    """Record an event. The events of a step are one batch: one write, one sync."""

    event: Event


class CallModel(Struct, frozen=True):
    """Request a response of the model to the recorded conversation."""


class StopModel(Struct, frozen=True):
    """Stop the model's response."""


class PreviewQuestion(Struct, frozen=True):
    """Determine the first question of a tool without running it; `QuestionPreviewed` returns it."""

    call: ToolCall


class RunTool(Struct, frozen=True):
    """Run the tool with the answers so far, by question id.

    `unanswered` has the reasons for missing answers, if the tool handles them.
    """

    call: ToolCall
    answers: Mapping[str, Json | SecretValue]
    unanswered: Mapping[str, str] = {}


class GiveAnswers(Struct, frozen=True):
    """Give the answers to one `await ctx.ask` of a running tool.

    `at_once` means that the call has never asked two questions at the same time. Then no other
    coroutine of the call is about to ask, and the answers can be given immediately.
    """

    call: str
    ask: int
    answers: Given
    at_once: bool = False


class ConfirmValue(Struct, frozen=True):
    """Tell the coroutine with this number that its value is on record."""

    call: str
    number: int


class RunChild(Struct, frozen=True):
    """Start the turn of another agent inside a tool; `child` is on record and names the
    conversation.
    """

    number: int
    child: Child


class StopTool(Struct, frozen=True):
    """Cancel the tool; its result is dropped."""

    call: str


class PromptUser(Struct, frozen=True):
    """Show a prompt to a person. `id` is the id of the decision, also in the reply."""

    id: str
    prompt: Prompt


class ClosePrompt(Struct, frozen=True):
    """Close a prompt: the decision was made elsewhere, or is not needed any more."""

    id: str


class ConsultAssistant(Struct, frozen=True):
    """Ask a model to answer a question, in a side request."""

    request: InquiryRequest
    tool: str

    @property
    def id(self) -> str:
        """The id of the decision, also in the result."""
        return self.request.event_id


class StopAssistant(Struct, frozen=True):
    """Stop a side request."""

    id: str


class Warn(Struct, frozen=True):
    """Show a warning to the user; `event` is the recorded event that it is about."""

    text: str
    event: str | None = None


class SuspendTurn(Struct, frozen=True):
    """The turn waits only for absent people: stop the waiting coroutines, and leave the turn
    open.
    """


class LeaveOpen(Struct, frozen=True):
    """The model is unavailable: stop, and leave the turn open so that it can be resumed."""

    error: str


class EndTurn(Struct, frozen=True):
    """The turn is over, and its end is recorded."""

    status: TurnStatus
    error: str | None = None


Effect: TypeAlias = (
    Record
    | CallModel
    | StopModel
    | PreviewQuestion
    | RunTool
    | GiveAnswers
    | ConfirmValue
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
