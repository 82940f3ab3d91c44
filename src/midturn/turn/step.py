"""Inputs and effects of a step: everything that can happen to a turn, and what is to be done, its records first.

The records of a step are one batch, durable before anything else begins.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Generic, Literal, TypeAlias, TypeVar

from msgspec import Struct

from midturn.events.types import AnsweredBy, Child, Event, InquiryRequest, Note, Said, Source, Standing, ToolCall, TurnStart, TurnStatus
from midturn.question.json_value import DEFAULT_LIMITS, Json, JsonObject, Limits, SecretValue
from midturn.question.people import Directory, People
from midturn.routing.policy import ToolPolicy
from midturn.routing.rules import Ruling
from midturn.turn.record import TurnRecord

if TYPE_CHECKING:  # nothing here is read from JSON, and who only talks needs none of these to run
    from midturn.events.outcome import Success, ToolError
    from midturn.events.prompt import Prompt
    from midturn.question.form import Form
    from midturn.question.question import Question
    from midturn.question.reply import Reply

OnFailure: TypeAlias = Literal["fail_call", "report", "report_all"]


class TurnRequested(Struct, frozen=True):
    """The user says something. `delta` is what flags set for this conversation."""

    content: str
    author: str | None = None
    schema: JsonObject | None = None
    delta: JsonObject | None = None


class TurnResumed(Struct, frozen=True):
    """A process goes on with a turn that was left open."""


class ModelAnswered(Struct, frozen=True):
    """The model's response is complete; `parts` are its texts, its reasoning and its calls, in order, as they are recorded."""

    parts: tuple[Said, ...]


class CallBegun(Struct, frozen=True):
    """A loop that is not ours makes a call; or makes it again, where the process before left it unfinished.

    `agent` is the name of the agent that makes it, if the loop runs several. `outer` is the `event_id` of the call in whose function it is
    made, if there is one.
    """

    id: str
    name: str
    arguments: JsonObject
    agent: str = ""
    outer: str = ""


class CallLeft(Struct, frozen=True):
    """A loop that is not ours goes away from a call, which stays as it is recorded: unfinished, its questions open."""

    call: str


class LoopEnded(Struct, frozen=True):
    """A loop that is not ours is done with the turn, which is over unless calls of it are unfinished."""


class ModelFailed(Struct, frozen=True):
    """The model stayed down after its retries: the turn stays open."""

    error: str


class TurnFailed(Struct, frozen=True):
    """Something that no resuming can mend: the turn ends `failed`."""

    error: str


class FormWanted(Struct, frozen=True):
    """A form on its way to its answers; `on_failure` says whether a refusal fails the call or is reported to its coroutine.

    With `report_all` a reply is reported, too, where it would otherwise end the call. `human_only`: no configuration lets a model or a
    default answer any of it, as one may where a question is merely `exclusive`. `problem` is what the tool has against the answer that it
    had before.
    """

    form: Form
    source: Source
    on_failure: OnFailure = "fail_call"
    human_only: bool = False
    problem: str | None = None


class Foretold(Struct, frozen=True):
    """What the tool of a call would ask first if it ran now; None where that is nothing, or nothing that a yes would answer.

    `said`: what the program's own rule says about the call, where its tool has one.
    """

    call: str
    question: Question[bool] | None
    said: Ruling | None = None


class TimePassed(Struct, frozen=True):
    """It is `now` (RFC 3339, UTC): what has a deadline before that is over. Comes before what is asked with a deadline, too."""

    now: str


class TimeRead(Struct, frozen=True):
    """It is `now` by a clock that is not to be believed: what is asked counts from then, and nothing is over."""

    now: str


class TimeIsUp(Struct, frozen=True):
    """The turn has worked for as long as it may, in seconds."""

    seconds: float


class ToolReturned(Struct, frozen=True):
    """A tool has returned what it wants answered: its run is over, and another begins with the answers."""

    call: str
    asking: FormWanted


class ToolAwaits(Struct, frozen=True):
    """A coroutine of a running tool waits for answers; `ask` numbers the `await ctx.ask`s of one run."""

    call: str
    ask: int
    asking: FormWanted


class FormDropped(Struct, frozen=True):
    """A coroutine gave up its ask."""

    call: str
    ask: int


class ChildWanted(Struct, frozen=True):
    """A running tool has another agent run a turn; `number` numbers what one run of the tool wants.

    `child` says which, in a conversation that would be new. It is the one that was recorded before, unless `lost` names that: then there
    is no such conversation to be had.
    """

    number: int
    child: Child
    lost: str = ""

    @property
    def call(self) -> str:
        """The call whose tool it is."""
        return self.child.call


class ChildMoved(Struct, frozen=True):
    """A turn inside a tool runs (`moving`), waits for people alone (`resting`), is `over`, or was `ended` by a person."""

    call: str
    child: str
    now: Literal["moving", "resting", "over", "ended"]


