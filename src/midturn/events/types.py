"""The event types of a conversation, and the subset that a provider sees."""

# No `from __future__ import annotations`: msgspec would compile each annotation from its text at
# every start.

from collections.abc import Iterable, Iterator
from datetime import UTC, datetime
from itertools import repeat
from typing import Any, Final, Literal, TypeAlias, TypeVar, cast

import msgspec
from msgspec import UNSET, Raw, Struct, UnsetType

from midturn.question.json_value import Json, JsonObject
from midturn.question.people import People
from midturn.question.persisted_question import PersistedQuestion

# Source of a question, determined only by the code path that ran the tool
# --------------------------------------------


class Source(Struct, frozen=True, omit_defaults=True):
    """The source of a question.

    Args:
        source: `tool`, `assistant`, `user` or `other`. Unknown values from newer versions are
            preserved.
        name: The registered name of a tool, or the name of another source.
    """

    source: str
    name: str | None = None

    @classmethod
    def tool(cls, name: str) -> "Source":
        """Return the source of a local tool, an MCP tool or a Python function.

        Args:
            name: The registered name of the tool.
        """
        return cls("tool", name)

    @property
    def header(self) -> str:
        """The name shown as the asker: `Assistant`, or the tool's registered name."""
        return "Assistant" if self.source == "assistant" else self.name or self.source


ASSISTANT = Source("assistant")
USER = Source("user")


# Images in the result of a call
# --------------------------------------------------------------------------------------------------


class Image(Struct, frozen=True):
    """An image: its media type, and its bytes in base64."""

    media_type: str
    data: str

    @property
    def size(self) -> int:
        """Approximate size in bytes."""
        return len(self.data) * 3 // 4


_T = TypeVar("_T")


def always(value: _T) -> _T:
    """Give a field a default that is written to disk. Other default values are omitted."""
    return msgspec.field(default_factory=repeat(value).__next__)


class Event(Struct, frozen=True, kw_only=True, omit_defaults=True, gc=False):
    """One event, which is one line of a conversation's log.

    The turn leaves `timestamp` empty, and the recorder sets it. `event_id` comes from the turn's id
    generator. `more` is the number of events that follow in the same batch. A timestamp that was
    read from disk is not reformatted, even if it has the legacy format. `requires` is the oldest
    version that may continue the turn, if older versions would ignore something important. Events
    are never part of a reference cycle, so they are excluded from garbage collection (`gc=False`),
    which matters for long conversations.
    """

    timestamp: str = ""
    event_id: str = ""
    more: int = 0
    metadata: dict[str, Json] | None = None
    requires: str = ""

    @property
    def type(self) -> str:
        """The event type, as on disk."""
        return cast("str", self.__struct_config__.tag)

    def to_json(self) -> dict[str, Json]:
        """Return the event as the JSON object on disk."""
        return cast("dict[str, Json]", msgspec.to_builtins(self, enc_hook=encode_custom))

    @property
    def at(self) -> datetime:
        """The parsed timestamp. Accepts RFC 3339, and the legacy format `YYYY-MM-DD
        HH:MM:SS.ffffff` in UTC, possibly without trailing zeros.
        """
        moment = datetime.fromisoformat(_padded(self.timestamp))
        return moment if moment.tzinfo else moment.replace(tzinfo=UTC)


def encode_custom(value: Any) -> Json:
    """Encode a type that msgspec does not support: a question in an event."""
    return cast("Json", value.to_json())


def _padded(timestamp: str) -> str:
    """Restore the trailing zeros that were cut from a fraction of a second."""
    seconds, dot, fraction = timestamp.partition(".")
    if not dot:
        return timestamp
    digits = fraction.rstrip("Z")
    zone = "+00:00" if fraction.endswith("Z") else ""
    return f"{seconds}.{digits:0<6}"[: len(seconds) + 7] + zone if digits.isdigit() else timestamp


