"""The events of a conversation, one small class for each kind, and the subset that a provider may see."""

# Without `from __future__ import annotations`: msgspec reads what stands here, and would compile each annotation from text at every start.

from collections.abc import Iterable, Iterator
from datetime import UTC, datetime
from itertools import repeat
from typing import Any, Final, Literal, TypeAlias, TypeVar, cast

import msgspec
from msgspec import UNSET, Raw, Struct, UnsetType

from midturn.question.json_value import Json, JsonObject
from midturn.question.people import People
from midturn.question.persisted_question import PersistedQuestion

# Source of a question: decided by the code path that ran the tool, by nothing else ------------------------------------


class Source(Struct, frozen=True, omit_defaults=True):
    """`tool` (with its registered name), `assistant`, `user`, or `other` (with a name); tags of newer versions are kept.

    Args:
        source: The kind: one of these words.
        name: The name, where there is one.
    """

    source: str
    name: str | None = None

    @classmethod
    def tool(cls, name: str) -> "Source":
        """Return the source of every local tool, MCP tool and Python function.

        Args:
            name: The name under which it is registered.
        """
        return cls("tool", name)

    @property
    def header(self) -> str:
        """The name of the asker at a prompt: `Assistant`, or the tool's registered name."""
        return "Assistant" if self.source == "assistant" else self.name or self.source


ASSISTANT = Source("assistant")
USER = Source("user")


# Images in the result of a call ---------------------------------------------------------------------------------------


class Image(Struct, frozen=True):
    """One: its media type, and its bytes in base64."""

    media_type: str
    data: str

    @property
    def size(self) -> int:
        """Approximate size in bytes."""
        return len(self.data) * 3 // 4


_T = TypeVar("_T")


def always(value: _T) -> _T:
    """Give a field a default that is written although defaults are omitted."""
    return msgspec.field(default_factory=repeat(value).__next__)


class Event(Struct, frozen=True, kw_only=True, omit_defaults=True, gc=False):
    """One line of a conversation.

    The machine leaves `timestamp` empty (the recorder stamps it) and takes `event_id` from the iterator that it was given.
    `more` counts the events of the same batch that follow. A timestamp stays the text that was read, legacy form included.
    `requires` is the oldest version that may go on with the turn, where that matters: an older one would let something pass that it does
    not know of. No event is part of a cycle, so the garbage collector need not look at the thousands of a long conversation (`gc=False`).
    """

    timestamp: str = ""
    event_id: str = ""
    more: int = 0
    metadata: dict[str, Json] | None = None
    requires: str = ""

    @property
    def type(self) -> str:
        """The kind of this event, as on disk."""
        return cast("str", self.__struct_config__.tag)

    def to_json(self) -> dict[str, Json]:
        """Return the event as the JSON object that is on disk."""
        return cast("dict[str, Json]", msgspec.to_builtins(self, enc_hook=encode_custom))

    @property
    def at(self) -> datetime:
        """Time of the record: RFC 3339, or the legacy `YYYY-MM-DD HH:MM:SS.ffffff` in UTC (trailing zeros may be cut)."""
        moment = datetime.fromisoformat(_padded(self.timestamp))
        return moment if moment.tzinfo else moment.replace(tzinfo=UTC)


def encode_custom(value: Any) -> Json:
    """Encode what msgspec does not know: a question in an event."""
    return cast("Json", value.to_json())


def _padded(timestamp: str) -> str:
    """Fill up fractions of a second that were written with trailing zeros cut."""
    seconds, dot, fraction = timestamp.partition(".")
    if not dot:
        return timestamp
    digits = fraction.rstrip("Z")
    zone = "+00:00" if fraction.endswith("Z") else ""
    return f"{seconds}.{digits:0<6}"[: len(seconds) + 7] + zone if digits.isdigit() else timestamp


