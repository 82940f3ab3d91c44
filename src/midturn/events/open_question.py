"""Open questions as interfaces see them, and the external agents and processes that ask them.

An external agent (Claude Code, an MCP client, an editor) runs its own loop. When it asks a
question, midturn creates a conversation with one open turn. The first event of the turn carries the
`AskingAgent` as metadata. Each later change (another process now waits, the agent cancelled the
call, or the agent was notified that the question stays open) is recorded as a new event with the
complete `AskingAgent`. `asker_of` returns the latest one, so every process computes the same state
from the events.

`AskingAgent.process` is the process that waits for the answer. A `ProcessMark` identifies a process
by pid, start time, boot id and pid namespace, because pids are reused. The log does not say whether
the process is still running: the store checks this (`stores/lock.py`) and sets `AskingAgent.waits`.

A question ends in one of four ways: a person answers it, the agent asks in its own dialog instead
(`ends`), the agent continues and its next call closes the question, or a person ends the turn. The
question stays open when its process dies. A later process that makes the same call continues it.

Every user whom the store authorizes may answer, but the agent itself may not: `AskingAgent.itself`
and its descendants are rejected.

Every interface identifies a question by its address: `<conversation>-<event id of its request>`.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, Literal, TypeAlias

import msgspec
from msgspec import UNSET, Struct, UnsetType

from midturn.errors import QuestionError
from midturn.events.types import (
    AnsweredBy,
    Approval,
    ConfigDelta,
    Event,
    FormAuthored,
    Image,
    InquiryRequest,
    Source,
    ToolCall,
    TurnStart,
)
from midturn.question.answer_type import BareType, SecretType, UnknownType
from midturn.question.json_value import Json, JsonObject, canonical
from midturn.question.people import People, is_among
from midturn.question.persisted_question import PersistedQuestion
from midturn.question.reader_schema import form_schema, reader_schema
from midturn.question.text import rfc3339, sha256

if TYPE_CHECKING:  # importing Question is slow, and a list of open questions does not need it
    from midturn.question.form import Form
    from midturn.question.question import Question

_METADATA_KEY = "asker"


class ProcessMark(Struct, frozen=True, omit_defaults=True):
    """Identifies a process. `started` and `boot` distinguish it from a later process with the same
    pid.

    `namespace` is the pid namespace: two containers on one machine can have processes with the same
    pid.
    """

    pid: int
    started: str = ""
    boot: str = ""
    namespace: str = ""


class AskingAgent(Struct, frozen=True, omit_defaults=True, kw_only=True):
    """The external agent that asks a question.

    Attributes:
        name: Display name, such as `Claude Code`.
        agent: The agent's name in `midturn hook`, if it uses hooks.
        session: The agent's own session id.
        via: How the agent is connected: `hook`, `mcp` or `acp`.
        process: The process that waits for the answer.
        serves: The agent's process or, if that is unknown, an ancestor of the waiting process.
            After it exits, no process can receive the answer.
        itself: The agent's process, if it is known for certain. It and its descendants may not
            answer.
        waits: Whether `process` is still running. Set by the store.
        always: Descriptions of the standing permissions that the agent offers together with an
            approval.
        refused: Whether midturn refused further questions of this agent, because the agent has too
            many open questions.
        keeps_dialog: Whether the agent may keep its own dialog open for this call. The agent then
            receives no answer until the dialog is closed.
        cancelled: Whether the agent cancelled its call. The question stays open.
        round: How often the agent cancelled the call and made it again.
        ends: Time at which the hook exits at the latest and the agent asks in its own dialog. From
            then on the question is closed, even if no process recorded that. Empty if the agent
            shows no dialog.
        left: Whether the agent no longer waits, because it was notified that the question stays
            open or because it disconnected.
        defers: Whether the agent stops at this call. When it is resumed, it makes the same call
            again.
        said: The agent's last message, in one line.
        subagent: Name of the subagent that asks, if it is not the main agent.
    """

    name: str
    agent: str = ""
    session: str = ""
    via: str = ""
    cwd: str = ""
    process: ProcessMark | None = None
    serves: ProcessMark | None = None
    itself: ProcessMark | None = None
    waits: bool = False
    always: tuple[str, ...] = ()
    refused: bool = False
    keeps_dialog: bool = False
    cancelled: bool = False
    round: int = 0
    ends: str = ""
    left: bool = False
    defers: bool = False
    said: str = ""
    subagent: str = ""

    @property
    def source(self) -> Source:
        """The source of all questions that this agent asks."""
        return Source(
            "other", f"{self.name}, subagent {self.subagent}" if self.subagent else self.name
        )

    @property
    def in_own_dialog(self) -> str:
        """Why a question was closed when the agent opened its own dialog. A clause without a
        period.
        """
        return f"{self.name} now asks it in its own dialog"

    def has_ended(self, now: str) -> bool:
        """Return whether the agent asks in its own dialog at the time `now`, even if no event says
        so.
        """
        return bool(self.ends) and self.ends <= now

    def to_json(self) -> dict[str, Json]:
        """Return the fields that interfaces may show, as JSON."""
        always: dict[str, Json] = {"always": [*self.always]} if self.always else {}
        refused: dict[str, Json] = {"refused": True} if self.refused else {}
        keeps_dialog: dict[str, Json] = {"keeps_dialog": True} if self.keeps_dialog else {}
        cancelled: dict[str, Json] = {"cancelled": True} if self.cancelled else {}
        optional: dict[str, Json] = {"cwd": self.cwd, "said": self.said, "subagent": self.subagent}
        known = {key: value for key, value in optional.items() if value}
        return {
            "name": self.name,
            "session": self.session,
            **known,
            "waits": self.waits,
            **always,
            **refused,
            **keeps_dialog,
            **cancelled,
        }

    def metadata(self) -> dict[str, Json]:
        """Return this object as event metadata, for the first event of the turn and for the event
        after each change.
        """
        return {_METADATA_KEY: msgspec.to_builtins(msgspec.structs.replace(self, waits=False))}


def asker_of(turn: Sequence[Event]) -> AskingAgent | None:
    """Return the external agent that asks in this turn, or None if midturn runs the turn itself."""
    carried: Json = None
    for event in turn:
        if event.metadata and (
            isinstance(event, TurnStart) or (carried is not None and isinstance(event, ConfigDelta))
        ):
            carried = event.metadata.get(_METADATA_KEY, carried)
    try:
        return msgspec.convert(carried, AskingAgent) if carried is not None else None
    # the file was edited, or a later version wrote it; in both cases the agent is an external one
    except msgspec.ValidationError:
        return AskingAgent(name="another agent")


# Addresses of open questions
# --------------------------------------------------------------------------------------------------


class Address(Struct, frozen=True):
    """Address of a question: its conversation and the `event_id` of its request."""

    conversation: str
    event_id: str

    def __str__(self) -> str:
        """Return the address as text."""
        return address(self.conversation, self.event_id)


def address(conversation: str, event_id: str) -> str:
    """Return the address of a question as text."""
    return f"{conversation}-{event_id}"


def parse_beginning(prefix: str) -> tuple[str, bool]:
    """Return the conversation ID at the start of an incomplete address, and whether that ID is
    complete.
    """
    conversation, dash, _ = prefix.partition("-")
    return conversation, bool(dash)


def parse_address(text: str) -> Address | None:
    """Parse an address. None if the text is not a complete address."""
    conversation, dash, event_id = text.partition("-")
    return (
        Address(conversation, event_id)
        if dash and conversation.isdecimal() and conversation.isascii() and event_id
        else None
    )


SHORT_DIGEST: Final = 8
"""Minimum length of an abbreviated digest, in characters."""


PromptKind: TypeAlias = Literal["tool", "run", "deliver", "review"]
WaitingEvent: TypeAlias = InquiryRequest | Approval
_TIMESTAMP: Final = r"(?a)\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}Z"


class AssignedTo(Struct, frozen=True):
    """The people assigned to a question.

    `ask` are the people and groups it is currently assigned to. `eligible` are the only people
    who may answer. `needed` is the number of yes votes required, and `voters` are the people who
    have voted yes. `not_told` names the recipients whom the last notification did not reach, and
    why.
    """

    people: People
    ask: tuple[str, ...] = ()
    eligible: frozenset[str] | None = None
    needed: int = 1
    voters: tuple[str, ...] = ()
    not_told: str = ""

    @property
    def tally(self) -> str:
        """Progress of the vote, such as `1 of 2`. Empty if one vote is enough."""
        return f"{len(self.voters)} of {self.needed}" if self.needed > 1 else ""

    @property
    def line(self) -> str:
        """The assignment in one line, such as `for ops only · 1 of 2`. Empty if anyone may
        answer.
        """
        only = " only" if self.eligible is not None else ""
        return " · ".join(
            filter(None, (f"for {', '.join(self.ask)}{only}" if self.ask else "", self.tally))
        )

    def is_for(self, user: str) -> bool:
        """Return whether the question is assigned to `user`, directly or by group, and still needs
        the user's vote.
        """
        person = self.people.person(user)
        return is_among(person, self.people.people_of(self.ask)) and not is_among(
            person, self.voters
        )

    def to_json(self) -> dict[str, Json]:
        """Return the JSON for the API and `inbox --json`."""
        only: dict[str, Json] = (
            {} if self.eligible is None else {"only": True, "may_answer": sorted(self.eligible)}
        )
        votes: dict[str, Json] = (
            {} if self.needed == 1 else {"approvals": self.needed, "voted": list(self.voters)}
        )
        not_told: dict[str, Json] = {"not_told": self.not_told} if self.not_told else {}
        return {"ask": list(self.ask), **only, **votes, **not_told}


class Refusal(Struct, frozen=True):
    """A refusal of an identical call earlier in the same turn.

    Args:
        by: The person or program that refused the call.
        reason: The reason, if one was given.
        at: Time of the refusal in RFC 3339. Empty if the refusal is from the current step and not
            recorded yet.
    """

    by: AnsweredBy | None
    reason: str | None = None
    at: str = ""

    def to_json(self) -> dict[str, Json]:
        """Return the JSON that the API shows."""
        return {
            "by": None if self.by is None else msgspec.to_builtins(self.by),
            "reason": self.reason,
            "at": self.at,
        }


class CallSubject(Struct, frozen=True):
    """Subject of a `run` approval: the call that would run.

    Args:
        call: The call, with the arguments to approve.
        original: The model's arguments, if a person has edited them, else `UNSET`.
        proposed_by: The person who edited the arguments.
    """

    call: ToolCall
    original: Json | UnsetType = UNSET
    proposed_by: AnsweredBy | None = None


class ProposedEdit(Struct, frozen=True):
    """An edit of a call that needs a decision.

    Args:
        by: The person who edited the call.
        arguments: The new arguments.
        original: The arguments that the model sent.
        is_checked: Whether the rules were evaluated for the new arguments. If not, nobody can
            approve the edit yet, and `OpenQuestion.arguments` still contains the old arguments.
    """

    by: AnsweredBy | None
    arguments: Json
    original: Json
    is_checked: bool = True

    def to_json(self) -> dict[str, Json]:
        """Return the JSON that the API shows."""
        by = None if self.by is None else msgspec.to_builtins(self.by)
        return {
            "by": by,
            "arguments": self.arguments,
            "original": self.original,
            "checked": self.is_checked,
        }


class OpenQuestion(Struct, frozen=True, kw_only=True):
    """A question that a turn waits for: a tool's question, or an approval (kinds `run`, `deliver`,
    `review`).

    `id` is its address (`<conversation>-<event id of its request>`), which identifies it
    everywhere. `form` is the complete form if the question is one of several. `tool` and
    `arguments` describe the call that asks. An approval is a boolean question. `asker` is set if an
    external agent made the call, `whose` if the question is assigned to people. `form_schema` is
    computed from the form. `question_id`, `answer_schema`, `arguments_schema`, `problem`, `content`
    and `is_error` are computed from the request.

    Args:
        conversation: The id of the conversation.
        kind: `tool` for a question; `run`, `deliver` or `review` for an approval.
        source: The tool, model or program that asks.
        question: The question as it is recorded.
        asked_at: Time of the request in RFC 3339.
        request: The recorded event that asks the question.
        digest: Digest of the subject of an approval: the arguments of the call, the result, or the
            answers under review. Changes if the subject is edited. Pass it to `store.answer(…,
            digest=…)`, so that an approval applies only to this subject. Empty if a tool asks.
        needs_digest: Whether an approval needs the digest, because several people must approve or
            the call was edited.
        edit: The edit of the call that must be decided or checked. None if the call is unchanged.
        refusals: Refusals of identical calls earlier in the turn.
    """

    id: str
    conversation: str
    kind: PromptKind
    source: Source
    question: PersistedQuestion
    form: FormAuthored | None
    tool: str
    arguments: Any
    asked_at: str
    request: WaitingEvent
    asker: AskingAgent | None = None
    whose: AssignedTo | None = None
    digest: str = ""
    needs_digest: bool = False
    edit: ProposedEdit | None = None
    refusals: tuple[Refusal, ...] = ()

    @property
    def question_id(self) -> str:
        """The question's own id, such as `confirm`. For approvals `__run__`, `__deliver__` or
        `__review__`.
        """
        return (
            self.request.question_id
            if isinstance(self.request, InquiryRequest)
            else f"__{self.kind}__"
        )

    @property
    def answer_schema(self) -> JsonObject | None:
        """JSON Schema of an answer. None for a secret, and for an answer type that this version
        does not support.
        """
        if isinstance(self.question.answer_type, SecretType | UnknownType):
            return None
        return reader_schema(BareType(self.question.answer_type, self.question.optional))

    @property
    def form_schema(self) -> JsonObject | None:
        """JSON Schema of the answers to the whole form: an object by question id. None if the
        question is not one of several, or if a question of the form has no schema.
        """
        form = recorded_form(self)
        return None if form is None or secrets_of_form(self.form) else form_schema(form.questions)

    @property
    def arguments_schema(self) -> JsonObject | None:
        """JSON Schema for edited arguments of the call (kind `run`). None if the schema is unknown,
        and for other kinds.
        """
        return self.request.arguments_schema if isinstance(self.request, Approval) else None

    @property
    def content(self) -> str | None:
        """The tool result that needs approval (kind `deliver`). None for other kinds."""
        return self.request.content if isinstance(self.request, Approval) else None

    @property
    def is_error(self) -> bool | None:
        """Whether the tool result that needs approval is an error (kind `deliver`). None for other
        kinds.
        """
        return self.request.is_error if isinstance(self.request, Approval) else None

    @property
    def definition(self) -> str:
        """Fingerprint of the tool whose call needs approval (kind `run`). Empty for other kinds. A
        standing permission applies only while the tool has the same fingerprint.
        """
        return self.request.definition if isinstance(self.request, Approval) else ""

    @property
    def deadline(self) -> str | None:
        """Deadline for an answer in RFC 3339: the question's own deadline, or the time when the
        agent asks in its own dialog. None if there is no deadline.
        """
        return min(
            filter(None, (self.request.deadline, self.asker.ends if self.asker else "")),
            default=None,
        )

    @property
    def problem(self) -> str | None:
        """The tool's objection to the previous answer, if it asks again for that reason."""
        return self.request.problem if isinstance(self.request, InquiryRequest) else None

    def whole_digest(self, given: str) -> str:
        """Return `digest` if `given` is its prefix of at least 8 characters, else return `given`
        unchanged.
        """
        return (
            self.digest
            if len(given) >= SHORT_DIGEST and self.digest.startswith(given.lower())
            else given
        )

    def to_json(self) -> dict[str, Json]:
        """Return the JSON for the API, `inbox --json`, exit status 3 and `notify.command`."""
        asker: dict[str, Json] = {} if self.asker is None else {"asker": self.asker.to_json()}
        problem: dict[str, Json] = {} if self.problem is None else {"problem": self.problem}
        people: dict[str, Json] = {} if self.whose is None else {"people": self.whose.to_json()}
        about: dict[str, Json] = {"about": self.digest} if self.digest else {}
        edit: dict[str, Json] = {} if self.edit is None else {"edit": self.edit.to_json()}
        refused: dict[str, Json] = (
            {"refused_before": [each.to_json() for each in self.refusals]} if self.refusals else {}
        )
        deadline: dict[str, Json] = {} if self.deadline is None else {"deadline": self.deadline}
        result: dict[str, Json] = (
            {}
            if self.content is None
            else {"content": self.content, "is_error": bool(self.is_error)}
        )
        digest: dict[str, Json] = (
            {"digest": self.digest} if self.digest else {}
        )  # `about` is the older name of `digest`
        return {
            "id": self.id,
            "conversation": self.conversation,
            "kind": self.kind,
            "source": msgspec.to_builtins(self.source),
            "question_id": self.question_id,
            "question": self.question.to_json(),
            "answer_schema": self.answer_schema,
            "form": None
            if self.form is None
            else {
                "total": self.form.total,
                "questions": [*map(_with_option_objects, self.form.questions)],
            },
            "tool": self.tool,
            "arguments": self.arguments,
            "asked_at": self.asked_at,
            **problem,
            **deadline,
            **people,
            **about,
            **edit,
            **refused,
            **result,
            **asker,
            **digest,
        }