class AnsweredBy(Struct, frozen=True, omit_defaults=True):
    """Who or what answered a question.

    `by` is `user`, `policy` (with `name`), `assistant` (with `model`), `static` (with `origin`),
    `cached`, `default`, or `configuration` for a rule about a call's arguments, with the rule's
    file and line as `origin`. Unknown values are preserved.

    `via` is how a person answered (`terminal`, `inbox`, `web`, `api`, `mcp`, `hook`, `acp`). `user`
    is the person's name in the embedding program, and `login` the account if it differs. A `policy`
    is a prompter in the embedding program that does not represent a person. An `agent` is a program
    that answers on its own behalf.
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
        """Whether a person or a policy answered a prompt. False for a configured or remembered
        answer.
        """
        return self.by in ("user", "policy")


class Parent(Struct, frozen=True, omit_defaults=True):
    """The call that an agent's turn runs in, if another agent's tool started the turn.

    `child` is the event in the outer conversation that refers to this turn. `root` is the outermost
    conversation; resuming it resumes all nested turns. `depth` is the number of levels below the
    outermost conversation.
    """

    conversation: str
    call: str
    child: str
    root: str
    depth: int = 1


class TurnStart(
    Event, frozen=True, kw_only=True, omit_defaults=True, tag_field="type", tag="turn_start"
):
    """The start of a turn. `key` is an id by which a program with its own agent loop finds the turn
    again.

    `parent` is set if the turn runs inside a tool of another agent.
    """

    key: str = ""
    parent: Parent | None = None


TurnStatus: TypeAlias = Literal["completed", "ended_by_user", "failed"]
"""The values that this version writes. Other values are kept."""


class TurnEnd(
    Event, frozen=True, kw_only=True, omit_defaults=True, tag_field="type", tag="turn_end"
):
    """The end of a turn: `completed`, `ended_by_user` or `failed` (with `error`). Without this
    event, the last turn is open.

    `ended_by` is the person who ended the turn instead of answering.
    """

    status: str
    error: str | None = None
    ended_by: AnsweredBy | None = None


class Suspended(
    Event, frozen=True, kw_only=True, omit_defaults=True, tag_field="type", tag="suspended"
):
    """A run stopped to wait for people. It processed new answers, but recorded no other event after
    them.

    `through` is the last event that the run processed. Only a later answer makes the turn ready
    again.
    """

    through: str = ""


class ConfigDelta(
    Event, frozen=True, kw_only=True, omit_defaults=True, tag_field="type", tag="config_delta"
):
    """Values set by flags for this conversation. Legacy logs use several formats."""

    delta: Json = None


class ChatRequest(
    Event, frozen=True, kw_only=True, omit_defaults=True, tag_field="type", tag="chat_request"
):
    """The user's message. With `schema`, the response must follow that JSON Schema."""

    content: str
    author: str | None = None
    schema: JsonObject | None = None


class ChatResponse(
    Event, frozen=True, kw_only=True, omit_defaults=True, tag_field="type", tag="chat_response"
):
    """One part of the model's response. Exactly one of `message`, `reasoning` and `structured` is
    set.
    """

    message: str | None = None
    reasoning: str | None = None
    structured: Json | UnsetType = UNSET


class ToolCallRequest(
    Event, frozen=True, kw_only=True, omit_defaults=True, tag_field="type", tag="tool_call_request"
):
    """A call as the model sent it. `arguments` is an object, or the model's text if the text was
    not a JSON object.

    Use `event_id` to identify the call, because a provider may reuse `id`, even within one
    response.
    """

    id: str
    name: str
    arguments: Json = always({})


Said: TypeAlias = ChatResponse | ToolCallRequest
"""A part of a model's response: text, reasoning, a value or a call."""


class ToolCall(Struct, frozen=True):
    """A call with the arguments that it runs with.

    Args:
        event: The `event_id` of the call's request, which identifies the call.
        id: The provider's id.
        name: The name of the tool.
        arguments: The arguments: an object, or the model's text if the text was not a JSON
            object.
    """

    event: str
    id: str
    name: str
    arguments: Json


