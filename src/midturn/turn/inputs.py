"""Inputs and effects of the state machine.

The `Record` effects of a step come first. Their events are one batch, which must be durable before
the driver performs any other effect.
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

# for annotations only: these classes are not decoded from JSON, and importing the modules would
# slow down a turn without tools
if TYPE_CHECKING:
    from midturn.events.outcome import Success, ToolError
    from midturn.events.prompt import Prompt
    from midturn.question.form import Form
    from midturn.question.question import Question
    from midturn.question.reply import Reply

OnFailure: TypeAlias = Literal["fail_call", "report", "report_all"]


class TurnRequested(Struct, frozen=True):
    """The user sends a message. `delta` contains the settings that flags change for this
    conversation. `metadata` is data that the program stores with the message.
    """

    content: str
    author: str | None = None
    schema: JsonObject | None = None
    delta: JsonObject | None = None
    metadata: dict[str, Json] | None = None


class TurnResumed(Struct, frozen=True):
    """A process continues a turn that was left open."""


class ModelAnswered(Struct, frozen=True):
    """The model's response is complete. `parts` contains its texts, reasoning and calls as events,
    in order.
    """

    parts: tuple[Said, ...]


class CallBegun(Struct, frozen=True):
    """Another program's agent loop makes a call, or makes an unfinished call again.

    `agent` is the name of the agent that makes the call, if the loop runs several agents. `outer`
    is the `event_id` of the outer call whose function makes this call, if there is one.
    """

    id: str
    name: str
    arguments: JsonObject
    agent: str = ""
    outer: str = ""


class CallLeft(Struct, frozen=True):
    """Another program's agent loop stops working on a call. The call stays unfinished, with its
    open questions.
    """

    call: str


class LoopEnded(Struct, frozen=True):
    """Another program's agent loop has finished the turn. The turn ends unless it has unfinished
    calls.
    """


class ModelFailed(Struct, frozen=True):
    """The model is still unavailable after all retries, so the turn stays open."""

    error: str


class TurnFailed(Struct, frozen=True):
    """A permanent error, which resuming cannot repair. The turn ends as `failed`."""

    error: str


class FormWanted(Struct, frozen=True):
    """A form that a tool asks.

    Args:
        form: The form.
        source: Who asks the questions.
        on_failure: What happens if an answer is missing: `fail_call` ends the call, `report`
            reports the reason to the tool, and `report_all` also reports replies, which would
            otherwise end the call.
        human_only: Whether only people may answer, whatever the configuration says. For a question
            that is just `exclusive`, the configuration can allow a model or a default.
        problem: Why the tool rejected the previous answer.
        on_behalf_of: Name of another agent that asks through the tool, or None.
    """

    form: Form
    source: Source
    on_failure: OnFailure = "fail_call"
    human_only: bool = False
    problem: str | None = None
    on_behalf_of: str | None = None

    def has_asked(self, recorded: Source) -> bool:
        """Return whether a recorded question with this source may belong to this form.

        The answer to one agent is not used for another agent, or for the tool itself. An agent that
        makes the whole call may have a new name.
        """
        if self.on_behalf_of is not None:
            return recorded == self.source
        return recorded.source != "other" or self.source.source == "other"


class QuestionPreviewed(Struct, frozen=True):
    """The question that the tool of a call would ask first. None if it would not ask one, or if
    approving the call would not answer it.

    `ruling` is the result of the tool's own rule function, if it has one.
    """

    call: str
    question: Question[bool] | None
    ruling: Ruling | None = None


class TimePassed(Struct, frozen=True):
    """The current time is `now` (RFC 3339, UTC). Deadlines up to this time have passed.

    Also sent before a question with a deadline is asked.
    """

    now: str


class TimeRead(Struct, frozen=True):
    """The current time is `now`, according to an untrusted clock. New deadlines are computed from
    this time, but no deadline expires.
    """

    now: str


class TimeIsUp(Struct, frozen=True):
    """The turn reached its time limit (`limits.seconds`)."""

    seconds: float


class ToolReturned(Struct, frozen=True):
    """A tool returned a form. This run of the tool is over, and another run begins with the
    answers.
    """

    call: str
    asking: FormWanted


class ToolAwaits(Struct, frozen=True):
    """A coroutine of a running tool waits for answers. `ask` is the number of this `await ctx.ask`
    in the run.
    """

    call: str
    ask: int
    asking: FormWanted


class FormDropped(Struct, frozen=True):
    """A coroutine stopped waiting for its answers."""

    call: str
    ask: int


class ChildTurnRequested(Struct, frozen=True):
    """A running tool starts a turn with another agent.

    Args:
        number: Number of the request in this run of the tool.
        child: The turn, in a new conversation. If the same turn is already recorded, the recorded
            turn is used.
        lost: The recorded turn that cannot be used because its conversation does not exist. Empty
            if there is none.
    """

    number: int
    child: Child
    lost: str = ""

    @property
    def call(self) -> str:
        """The call whose tool started the turn."""
        return self.child.call


class ChildTurnChanged(Struct, frozen=True):
    """The state of a turn inside a tool changed: it is running (`moving`), waits only for people
    (`resting`), is `over`, or was `ended` by a person.
    """

    call: str
    child: str
    now: Literal["moving", "resting", "over", "ended"]


class ValueKept(Struct, frozen=True):
    """A coroutine of a running tool stores a value for later runs of its call.

    `number` identifies the coroutine that waits until the value is durable.
    """

    call: str
    number: int
    name: str
    value: Json


class ToolQueued(Struct, frozen=True):
    """A tool must wait for the tools of the calls in `ahead`."""

    call: str
    ahead: tuple[str, ...]


class ToolDone(Struct, frozen=True):
    """A tool finished."""

    call: str
    outcome: Success | ToolError


class UserReplied(Struct, frozen=True):
    """A prompter returned a reply. `id` is the id of the decision, as in `PromptUser`."""

    id: str
    reply: Reply
    who: AnsweredBy = AnsweredBy("user")
    digest: str = ""
    """Digest of the subject that the prompt showed. Empty for the current subject."""


class AnsweredElsewhere(Struct, frozen=True):
    """An answer that did not come from the prompt, but from the inbox, a browser or a program.

    Args:
        event_id: The `event_id` of the request or approval that is answered.
        reply: The reply.
        who: The person or program that replied.
        key: Key of a queued vote. It is recorded with the vote.
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
    """A prompter raised an exception."""

    id: str
    error: str


