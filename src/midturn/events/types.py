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
        source: `tool`, `assistant`, `user` or `other`. Values of newer versions are kept.
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
    """Give a field a default that is written to disk although other defaults are omitted."""
    return msgspec.field(default_factory=repeat(value).__next__)


class Event(Struct, frozen=True, kw_only=True, omit_defaults=True, gc=False):
    """One event, which is one line of a conversation's log.

    The turn leaves `timestamp` empty; the recorder sets it. `event_id` comes from the turn's id
    generator. `more` is the number of events that follow in the same batch. A timestamp keeps the
    text that was read, also in the legacy form. `requires` is the oldest version that may continue
    the turn, if older versions would ignore something important. Events are never part of a
    reference cycle, so they are excluded from garbage collection (`gc=False`), which matters for
    long conversations.
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
        """Time of the record: RFC 3339, or the legacy `YYYY-MM-DD HH:MM:SS.ffffff` in UTC,
        possibly without trailing zeros.
        """
        moment = datetime.fromisoformat(_padded(self.timestamp))
        return moment if moment.tzinfo else moment.replace(tzinfo=UTC)


def encode_custom(value: Any) -> Json:
    """Encode values that msgspec does not know: a question in an event."""
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
    """The responder of a question.

    `by` is `user`, `policy` (with `name`), `assistant` (with `model`), `static` (with `origin`),
    `cached`, `default`, or `configuration` for a rule about a call's arguments, with the rule's
    file and line as `origin`. Other values are kept.

    `via` is how a person answered (`terminal`, `inbox`, `web`, `api`, `mcp`, `hook`, `acp`). `user`
    is the person's name, as the embedding program knows it, and `login` the account if it differs.
    A `policy` is a prompter of the program that does not represent a person. An `agent` is a
    program that answers on its own behalf.
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
        """Whether a person or a policy of the program answered a prompt, rather than a
        configured or remembered answer.
        """
        return self.by in ("user", "policy")


class Parent(Struct, frozen=True, omit_defaults=True):
    """The call inside which an agent's turn runs, if a tool of another agent started the turn.

    `child` is the event in the outer conversation that refers to this turn. `root` is the
    outermost conversation, from which all turns are continued. `depth` is the number of levels
    below the outermost conversation.
    """

    conversation: str
    call: str
    child: str
    root: str
    depth: int = 1


class TurnStart(
    Event, frozen=True, kw_only=True, omit_defaults=True, tag_field="type", tag="turn_start"
):
    """The start of a turn. `key` is an id that another program's loop assigned, to find the turn
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
    """A run stopped to wait for people. It had processed new answers, but had recorded no event
    of its own after them.

    `through` is the last event that the run had processed. Only a later answer makes the turn ready
    again.
    """

    through: str = ""


class ConfigDelta(
    Event, frozen=True, kw_only=True, omit_defaults=True, tag_field="type", tag="config_delta"
):
    """Values set by flags for this conversation. Legacy streams use several formats."""

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
    """One part of the model's response: exactly one of `message`, `reasoning` and `structured`."""

    message: str | None = None
    reasoning: str | None = None
    structured: Json | UnsetType = UNSET


class ToolCallRequest(
    Event, frozen=True, kw_only=True, omit_defaults=True, tag_field="type", tag="tool_call_request"
):
    """A call as the model sent it. `arguments` is an object, or the model's text if the text was
    not a JSON object.

    Its `event_id` identifies the call, because a provider may reuse `id`, even within one response.
    """

    id: str
    name: str
    arguments: Json = always({})


Said: TypeAlias = ChatResponse | ToolCallRequest
"""A part of a model's response: text, reasoning, a value or a call."""


class ToolCall(Struct, frozen=True):
    """A call as it runs.

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

    `call` is the request's `event_id` (missing in legacy streams). `images` are images in the
    result.
    """

    id: str
    content: str = always("")
    is_error: bool = always(False)
    call: str = ""
    images: tuple[Image, ...] = ()


INTERRUPTED: Final = "Tool call interrupted before it finished."
"""The result that a model reads for a call that has no result."""


ChildState: TypeAlias = Literal["running", "waiting", "done"]
"""The values that this version writes. Other values are kept."""


class Child(Event, frozen=True, kw_only=True, omit_defaults=True, tag_field="type", tag="child"):
    """A tool starts a turn of another agent, in `conversation`. Recorded before that turn begins.

    `agent` names the other agent, `text_sha256` is the digest of its input, and `occurrence` counts
    equal runs within the call. These three fields identify the child when the tool runs again.
    When this turn is suspended, further `child` events record the `state` of the child: `waiting`
    for people, or `done`. Their `of` is the `event_id` of the first event.
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
    """A value that the tool of a call keeps for its later runs (`ctx.keep`). The last value with a
    name counts. It is not sent to providers, and never contains a secret of the call.
    """

    call: str
    name: str
    value: Json


class FormAuthored(Struct, frozen=True, omit_defaults=True):
    """The whole form as authored, on the first request of a form with several questions or with a
    review.

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
    are missing in legacy streams.

    `problem` is the tool's objection to the previous answer, if it asks again. `deadline` is in RFC
    3339. `people` are assigned to the question. These fields are not part of the question itself.
    `configured` is set if a configuration names the people: a person must still be listed in it
    when answering.
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
    """The answer, as the tool receives it. Redacted responses have a separate class without an
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

    `reason` is one of the values in docs/reference/events.md. Values of newer versions are kept,
    but never written.
    """

    outcome: Literal["cancelled"] = always("cancelled")
    id: str
    reason: str