class ToolCallResponse(
    Event, frozen=True, kw_only=True, omit_defaults=True, tag_field="type", tag="tool_call_response"
):
    """The result that the model reads.

    `call` is the request's `event_id` (missing in legacy logs). `images` are images in the result.
    """

    id: str
    content: str = always("")
    is_error: bool = always(False)
    call: str = ""
    images: tuple[Image, ...] = ()


INTERRUPTED: Final = "Tool call interrupted before it finished."
"""The result sent to the model for a call that has none."""


ChildState: TypeAlias = Literal["running", "waiting", "done"]
"""The values that this version writes. Other values are kept."""


class Child(Event, frozen=True, kw_only=True, omit_defaults=True, tag_field="type", tag="child"):
    """A tool starts a turn with another agent, in `conversation`. Recorded before that turn begins.

    `agent` names the other agent, `text_sha256` is the digest of its input, and `occurrence` counts
    runs with the same agent and input within the call. These three fields identify the child when
    the tool runs again. When this turn is suspended, further `child` events record the `state` of
    the child: `waiting` for people, or `done`. `of` in these events is the `event_id` of the first
    event.
    """

    call: str
    conversation: str
    agent: str = ""
    text_sha256: str = ""
    occurrence: int = 1
    of: str = ""
    state: str = always("running")


class CallValue(
    Event, frozen=True, kw_only=True, omit_defaults=True, tag_field="type", tag="call_value"
):
    """A value that a tool stores for later runs of the same call (`ctx.keep`). A later value with
    the same name replaces an earlier one. The value is not sent to providers, and never contains a
    secret from the call.
    """

    call: str
    name: str
    value: Json


class FormAuthored(Struct, frozen=True, omit_defaults=True):
    """The whole form as authored. Recorded with the first request, if the form has several
    questions or a review.

    `questions` are JSON objects. `review` says whether the answers are reviewed before they are
    sent, no matter who answers.
    """

    total: int
    questions: tuple[dict[str, Json], ...]
    review: bool = True


class InquiryRequest(
    Event, frozen=True, kw_only=True, omit_defaults=True, tag_field="type", tag="inquiry_request"
):
    """A question, recorded before any decision about it. `call`, `tool_call_id` and `question_id`
    are missing in legacy logs.

    `problem` is the tool's objection to the previous answer, if it asks again. `deadline` is in RFC
    3339. `people` are assigned to the question. These fields are not part of the question itself.
    `configured` is set if the people come from the configuration: a person may then answer only if
    the configuration still lists that person.
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


class InquiryAnswered(
    Event, frozen=True, kw_only=True, omit_defaults=True, tag_field="type", tag="inquiry_response"
):
    """An answer, as the tool receives it. A redacted response has a separate class, which has no
    answer.

    `votes` are the `event_id`s of the votes that led to it.
    """

    outcome: Literal["answered"] = always("answered")
    id: str
    answer: Json
    answered_by: AnsweredBy | None = None
    reason: str | None = None
    remembered: bool = False
    votes: tuple[str, ...] = ()


class InquiryCancelled(
    Event, frozen=True, kw_only=True, omit_defaults=True, tag_field="type", tag="inquiry_response"
):
    """A question closed without an answer.

    `reason` is one of the values in docs/reference/events.md. Unknown values from newer versions
    are preserved, but this version does not write them.
    """

    outcome: Literal["cancelled"] = always("cancelled")
    id: str
    reason: str


class InquiryRedacted(
    Event, frozen=True, kw_only=True, omit_defaults=True, tag_field="type", tag="inquiry_response"
):
    """The answer to a secret question. The secret itself is never written."""

    outcome: Literal["redacted"] = always("redacted")
    id: str
    answered_by: AnsweredBy | None = None


InquiryResponse: TypeAlias = InquiryAnswered | InquiryCancelled | InquiryRedacted
"""A response to a question. Can be used with `isinstance`.