class AnsweredBy(Struct, frozen=True, omit_defaults=True):
    """The answerer: `user`, `policy` (with `name`), `assistant` (with `model`), `static` (with `origin`), `cached`, `default`.

    A rule about the arguments of a call is `configuration`, with the file and line of the rule as its `origin`.

    `via` says how a person answered (`terminal`, `inbox`, `web`, `api`, `mcp`, `hook`, `acp`), `user` who it was, as the embedding
    program knows: the person's name, with the `login` or the account where that is another one. A `policy` is a prompter of the program
    that stands for no person, an `agent` a program that answers for itself. Other tags are kept.
    """

    by: str
    model: str | None = None
    origin: str | None = None
    via: str | None = None
    user: str | None = None
    name: str | None = None
    login: str | None = None

    @property
    def was_asked(self) -> bool:
        """Whether a prompt was answered, by a person or by a policy of the program, and not by what is configured or remembered."""
        return self.by in ("user", "policy")


class Parent(Struct, frozen=True, omit_defaults=True):
    """The call that an agent's turn runs in: a tool of another agent has started it.

    `child` is the event there that names this turn. `root` is the conversation at the top, where everything goes on, `depth` how far
    below it this turn is.
    """

    conversation: str
    call: str
    child: str
    root: str
    depth: int = 1


class TurnStart(Event, frozen=True, kw_only=True, omit_defaults=True, tag_field="type", tag="turn_start"):
    """A turn begins. `key` is the name that another program's loop has given it, to find it again.

    `parent` is there where it runs inside a tool of another agent.
    """

    key: str = ""
    parent: Parent | None = None


TurnStatus: TypeAlias = Literal["completed", "ended_by_user", "failed"]
"""The values that we write; another one is read as it stands."""


class TurnEnd(Event, frozen=True, kw_only=True, omit_defaults=True, tag_field="type", tag="turn_end"):
    """A turn is over: `completed`, `ended_by_user` or `failed` (with `error`). Without it, the last turn is open.

    `ended_by` is who has ended it in place of an answer.
    """

    status: str
    error: str | None = None
    ended_by: AnsweredBy | None = None


class Suspended(Event, frozen=True, kw_only=True, omit_defaults=True, tag_field="type", tag="suspended"):
    """A run stopped for people although there were answers that it had not been told of in a new event: it has taken them all in.

    `through` is the last event that the run had seen. Only an answer that comes later makes the turn ready again.
    """

    through: str = ""


class ConfigDelta(Event, frozen=True, kw_only=True, omit_defaults=True, tag_field="type", tag="config_delta"):
    """Values set by flags for this conversation; legacy streams write it in more than one shape."""

    delta: Json = None


class ChatRequest(Event, frozen=True, kw_only=True, omit_defaults=True, tag_field="type", tag="chat_request"):
    """The user's message; with `schema`, an answer of that shape is wanted."""

    content: str
    author: str | None = None
    schema: JsonObject | None = None


class ChatResponse(Event, frozen=True, kw_only=True, omit_defaults=True, tag_field="type", tag="chat_response"):
    """One part of what the model answered: exactly one of `message`, `reasoning`, `structured`."""

    message: str | None = None
    reasoning: str | None = None
    structured: Json | UnsetType = UNSET


class ToolCallRequest(Event, frozen=True, kw_only=True, omit_defaults=True, tag_field="type", tag="tool_call_request"):
    """The call as the model sent it, once. `arguments` is an object, or the text that the model sent where that was not a JSON object.

    Its `event_id` is the identity of the call: a provider may reuse `id`, even inside a cycle.
    """

    id: str
    name: str
    arguments: Json = always({})


Said: TypeAlias = ChatResponse | ToolCallRequest
"""A part of what a model answered: a text, its reasoning, a value, or a call."""


class ToolCall(Struct, frozen=True):
    """A call as it runs. `event` is the `event_id` of its request: the identity of a call.

    Args:
        id: What the provider calls it.
        name: The name of the tool.
        arguments: The arguments as they run: an object, or the words of the model where it wrote none.
    """

    event: str
    id: str
    name: str
    arguments: Json