def arguments_sha256(arguments: Json) -> str:
    """Return the digest that binds an approval to the exact arguments of a call."""
    return sha256(canonical(arguments))


def result_sha256(content: str, *, is_error: bool, images: Sequence[Image]) -> str:
    """Return the digest of a tool result that needs approval."""
    return sha256(
        canonical([content, is_error, *([image.media_type, image.data] for image in images)])
    )


def answers_sha256(questions: Sequence[Question[Any]], answers: Mapping[str, Json]) -> str:
    """Return the digest of the answers under review and the texts of their questions."""
    return sha256(
        canonical(
            [
                [question.id, question.text, answers[question.id]]
                for question in questions
                if question.id in answers
            ]
        )
    )


def _with_option_objects(question: dict[str, Json]) -> Json:
    """Return a question of a form, with its options as objects as in a single question."""
    kind = question.get("answer_type")
    options = kind.get("options") if isinstance(kind, Mapping) else None
    if not isinstance(kind, Mapping) or not isinstance(options, list):
        return question
    return {**question, "answer_type": {**kind, "options": [_option(option) for option in options]}}


def _option(option: Json) -> Json:
    return option if isinstance(option, Mapping) else {"value": option}


def recorded_form(question: OpenQuestion) -> Form | None:
    """Return the form of a question. None if the question is not one of several, or if this version
    cannot read the form.
    """
    if question.form is None:
        return None
    from midturn.question.form import Form

    try:
        return Form.from_record(list(question.form.questions), review=question.form.review)
    except QuestionError:
        return None