This is a union rather than a base class, so that the type checker verifies that a `match` covers
every kind.
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
DETACHED_REASONS: Final[tuple[CancelReason, ...]] = (
    "no_prompt_backend",
    "no_default",
    "detached_denied",
)
"""Reasons for closing a question that an attached person could have answered."""
MODEL_ANSWER_IS_FINAL: Final[dict[str, Json]] = {"stands": "assistant"}
"""Metadata of an escalated request if nobody was attached. It makes the model's previous answer
final.
"""


ApprovalState: TypeAlias = Literal[
    "waiting", "approved", "skipped", "edited", "superseded", "expired"
]
"""The values that this version writes. Other values are kept."""


class Approval(
    Event, frozen=True, kw_only=True, omit_defaults=True, tag_field="type", tag="approval"
):
    """A step of an approval.

    Attributes:
        kind: `run`, `deliver` or `review`.
        state: `waiting`, `approved`, `skipped`, `edited`, `superseded` (decided outside midturn) or
            `expired`. If a person replies to a review, it is `skipped` and `reason` is the reply.
        kept: The standing permission that an external agent grants if the approval is
            `remembered`.
        arguments_sha256: Binds an approved run to its exact arguments.
        arguments: The new arguments of an `edited` run.
        content: The result of a waiting delivery, or the new content of an `edited` delivery.
        is_error: Whether the result of a waiting delivery is an error.
        images: The images of a waiting delivery.
        form: Request id of the first question in the form under review, if the call has several
            open forms.
        question: The question that the tool previewed, shown instead of the standard text of a run
            approval; `question_id` is its id.
        rule: File and line of the rule that requires the approval.
        deadline: Time until which the approval can be decided (RFC 3339).
        people: The people assigned to the open approval. `configured` has the same meaning as for a
            question.
        votes: The `event_id`s of the votes that decided it.
        definition: Fingerprint of the tool whose call is waiting.
        is_local: Whether a file in the workspace defines that tool.
        any_arguments: Whether the rules of the tool are the same for all arguments. If so, the
            people who may decide the call may also edit it. Otherwise, only a process that has the
            rules can determine who may decide the edited call.
        arguments_schema: JSON Schema for edited arguments of a waiting run.
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
        """Whether a person replied to a review instead of sending the answers."""
        return (
            self.kind == "review"
            and self.state == "skipped"
            and self.answered_by is not None
            and self.answered_by.was_asked
        )


# Standing decisions, which apply to the rest of a conversation
# --------------------------------------------------------


class Standing(
    Event, frozen=True, kw_only=True, omit_defaults=True, tag_field="type", tag="standing"
):
    """A decision for the rest of the conversation: a permission for calls of `tool`, or the answer
    to one of its questions.

    `id` is the id of the approval or the question that created it. A permission has a `rule`, and
    the `definition` (fingerprint) of the tool. An answer has the `question_id` and the
    `question_sha256` of the question as shown, so that it is not used after the question has
    changed.
    """

    id: str
    tool: str
    rule: JsonObject | None = None
    definition: str = ""
    question_id: str = ""
    question_sha256: str = ""
    answer: Json | UnsetType = UNSET
    answered_by: AnsweredBy | None = None


# Notes on a request: events about it that are not answers. `id` is the id of the request
# -----------------------------


class Vote(Event, frozen=True, kw_only=True, omit_defaults=True, tag_field="type", tag="vote"):
    """A person's vote, yes or no, if several people have to approve. A vote replaces an earlier
    vote of the same person.

    `withdrawn` removes the person's yes vote. `arguments` contains an edit of the call. An edit
    voids the earlier votes, and later votes apply to the edited call. `sha256` is the digest of the
    arguments that a yes vote refers to.
    """

    id: str
    answer: bool = always(True)
    reason: str | None = None
    answered_by: AnsweredBy | None = None
    withdrawn: bool = False
    arguments: Json | UnsetType = UNSET
    sha256: str = ""


ProposalState: TypeAlias = Literal["unchecked", "open", "refused"]
"""The values that this version writes. Other values are kept."""


class Proposal(
    Event, frozen=True, kw_only=True, omit_defaults=True, tag_field="type", tag="proposal"
):
    """An edit of a call that its editor may not decide alone. `id` is the approval; `answered_by`
    is the editor.

    `state` is one of:

    - `unchecked`: the process that recorded the edit does not have the rules of the tool. The
      process that runs the turn must evaluate them.
    - `open`: from now on, `people` decide about the new `arguments`, as required by `rule` (file
      and line) for its `reason`. Earlier votes and reassignments are void.
    - `refused`: the new arguments may not run, for the given `reason`. The previous request is open
      again.
    """

    id: str
    state: str
    arguments: Json
    answered_by: AnsweredBy | None = None
    people: People | None = None
    configured: bool = False
    rule: str = ""
    reason: str | None = None


class Reassigned(
    Event, frozen=True, kw_only=True, omit_defaults=True, tag_field="type", tag="reassigned"
):
    """A person reassigned the question to these people and groups."""

    id: str
    to: tuple[str, ...]
    reason: str | None = None
    answered_by: AnsweredBy | None = None


class Reminded(
    Event, frozen=True, kw_only=True, omit_defaults=True, tag_field="type", tag="reminded"
):
    """A reminder was sent to the assigned people. Recorded after a notification service accepted
    it. `number` counts the reminders.

    Versions before 0.3 recorded this event before sending the reminder.
    """

    id: str
    number: int
    to: tuple[str, ...] = ()


class Escalated(
    Event, frozen=True, kw_only=True, omit_defaults=True, tag_field="type", tag="escalated"
):
    """The question was also assigned to other people. `number` counts the escalations. Recorded
    before these people are notified.
    """

    id: str
    number: int
    to: tuple[str, ...] = ()


class Notified(
    Event, frozen=True, kw_only=True, omit_defaults=True, tag_field="type", tag="notified"
):
    """The outcome of one attempt to notify people, recorded after the attempt.

    `about` is `asked`, `reassigned`, `reminded` or `escalated` (`sent` for the card of a
    channel), and `number` counts the notifications of that kind. `error` says why the attempt
    failed. It is empty if every address accepted the notification. `retry_at` is the time of the
    next attempt after a failure (RFC 3339), or empty.
    """

    id: str
    about: str
    to: tuple[str, ...] = ()
    error: str | None = None
    number: int = 0
    retry_at: str = ""


Note: TypeAlias = Vote | Proposal | Reassigned | Reminded | Escalated | Notified
"""A note on a request. Can be used with `isinstance`."""


NEVER_REDACTED: Final = frozenset({"answer", "reason"})
"""Fields that are removed from a `redacted` response."""


PEOPLE_AND_DEADLINES: Final = "0.2"
"""The oldest version that enforces assignments and deadlines. Older versions let anyone answer
at any time.
"""


PROPOSALS: Final = "0.3"
"""The oldest version that supports proposals. Older versions would apply an approval of the
edited call to the original call.
"""


def required_by(deadline: str, people: People | None) -> str:
    """Return the oldest version that may continue a turn with this deadline and these people.
    Empty if any version may.
    """
    return PEOPLE_AND_DEADLINES if deadline or people else ""


class OpaqueEvent(Event, frozen=True, kw_only=True):
    """An event of an unknown type, or an invalid event. `raw` contains the bytes of the event. It
    is never sent to a provider.

    `problem` says what is invalid. It is empty if the event is valid but has an unknown type.
    """

    kind: str
    raw: Raw
    problem: str = ""

    @property
    def type(self) -> str:
        """The event type as on disk, or empty."""
        return self.kind

    def to_json(self) -> dict[str, Json]:
        """Return the JSON object that was read. For an event that is not a JSON object, return
        the bytes as `raw`, and the `problem`.

        If a `redacted` response was edited to contain an answer, the answer is removed.
        """
        try:
            fields = msgspec.json.decode(self.raw, type=dict[str, Any])
        except (ValueError, RecursionError):  # msgspec and Unicode errors are ValueErrors
            return {
                "type": self.kind,
                "problem": self.problem,
                "raw": bytes(self.raw).decode("utf-8", "replace"),
            }
        redacted = self.kind == "inquiry_response" and fields.get("outcome") == "redacted"
        return {
            name: value
            for name, value in fields.items()
            if not (redacted and name in NEVER_REDACTED)
        }


VisibleEvent: TypeAlias = ChatRequest | ChatResponse | ToolCallRequest | ToolCallResponse

_VISIBLE_TYPES: Final = (ChatRequest, ChatResponse, ToolCallRequest, ToolCallResponse)


def visible(event: Event) -> bool:
    """Return whether providers receive this event."""
    return isinstance(event, _VISIBLE_TYPES)


# Simple queries on events. Use these, or a `TurnView` for derived state
# -------------------------------------------------


def user_requests(events: Iterable[Event]) -> Iterator[ChatRequest]:
    """Yield the user's messages, in order."""
    return (event for event in events if isinstance(event, ChatRequest))