class ToolCallResponse(Event, frozen=True, kw_only=True, omit_defaults=True, tag_field="type", tag="tool_call_response"):
    """The result that the model reads. `call` is the request's `event_id` (absent in legacy streams), `images` are pictures in it."""

    id: str
    content: str = always("")
    is_error: bool = always(False)
    call: str = ""
    images: tuple[Image, ...] = ()


INTERRUPTED: Final = "Tool call interrupted before it finished."
"""The result that a model reads of a call that has none."""


ChildState: TypeAlias = Literal["running", "waiting", "done"]
"""The values that we write; another one is read as it stands."""


class Child(Event, frozen=True, kw_only=True, omit_defaults=True, tag_field="type", tag="child"):
    """A tool has another agent run a turn, in `conversation`. It is recorded before that turn begins, and found again by what it says.

    `agent` is which agent it is, `text_sha256` what it is told, `occurrence` counts the equal runs of the call. When this turn is left to
    people, later events about the child (`of` is the first one's `event_id`) say its `state`: it is `waiting` for people, too, or `done`.
    """

    call: str
    conversation: str
    agent: str = ""
    text_sha256: str = ""
    occurrence: int = 1
    of: str = ""
    state: str = always("running")


class FormAuthored(Struct, frozen=True, omit_defaults=True):
    """The whole form as authored: on the first request of a form of several questions, or of one that is reviewed.

    `questions` are wire objects. `review` says whether the answers are seen once more before they are sent, no matter who gives them.
    """

    total: int
    questions: tuple[dict[str, Json], ...]
    review: bool = True


class InquiryRequest(Event, frozen=True, kw_only=True, omit_defaults=True, tag_field="type", tag="inquiry_request"):
    """A question, recorded before any decision about it. `call`, `tool_call_id` and `question_id` are absent in legacy streams.

    `problem` is what its tool had against the answer before, for which it asks again; `deadline` says until when an answer
    counts (RFC 3339), `people` whose question it is. They stand beside the question, and are no part of it. `configured` people are named
    by a configuration: who answers has to be in there at that time.
    """

    id: str
    source: Source
    question: PersistedQuestion
    call: str = ""
    tool_call_id: str = ""
    question_id: str = ""
    escalates: str | None = None
    revises: str | None = None
    form: FormAuthored | None = None
    problem: str | None = None
    deadline: str = ""
    people: People | None = None
    configured: bool = False


class InquiryAnswered(Event, frozen=True, kw_only=True, omit_defaults=True, tag_field="type", tag="inquiry_response"):
    """The answer, as the tool receives it. A redacted response has a class of its own: it cannot hold one.

    `votes` are the votes that made it, by their `event_id`.
    """

    outcome: Literal["answered"] = always("answered")
    id: str
    answer: Json
    answered_by: AnsweredBy | None = None
    reason: str | None = None
    remembered: bool = False
    votes: tuple[str, ...] = ()


class InquiryCancelled(Event, frozen=True, kw_only=True, omit_defaults=True, tag_field="type", tag="inquiry_response"):
    """No answer. `reason` is a tag of docs/recording.md; a tag of a newer version is kept, and never produced."""

    outcome: Literal["cancelled"] = always("cancelled")
    id: str
    reason: str


class InquiryRedacted(Event, frozen=True, kw_only=True, omit_defaults=True, tag_field="type", tag="inquiry_response"):
    """A secret was answered; the answer was never written."""

    outcome: Literal["redacted"] = always("redacted")
    id: str
    answered_by: AnsweredBy | None = None


InquiryResponse: TypeAlias = InquiryAnswered | InquiryCancelled | InquiryRedacted
"""The response to an inquiry; `isinstance` takes it, too.

A union, and no base class: only of a union does the type checker see that a `match` names every kind. `ChatResponse` and `ToolCallResponse`
share nothing with these but the word, and no code asks for all of them at once.
"""
CancelReason: TypeAlias = Literal[
    "user",
    "backend_error",
    "no_prompt_backend",
    "assistant_routing_denied",
    "invalid_static_answer",
    "reply",
    "back",
    "detached_denied",
    "no_default",
    "limit_exceeded",
    "superseded",
    "deadline",
]
NO_ONE_THERE: Final[tuple[CancelReason, ...]] = ("no_prompt_backend", "no_default", "detached_denied")
"""Why a question was closed that a human who is there could have answered."""
STANDS: Final[dict[str, Json]] = {"stands": "assistant"}
"""Metadata of the request that escalation put to a person, where nobody was there: the model's answer before it is the answer."""