class AssistantReplied(Struct, frozen=True):
    """A model answered a question in a side request, and the answer is valid."""

    id: str
    answer: Json
    model: str
    reason: str | None = None
    metadata: dict[str, Json] | None = None


class AssistantFailed(Struct, frozen=True):
    """A model did not give a valid answer to a question."""

    id: str
    error: str
    metadata: dict[str, Json] | None = None


class Interrupted(Struct, frozen=True):
    """The user pressed Ctrl-C while no prompt was open. `parts` is the model's output so far."""

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
"""Inputs about a running call. `call` is the `event_id` of its request."""

AboutDecision: TypeAlias = (
    UserReplied | AnsweredElsewhere | Noted | PromptFailed | AssistantReplied | AssistantFailed
)
"""Inputs from people, prompters and models about a decision, which may already be closed."""

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
    """An answer with its responder and reason. `by` is the kind of responder (`user`, `assistant`,
    …), as in the events reference. `reason` is the text that the responder gave.

    Args:
        value: The answer, in the type that the question asks for.
    """

    value: T_co
    reason: str | None = None
    by: str = "user"


class NoAnswer(Struct, frozen=True):
    """Why an answer is missing.

    Args:
        reason: One of the reasons in the events reference. Tools never receive `user`, because it
            ends the turn. Only tools that handle replies receive `reply`; for other tools, a reply
            ends the call.
        reply: The text of a `reply`.
        message: Text for the model. For a reply, it contains the answers so far. Empty for a
            refusal that an earlier run recorded.
    """

    reason: str
    reply: str | None = None
    message: str = ""


Given: TypeAlias = Mapping[str, Answer[Json | SecretValue] | NoAnswer]


class Record(Struct, frozen=True):
    """Record an event. The events of a step are one batch: one write, one sync."""

    event: Event


class CallModel(Struct, frozen=True):
    """Request the model's response to the recorded conversation."""


class StopModel(Struct, frozen=True):
    """Stop the model's response."""


class PreviewQuestion(Struct, frozen=True):
    """Determine the first question of a tool without running the tool. The result is a
    `QuestionPreviewed`.
    """

    call: ToolCall


class RunTool(Struct, frozen=True):
    """Run the tool with the answers so far, by question id.

    `unanswered` contains the reasons for missing answers, if the tool handles them.
    """

    call: ToolCall
    answers: Mapping[str, Json | SecretValue]
    unanswered: Mapping[str, str] = {}


class GiveAnswers(Struct, frozen=True):
    """Pass the answers to one `await ctx.ask` of a running tool.

    `at_once` means that the call never asked two questions at the same time. No other coroutine of
    the call is then about to ask, so the answers can be passed immediately.
    """

    call: str
    ask: int
    answers: Given
    at_once: bool = False


class ConfirmValue(Struct, frozen=True):
    """Notify the coroutine with this number that its value is recorded."""

    call: str
    number: int


class RunChild(Struct, frozen=True):
    """Start a turn with another agent inside a tool. The recorded event `child` names its
    conversation.
    """

    number: int
    child: Child


class StopTool(Struct, frozen=True):
    """Cancel the tool and drop its result."""

    call: str


class PromptUser(Struct, frozen=True):
    """Show a prompt to a person. `id` is the id of the decision, and the reply contains the same
    id.
    """

    id: str
    prompt: Prompt


class ClosePrompt(Struct, frozen=True):
    """Close a prompt, because the decision was made elsewhere or is no longer needed."""

    id: str


class ConsultAssistant(Struct, frozen=True):
    """Ask a model to answer a question, in a side request."""

    request: InquiryRequest
    tool: str

    @property
    def id(self) -> str:
        """The id of the decision. The result contains the same id."""
        return self.request.event_id


class StopAssistant(Struct, frozen=True):
    """Stop a side request."""

    id: str


class Warn(Struct, frozen=True):
    """Show a warning to the user. `event` is the recorded event that caused it."""

    text: str
    event: str | None = None


class SuspendTurn(Struct, frozen=True):
    """Stop the waiting coroutines and leave the turn open: it waits only for absent people."""


class LeaveOpen(Struct, frozen=True):
    """Stop and leave the turn open, because the model is unavailable. The turn can be resumed."""

    error: str


class EndTurn(Struct, frozen=True):
    """Stop, because the turn is over and its end is recorded."""

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