def model_responses(events: Iterable[Event]) -> Iterator[ChatResponse]:
    """Yield the parts of the model's responses."""
    return (event for event in events if type(event) is ChatResponse)


def call_requests(events: Iterable[Event]) -> Iterator[ToolCallRequest]:
    """Yield the model's calls."""
    return (event for event in events if isinstance(event, ToolCallRequest))


def call_results(events: Iterable[Event]) -> Iterator[ToolCallResponse]:
    """Yield the results of calls."""
    return (event for event in events if isinstance(event, ToolCallResponse))


def model_input_text(event: Event) -> str | None:
    """Return the text of a user message or a tool result, which is sent to the model. None for
    other events.
    """
    return event.content if isinstance(event, ChatRequest | ToolCallResponse) else None


def inquiry_requests(events: Iterable[Event]) -> Iterator[InquiryRequest]:
    """Yield the questions."""
    return (event for event in events if isinstance(event, InquiryRequest))


def put_to_people(events: Iterable[Event]) -> Iterator[InquiryRequest | Approval]:
    """Yield the questions and approvals."""
    return (event for event in events if isinstance(event, InquiryRequest | Approval))


def deadlines(events: Iterable[Event]) -> Iterator[str]:
    """Yield the deadline of each question and approval, or an empty string if it has none."""
    return (
        event.deadline
        for event in events
        if type(event) is InquiryRequest or type(event) is Approval
    )


def delta_events(events: Iterable[Event]) -> Iterator[ConfigDelta]:
    """Yield the events with values set by flags."""
    return (event for event in events if isinstance(event, ConfigDelta))


def turn_keys(events: Iterable[Event]) -> Iterator[str]:
    """Yield the keys of the turns that start in these events."""
    return (event.key for event in events if isinstance(event, TurnStart))


def turn_ends(events: Iterable[Event]) -> Iterator[TurnEnd]:
    """Yield the ends of turns."""
    return (event for event in events if isinstance(event, TurnEnd))


def answered_by_model(event: Event) -> bool:
    """Return whether the event is a model's answer to a question."""
    return (
        isinstance(event, InquiryAnswered)
        and event.answered_by is not None
        and event.answered_by.by == "assistant"
    )


def is_opaque(event: Event) -> bool:
    """Return whether an event is stored as raw bytes."""
    return isinstance(event, OpaqueEvent)


def problem_in(event: Event) -> str:
    """Return why an event is invalid, or an empty string."""
    return event.problem if isinstance(event, OpaqueEvent) else ""