ApprovalState: TypeAlias = Literal["waiting", "approved", "skipped", "edited", "superseded", "expired"]
"""The values that we write; another one is read as it stands."""


class Approval(Event, frozen=True, kw_only=True, omit_defaults=True, tag_field="type", tag="approval"):
    """`kind` is `run`, `deliver` or `review`; `state` is `waiting`, `approved`, `skipped`, `edited`, `superseded` or `expired`.

    It is `superseded` when it was decided where midturn could not see it. `arguments_sha256` binds an approved run to its exact
    bytes; `edited` carries the new `arguments` or `content`; a waiting delivery carries its `content`, `is_error` and `images`.
    `form` says which form a review is about, where its call asked several at once: the id of the form's first inquiry.
    `question`, with its `question_id`, is what the tool foretold that it would ask: who decides about the run sees it instead of our words.
    `kept` is what another agent keeps of a yes that is `remembered`, as it was shown.
    A review that a person `skipped` was replied to, in the words of `reason`: nothing was sent.
    `rule` is the place of the rule that had a person asked about the run, `deadline` until when a yes counts that is waited for (RFC 3339),
    `people` whose decision it is while it waits (`configured` as of a question), and `votes` the votes that made a
    decision, by their `event_id`.
    `definition` is the fingerprint of the tool of a call that waits, and `is_local` says that a file of the workspace defines it.
    `any_arguments` says, of a run that waits, that no rule of its tool depends on the arguments: who may decide the call may also edit it.
    Without it, only a process that knows the rules can tell who may decide the edited call.
    `arguments_schema` is the JSON Schema that edited arguments of a run that waits have to fit.
    """

    id: str
    call: str
    kind: str
    state: str
    reason: str | None = None
    remembered: bool = False
    kept: str = ""
    answered_by: AnsweredBy | None = None
    arguments_sha256: str | None = None
    arguments: Json | UnsetType = UNSET
    content: str | None = None
    is_error: bool | None = None
    images: tuple[Image, ...] = ()
    form: str | None = None
    question_id: str = ""
    question: PersistedQuestion | None = None
    rule: str = ""
    deadline: str = ""
    people: People | None = None
    configured: bool = False
    votes: tuple[str, ...] = ()
    definition: str = ""
    is_local: bool = False
    any_arguments: bool = False
    arguments_schema: JsonObject | None = None

    @property
    def is_reply(self) -> bool:
        """Whether a person said something else at a review instead of sending the answers."""
        return self.kind == "review" and self.state == "skipped" and self.answered_by is not None and self.answered_by.was_asked


# Decisions that hold for the rest of a conversation ----------------------------------------------------------------------


class Standing(Event, frozen=True, kw_only=True, omit_defaults=True, tag_field="type", tag="standing"):
    """A decision that holds for the rest of the conversation: a permission for calls of `tool`, or the answer to one of its questions.

    `id` is the approval or the inquiry with which it was given. A permission has a `rule`, and the `definition` (fingerprint) of the tool.
    An answer has the `question_id`, and the `question_sha256` of the question as it was shown: to another question it is no answer.
    """

    id: str
    tool: str
    rule: JsonObject | None = None
    definition: str = ""
    question_id: str = ""
    question_sha256: str = ""
    answer: Json | UnsetType = UNSET
    answered_by: AnsweredBy | None = None


# Notes on a request: `id` is that of the inquiry or the approval that they are about. None of them answers it ---------------