def holds_secret(question: OpenQuestion) -> bool:
    """Return whether the question or another question in its form is a secret. Such questions can
    be answered only in the process that runs the turn.
    """
    return isinstance(question.question.answer_type, SecretType) or bool(
        secrets_of_form(question.form)
    )


def secrets_of_form(form: FormAuthored | None) -> frozenset[str]:
    """Return the ids of the secret questions in a form. Also accepts forms written by other
    versions of midturn.
    """
    return (
        frozenset(
            str(asked.get("id")) for asked in form.questions if _is_secret(asked.get("answer_type"))
        )
        if form
        else frozenset()
    )


def _is_secret(answer_type: Json) -> bool:
    return answer_type == "secret" or (
        isinstance(answer_type, Mapping) and answer_type.get("type") == "secret"
    )


def recorded_at(event: Event) -> str:
    """Return the time when the event was recorded, as RFC 3339 in UTC. An unreadable time is
    returned unchanged.
    """
    if re.fullmatch(_TIMESTAMP, event.timestamp):
        return event.timestamp
    try:
        return rfc3339(event.at)
    except (ValueError, OverflowError):
        return event.timestamp


# Texts of approvals
# --------------------------------------------------------------------------------------------------


_TEXTS: Final = {
    "run": "Run {tool}?",
    "deliver": "Deliver the result of {tool}?",
    "review": "Send these answers?",
}


def approval_text(kind: str, tool: str) -> str:
    """Return the question text for an approval of this kind."""
    return _TEXTS.get(kind, f"Approve {kind} of {{tool}}?").replace("{tool}", tool)


def asked_text(approval: Approval, tool: str) -> str:
    """Return the text shown to people: the question that the tool previewed, or the standard text
    of the approval.
    """
    return (
        approval_text(approval.kind, tool) if approval.question is None else approval.question.text
    )


# Values and code blocks in Markdown
# --------------------------------------------------------------------------------------------------


_BACKTICKS: Final = r"`+"


def fenced(text: str, language: str = "") -> str:
    """Return a fenced code block for any text, including backticks."""
    fence = "`" * max(3, 1 + max(map(len, re.findall(_BACKTICKS, text)), default=0))
    return "\n".join((fence + language, text.removesuffix("\n"), fence))


def shown(value: Json) -> str:
    """Return a JSON value for display: a string without quotes, any other value as JSON."""
    return value if isinstance(value, str) else msgspec.json.encode(value).decode()