class ToolQueued(Struct, frozen=True):
    """A running tool cannot begin before the tools of other calls are done, which are ahead of it."""

    call: str
    ahead: tuple[str, ...]


class ToolDone(Struct, frozen=True):
    """A tool is done."""

    call: str
    outcome: Success | ToolError


class UserReplied(Struct, frozen=True):
    """A prompter returned. `id` names what was asked, as in `PromptUser`."""

    id: str
    reply: Reply
    who: AnsweredBy = AnsweredBy("user")
    digest: str = ""
    """Digest of what the prompt showed; empty for what is on the screen now."""


class AnsweredElsewhere(Struct, frozen=True):
    """An answer from outside this prompt: the inbox, a browser, a program. `event_id` is that of what waits for it.

    `key` is that of a queued vote, and recorded with it. `digest` is that of the subject its sender saw (see `OpenQuestion.digest`).
    """

    event_id: str
    reply: Reply
    who: AnsweredBy
    key: str = ""
    digest: str = ""


class Noted(Struct, frozen=True):
    """Something is noted on an open request from outside: a vote is taken back, it is passed on, people are told. It answers nothing."""

    event_id: str
    note: Note


class PromptFailed(Struct, frozen=True):
    """A prompter raised."""

    id: str
    error: str


class AssistantReplied(Struct, frozen=True):
    """A model answered on the side, and the answer fits the question."""

    id: str
    answer: Json
    model: str
    reason: str | None = None
    metadata: dict[str, Json] | None = None


class AssistantFailed(Struct, frozen=True):
    """A model that was asked gave no valid answer."""

    id: str
    error: str
    metadata: dict[str, Json] | None = None


class Interrupted(Struct, frozen=True):
    """Ctrl-C with no prompt open. `parts` is what the model had said by then."""

    parts: tuple[Said, ...] = ()


ToldOfCall: TypeAlias = ToolDone | ToolQueued | ToolReturned | Foretold | FormDropped | ChildWanted | ChildMoved
"""What a tool says of its call, besides what it asks; `call` is the event that requested it."""

ToldAtDesk: TypeAlias = UserReplied | AnsweredElsewhere | Noted | PromptFailed | AssistantReplied | AssistantFailed
"""What people, prompters and models say of a decision that is open, or was."""

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
    | ToldOfCall
    | ToldAtDesk
    | Interrupted
)


# Settings: the world that a turn runs in ------------------------------------------------------------------------------


class TurnSettings(Struct, frozen=True, kw_only=True):
    """`tools` holds what configuration says about each offered tool; a call of any other name is answered with an error.

    `at_prompt` is who answers where a person is attached: what is not theirs to decide is not shown to them. `directory` knows people.
    `answerers` does so only where an answer is taken outside of a run, which fills in nothing.
    `prompts_at_once` is how many prompts may be open (a terminal shows one). The tools in `foretelling` can say before they run what they
    would ask first; those in `own_rules` have a rule that is a function of the program. `knows_rules` is false in a process that does not
    run the turn: it has no configuration of the tools. It may know the rules by which an edit is checked (`rules_of_edits`).
    `start` is how a turn begins that is new. `family` are the turns of agents
    inside of tools, and those around them, by the event that names them: they share the limits of what a person is shown, and of how often
    models are asked. `standing` are the decisions that hold for the rest of the conversation, as of the start of the turn.
    """

    tools: Mapping[str, ToolPolicy]
    conversation: str = ""
    attached: bool = True
    at_prompt: AnsweredBy = AnsweredBy("user")
    directory: Directory | None = None
    answerers: Directory | None = None
    limits: Limits = DEFAULT_LIMITS
    prompts_at_once: int = 1
    foretelling: frozenset[str] = frozenset()
    own_rules: frozenset[str] = frozenset()
    knows_rules: bool = True
    rules_of_edits: Callable[[Json], Ruling] | None = None
    start: TurnStart = TurnStart()
    family: dict[str, TurnRecord] = {}
    standing: tuple[Standing, ...] = ()

    @property
    def known_people(self) -> Directory | None:
        """The people that are configured here, whose answers count."""
        return self.answerers or self.directory

    @property
    def names_people(self) -> bool:
        """Whether a configuration names the people that are asked."""
        return self.directory is not None and bool(self.directory.people)

    def filled_in(self, people: People) -> People:
        """Return what is recorded of whose question it is: a program says itself who is behind names, a configuration does so alone."""
        return people if self.directory is None else self.directory.filled_in(people)


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
    """Resolve one `await ctx.ask` of a running tool.

    `at_once`: so far its call has asked one question after the other, so that no one else in it is about to ask who was there first.
    """

    call: str
    ask: int
    answers: Given
    at_once: bool = False


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