class Vote(Event, frozen=True, kw_only=True, omit_defaults=True, tag_field="type", tag="vote"):
    """One person's yes or no, where several have to say yes. A later one of the same person takes the place of an earlier one.

    `withdrawn` takes the person's yes back. `arguments` are an edit of the call: it is what is voted on from here on, so that it voids
    the votes before; `sha256` is that of the arguments of a call that a yes is about.
    """

    id: str
    answer: bool = always(True)
    reason: str | None = None
    answered_by: AnsweredBy | None = None
    withdrawn: bool = False
    arguments: Json | UnsetType = UNSET
    sha256: str = ""


ProposalState: TypeAlias = Literal["unchecked", "open", "refused"]
"""The values that we write; another one is read as it is stored."""


class Proposal(Event, frozen=True, kw_only=True, omit_defaults=True, tag_field="type", tag="proposal"):
    """An edit of a call that its editor may not decide alone. It is about the approval `id`; `answered_by` is the editor.

    `state` says what became of it:

    - `unchecked`: the process that recorded the edit does not know the rules of the tool. The process that runs the turn reads them next.
    - `open`: from here on, `people` decide about the new `arguments`, under the rule at `rule` and for its `reason`. Votes and
      reassignments before it are void.
    - `refused`: the new arguments may not run, for the given `reason`. What was asked before is asked again.
    """

    id: str
    state: str
    arguments: Json
    answered_by: AnsweredBy | None = None
    people: People | None = None
    configured: bool = False
    rule: str = ""
    reason: str | None = None


class Reassigned(Event, frozen=True, kw_only=True, omit_defaults=True, tag_field="type", tag="reassigned"):
    """A person has passed the question on: from now on it is put to these people and groups."""

    id: str
    to: tuple[str, ...]
    reason: str | None = None
    answered_by: AnsweredBy | None = None


class Reminded(Event, frozen=True, kw_only=True, omit_defaults=True, tag_field="type", tag="reminded"):
    """A reminder was sent to the people who are asked; `number` counts the reminders. Recorded after a service accepted it.

    Versions before 0.3 recorded it before sending.
    """

    id: str
    number: int
    to: tuple[str, ...] = ()


class Escalated(Event, frozen=True, kw_only=True, omit_defaults=True, tag_field="type", tag="escalated"):
    """The question is put to other people, too; `number` says which of its escalations this is, from 1. Recorded before they are told."""

    id: str
    number: int
    to: tuple[str, ...] = ()


class Notified(Event, frozen=True, kw_only=True, omit_defaults=True, tag_field="type", tag="notified"):
    """Outcome of one attempt to notify people, recorded after it.

    `about` is `asked`, `reassigned`, `reminded` or `escalated` (`sent` for the card of a channel), and `number` counts the notices about
    it. `error` says why the attempt failed; without it, every address accepted the notice. `retry_at` is the time of the next attempt
    after a failure (RFC 3339); empty if there is none.
    """

    id: str
    about: str
    to: tuple[str, ...] = ()
    error: str | None = None
    number: int = 0
    retry_at: str = ""


Note: TypeAlias = Vote | Proposal | Reassigned | Reminded | Escalated | Notified
"""A note on a request; `isinstance` takes it, too."""


NEVER_REDACTED: Final = frozenset({"answer", "reason"})
"""Fields that a `redacted` response never has."""


PEOPLE_AND_DEADLINES: Final = "0.2"
"""The version from which on whose question it is, and until when, is heeded: an older one would let anyone answer, at any time."""


PROPOSALS: Final = "0.3"
"""The version from which edits are proposals: an older one would count a yes to the edited call for the original call."""


def required_by(deadline: str, people: People | None) -> str:
    """Return the oldest version that may go on with a turn in which something is asked so; empty where any may."""
    return PEOPLE_AND_DEADLINES if deadline or people else ""