class InquiryRedacted(
    Event, frozen=True, kw_only=True, omit_defaults=True, tag_field="type", tag="inquiry_response"
):
    """A secret was answered. The answer was never written."""

    outcome: Literal["redacted"] = always("redacted")
    id: str
    answered_by: AnsweredBy | None = None


InquiryResponse: TypeAlias = InquiryAnswered | InquiryCancelled | InquiryRedacted
"""A response to an inquiry. Can be used with `isinstance`.

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
"""Metadata of an escalated request if no one was attached. The model's previous answer is then
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
            `expired`. A review that a person replied to is `skipped`, and `reason` is the reply.
        kept: The standing permission that an external agent grants if the approval is
            `remembered`.
        arguments_sha256: Binds an approved run to its exact arguments.
        arguments: The new arguments of an `edited` run.
        content: The result of a waiting delivery, or the new content of an `edited` delivery.
        is_error: Whether the result of a waiting delivery is an error.
        images: The images of a waiting delivery.
        form: Id of the first inquiry of the form under review, if several forms of the call are
            open together.
        question: The question that the tool previewed, shown instead of the standard text of a run
            approval; `question_id` is its id.
        rule: File and line of the rule that requires the approval.
        deadline: Time until which an approval counts (RFC 3339).
        people: The people assigned while the approval waits. `configured` has the same meaning as
            for a question.
        votes: The `event_id`s of the votes that decided it.
        definition: Fingerprint of the tool of a waiting call.
        is_local: Whether a file of the workspace defines that tool.
        any_arguments: Whether the rules of the tool are the same for all arguments. The people who
            may decide a waiting call may then also edit it. Otherwise, only a process that knows
            the rules can determine who may decide the edited call.
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

    `id` is the approval or inquiry that created it. A permission has a `rule`, and the `definition`
    (fingerprint) of the tool. An answer has the `question_id` and the `question_sha256` of the
    question as shown, so that it is not used for a changed question.
    """

    id: str
    tool: str
    rule: JsonObject | None = None
    definition: str = ""
    question_id: str = ""
    question_sha256: str = ""
    answer: Json | UnsetType = UNSET
    answered_by: AnsweredBy | None = None


# Notes on a request, which are not answers. `id` names the inquiry or approval
# -----------------------------


class Vote(Event, frozen=True, kw_only=True, omit_defaults=True, tag_field="type", tag="vote"):
    """A person's vote, yes or no, if several people have to approve. A vote replaces an earlier
    vote of the same person.

    `withdrawn` removes the person's yes vote. `arguments` contains an edit of the call. An edit
    voids the earlier votes, and later votes are about the edited call. `sha256` is the digest of
    the arguments that a yes vote refers to.
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

    - `unchecked`: the process that recorded the edit does not know the rules of the tool. The
      process that runs the turn evaluates the rules next.
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
    """A reminder was sent to the assigned people. Recorded after a service accepted it. `number`
    counts the reminders.

    Versions before 0.3 recorded this event before they sent the reminder.
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
"""Fields that a `redacted` response never has."""


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
    """An event of an unknown type, or an invalid event. `raw` contains the bytes of the event.
    The event is not sent anywhere.

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

        If someone edited an answer into a `redacted` response, the answer is removed.
        """
        try:
            fields = msgspec.json.decode(self.raw, type=dict[str, Any])
        except (ValueError, RecursionError):  # errors of msgspec and of Unicode are ValueErrors
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
    """Return the text that this event sends to the model (a user message or a result), or None."""
    return event.content if isinstance(event, ChatRequest | ToolCallResponse) else None


def inquiry_requests(events: Iterable[Event]) -> Iterator[InquiryRequest]:
    """Yield the questions."""
    return (event for event in events if isinstance(event, InquiryRequest))


def put_to_people(events: Iterable[Event]) -> Iterator[InquiryRequest | Approval]:
    """Yield the questions and approvals."""
    return (event for event in events if isinstance(event, InquiryRequest | Approval))


def deadlines(events: Iterable[Event]) -> Iterator[str]:
    """Yield the deadline of each question and approval; empty if it has no deadline."""
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
    """Return whether a model answered a question in this event."""
    return (
        isinstance(event, InquiryAnswered)
        and event.answered_by is not None
        and event.answered_by.by == "assistant"
    )


def is_opaque(event: Event) -> bool:
    """Return whether an event is stored as raw bytes."""
    return isinstance(event, OpaqueEvent)


def problem_in(event: Event) -> str:
    """Return why an event is invalid, or an empty text."""
    return event.problem if isinstance(event, OpaqueEvent) else ""