class OpaqueEvent(Event, frozen=True, kw_only=True):
    """An event of an unknown kind, or one of a known kind that breaks its rules: kept byte for byte in `raw`, and sent nowhere.

    `problem` says what is wrong with it; it is empty for a kind that is merely unknown.
    """

    kind: str
    raw: Raw
    problem: str = ""

    @property
    def type(self) -> str:
        """The kind of this event, as on disk (empty where there is none)."""
        return self.kind

    def to_json(self) -> dict[str, Json]:
        """Return the event as the JSON object that was read; where that is none, its bytes as `raw`, and the `problem`.

        An answer that was edited into a `redacted` response stays behind.
        """
        try:
            fields = msgspec.json.decode(self.raw, type=dict[str, Any])
        except (ValueError, RecursionError):  # msgspec's errors and Unicode's are ValueErrors
            return {"type": self.kind, "problem": self.problem, "raw": bytes(self.raw).decode("utf-8", "replace")}
        redacted = self.kind == "inquiry_response" and fields.get("outcome") == "redacted"
        return {name: value for name, value in fields.items() if not (redacted and name in NEVER_REDACTED)}


VisibleEvent: TypeAlias = ChatRequest | ChatResponse | ToolCallRequest | ToolCallResponse

_ALLOWED: Final = (ChatRequest, ChatResponse, ToolCallRequest, ToolCallResponse)


def visible(event: Event) -> bool:
    """Say whether providers are sent this event."""
    return isinstance(event, _ALLOWED)


# What events say, each kind read here: other modules ask these, or a `TurnView` for what adds up to more ----------------------


def user_requests(events: Iterable[Event]) -> Iterator[ChatRequest]:
    """Yield what the user asked for, in the order of the events."""
    return (event for event in events if isinstance(event, ChatRequest))


def model_responses(events: Iterable[Event]) -> Iterator[ChatResponse]:
    """Yield what the model said."""
    return (event for event in events if type(event) is ChatResponse)


def call_requests(events: Iterable[Event]) -> Iterator[ToolCallRequest]:
    """Yield the calls that the model made."""
    return (event for event in events if isinstance(event, ToolCallRequest))


def call_results(events: Iterable[Event]) -> Iterator[ToolCallResponse]:
    """Yield what the model reads of its calls."""
    return (event for event in events if isinstance(event, ToolCallResponse))


def said_to_model(event: Event) -> str | None:
    """Return what the user says, or a result; None of an event that says nothing to the model."""
    return event.content if isinstance(event, ChatRequest | ToolCallResponse) else None


def inquiry_requests(events: Iterable[Event]) -> Iterator[InquiryRequest]:
    """Yield the questions."""
    return (event for event in events if isinstance(event, InquiryRequest))


def put_to_people(events: Iterable[Event]) -> Iterator[InquiryRequest | Approval]:
    """Yield the questions, and everything about permissions, deliveries and reviews."""
    return (event for event in events if isinstance(event, InquiryRequest | Approval))


def deadlines(events: Iterable[Event]) -> Iterator[str]:
    """Yield the deadlines of what is put to people; an empty text where there is none."""
    return (event.deadline for event in events if type(event) is InquiryRequest or type(event) is Approval)


def delta_events(events: Iterable[Event]) -> Iterator[ConfigDelta]:
    """Yield the events of what flags set."""
    return (event for event in events if isinstance(event, ConfigDelta))


def turn_keys(events: Iterable[Event]) -> Iterator[str]:
    """Yield the keys that other programs have given to turns that begin here."""
    return (event.key for event in events if isinstance(event, TurnStart))


def turn_ends(events: Iterable[Event]) -> Iterator[TurnEnd]:
    """Yield the ends of turns."""
    return (event for event in events if isinstance(event, TurnEnd))


def answered_by_model(event: Event) -> bool:
    """Say whether a model answered a question here."""
    return isinstance(event, InquiryAnswered) and event.answered_by is not None and event.answered_by.by == "assistant"


def is_opaque(event: Event) -> bool:
    """Say whether an event is kept as the bytes that were read."""
    return isinstance(event, OpaqueEvent)


def problem_in(event: Event) -> str:
    """Say what could not be read of an event; empty where nothing is wrong with it."""
    return event.problem if isinstance(event, OpaqueEvent) else ""
