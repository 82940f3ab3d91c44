"""An open question, as everyone outside a running turn sees it, and the agent and process that ask it.

Theory of operation
===================

Another agent (Claude Code, an MCP client, an editor) runs its own loop. When it asks, a conversation with one open turn is made for the
question, and its first event carries the `Asker` as metadata. What changes later (another process waits now, the call was
cancelled, the agent was told that the question stays open) is recorded as a further event with the whole `Asker`; `asker_of` takes the
last one. So the state of an asker is a fold of events, too, and every process reads the same one.

**Who waits.** `process` waits for the answer, `serves` is the agent's own process. A `ProcessMark` says more than a number, because numbers
come again: the start of the process, the boot of its machine, and the namespace that counts it. Whether it still lives is not recorded;
the store looks (`stores/lock.py`) and fills in `waits`.

**How a question of an agent ends.** It is answered; or the agent's own dialog takes it over (`ends`); or the agent moves on, and the next
errand closes it; or a person ends it. A process that dies ends nothing: the question stays open, and a later process that makes the same
call takes it up.

**Who may answer.** Any user whom the store admits, but never the agent: `itself` marks its process, and what descends from that is refused.

An address names a question outside the machine: `<conversation>-<event id of its request>`.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, Literal, TypeAlias

import msgspec
from msgspec import UNSET, Struct, UnsetType

from midturn.events.types import AnsweredBy, Approval, ConfigDelta, Event, FormAuthored, Image, InquiryRequest, Source, ToolCall, TurnStart
from midturn.question.answer_schema import answer_schema
from midturn.question.answer_type import BareType, SecretType, UnknownType
from midturn.question.json_value import Json, JsonObject, canonical
from midturn.question.people import People, is_among
from midturn.question.persisted_question import PersistedQuestion
from midturn.question.text import rfc3339, sha256

if TYPE_CHECKING:  # a list of open questions needs no questions themselves
    from midturn.question.question import Question

_KEY = "asker"


class ProcessMark(Struct, frozen=True, omit_defaults=True):
    """A process that is not mixed up with a later one of the same number: when it `started`, and the `boot` of its machine, say so.

    `namespace` names the numbers of processes that it sees: containers of one machine count from 1 each.
    """

    pid: int
    started: str = ""
    boot: str = ""
    namespace: str = ""


class Asker(Struct, frozen=True, omit_defaults=True, kw_only=True):
    """The agent that asks: `name` is what people read (`Claude Code`), `agent` is how `midturn hook` calls it, where it is one of those.

    `session` is the agent's own name for its session, `via` how it reached us (`hook`, `mcp`, `acp`). `process` waits for the answer,
    `serves` is the agent's process, as far as that is known, and `waits` whether the former still runs: the store fills it in.
    `itself` is the agent's process where that is certain: what descends from it may not answer. `always` says what the agent would keep
    of a yes to this call: each is an offer of its own, in words that say what it lets through. `refused` says that it asked more, which was
    not taken: it asked too much. `keeps_dialog` says that a dialog of its own may be open about this, and that it hears of nothing until
    that is left.
    `cancelled` says that it has cancelled its call, which leaves the question open; `round` is how often it has done that and asked the
    same again. `ends` is when its hook ends at the latest and its own dialog asks in place of us: the question is over then, whether or not
    anyone could still record that; empty where no dialog follows. `left` says that it was told that the question stays open, or went away
    with it; `defers`, that its run ends with this call, and that it makes the very same call again when it is resumed.
    `said` is what it said last, in one line; `subagent` names the one of its own agents that asks, where it is not the main one.
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
        """The source of everything that it asks."""
        return Source("other", f"{self.name}, subagent {self.subagent}" if self.subagent else self.name)

    @property
    def in_own_dialog(self) -> str:
        """The sentence about a question that was not answered before the agent's own dialog opened."""
        return f"it is asked in {self.name}'s own dialog now"

    def has_ended(self, now: str) -> bool:
        """Say whether a question of it is over that is not closed on record, by the time as events carry it: its own dialog has it now."""
        return bool(self.ends) and self.ends <= now

    def to_json(self) -> dict[str, Json]:
        """Return what everybody may see of it."""
        always: dict[str, Json] = {"always": [*self.always]} if self.always else {}
        refused: dict[str, Json] = {"refused": True} if self.refused else {}
        keeps: dict[str, Json] = {"keeps_dialog": True} if self.keeps_dialog else {}
        cancelled: dict[str, Json] = {"cancelled": True} if self.cancelled else {}
        told: dict[str, Json] = {"cwd": self.cwd, "said": self.said, "subagent": self.subagent}
        known = {key: value for key, value in told.items() if value}
        return {"name": self.name, "session": self.session, **known, "waits": self.waits, **always, **refused, **keeps, **cancelled}

    def metadata(self) -> dict[str, Json]:
        """Return what the first event of its turn carries, and a later one where this has changed."""
        return {_KEY: msgspec.to_builtins(msgspec.structs.replace(self, waits=False))}


def asker_of(turn: Sequence[Event]) -> Asker | None:
    """Return who asks in a turn that belongs to another agent; None for one of ours."""
    carried: Json = None
    for event in turn:
        if event.metadata and (isinstance(event, TurnStart) or (carried is not None and isinstance(event, ConfigDelta))):
            carried = event.metadata.get(_KEY, carried)
    try:
        return msgspec.convert(carried, Asker) if carried is not None else None
    except msgspec.ValidationError:  # an edited file, or a later version: it is certainly another agent's turn
        return Asker(name="another agent")


# Addresses of open questions ------------------------------------------------------------------------------------------


class Address(Struct, frozen=True):
    """The place of a question: its conversation, and the `event_id` of its request there."""

    conversation: str
    event_id: str

    def __str__(self) -> str:
        """Return the address as everybody outside the machine writes it."""
        return address(self.conversation, self.event_id)


def address(conversation: str, event_id: str) -> str:
    """Return the address of a question."""
    return f"{conversation}-{event_id}"


def parse_beginning(prefix: str) -> tuple[str, bool]:
    """Return what the beginning of an address says of its conversation, and whether that is all of it."""
    conversation, dash, _ = prefix.partition("-")
    return conversation, bool(dash)


def parse_address(text: str) -> Address | None:
    """Return what an address says; None where the text is no whole address."""
    conversation, dash, event_id = text.partition("-")
    return Address(conversation, event_id) if dash and conversation.isdecimal() and conversation.isascii() and event_id else None


SHORT_DIGEST: Final = 8
"""Number of characters of a digest that are enough to name it: a person types it."""


PromptKind: TypeAlias = Literal["tool", "run", "deliver", "review"]
WaitingEvent: TypeAlias = InquiryRequest | Approval
_AS_WE_WRITE_IT: Final = r"(?a)\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}Z"


class Whose(Struct, frozen=True):
    """Whose question it is. `ask` are the names of people and groups that it is put to now, `eligible` the people who alone may answer.

    `needed` is how many people have to say yes, and `voters` those who have. `not_told` says whom the last notice did not reach, and why.
    """

    people: People
    ask: tuple[str, ...] = ()
    eligible: frozenset[str] | None = None
    needed: int = 1
    voters: tuple[str, ...] = ()
    not_told: str = ""

    @property
    def tally(self) -> str:
        """The yeses so far, of those needed: `1 of 2`; empty where one is enough."""
        return f"{len(self.voters)} of {self.needed}" if self.needed > 1 else ""

    @property
    def line(self) -> str:
        """Whose it is, in a line: `for ops only · 1 of 2`; empty where it is anyone's."""
        only = " only" if self.eligible is not None else ""
        return " · ".join(filter(None, (f"for {', '.join(self.ask)}{only}" if self.ask else "", self.tally)))

    def is_for(self, user: str) -> bool:
        """Whether it is put to a person, by name or by a group of theirs, who has not said yes already."""
        person = self.people.person(user)
        return is_among(person, self.people.people_of(self.ask)) and not is_among(person, self.voters)

    def to_json(self) -> dict[str, Json]:
        """Return what the API and `inbox --json` show."""
        only: dict[str, Json] = {} if self.eligible is None else {"only": True, "may_answer": sorted(self.eligible)}
        votes: dict[str, Json] = {} if self.needed == 1 else {"approvals": self.needed, "voted": list(self.voters)}
        not_told: dict[str, Json] = {"not_told": self.not_told} if self.not_told else {}
        return {"ask": list(self.ask), **only, **votes, **not_told}


class Refusal(Struct, frozen=True):
    """An equal call that was refused earlier in the same turn.

    Args:
        by: The person or program that refused it.
        reason: The reason given, if any.
        at: When, in RFC 3339; empty if it was refused in the same step.
    """

    by: AnsweredBy | None
    reason: str | None = None
    at: str = ""

    def to_json(self) -> dict[str, Json]:
        """Return it as the API shows it."""
        return {"by": None if self.by is None else msgspec.to_builtins(self.by), "reason": self.reason, "at": self.at}


class CallSubject(Struct, frozen=True):
    """Subject of a `run` approval: the call as it would run.

    Args:
        call: The call, with the arguments that are decided on.
        original: The arguments as the model wrote them, if a person has edited them since; else `UNSET`.
        proposed_by: The person who edited them.
    """

    call: ToolCall
    original: Json | UnsetType = UNSET
    proposed_by: AnsweredBy | None = None


class ProposedEdit(Struct, frozen=True):
    """An edit of a call that waits.

    Args:
        by: The editor.
        arguments: The new arguments.
        original: The arguments of the call as the model made it.
        is_checked: Whether the rules for the new arguments were read. If not, nobody can say yes yet, and `OpenQuestion.arguments` are
            still those before the edit.
    """

    by: AnsweredBy | None
    arguments: Json
    original: Json
    is_checked: bool = True

    def to_json(self) -> dict[str, Json]:
        """Return it as the API shows it."""
        by = None if self.by is None else msgspec.to_builtins(self.by)
        return {"by": by, "arguments": self.arguments, "original": self.original, "checked": self.is_checked}


class OpenQuestion(Struct, frozen=True, kw_only=True):
    """Something that a turn waits for: a question of a tool, or (kinds `run`, `deliver`, `review`) an approval.

    `id` is its address (`<conversation>-<event id of its request>`), the one name that it has everywhere. `form` is the whole form where
    the question is one of several. `tool` and `arguments` say which call asks. An approval is a boolean question. `asker` is there where
    the call is another agent's, `whose` where it is not anyone's question. `question_id`, `answer_schema`, `problem`, and of a result
    under approval `content` and `is_error`, are read from its request.

    Args:
        conversation: The id of the conversation.
        kind: `tool` for a question, `run`, `deliver` or `review` for an approval.
        source: Who asks.
        question: The question as it is recorded.
        asked_at: When it was asked, in RFC 3339.
        request: The event that it was read from.
        digest: Digest of what an approval is about: the arguments of the call, the result, or the answers under review. It changes with an
            edit. Pass it to `store.answer(…, digest=…)`, so that a yes counts for nothing else. Empty for a question of a tool.
        needs_digest: Whether a yes without the digest is refused: several people have to say yes, or something was edited.
        edit: The edit of the call that people decide on, or that waits to be checked; None if the call is as the model made it.
        refusals: Refusals of equal calls earlier in the turn.
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
    asker: Asker | None = None
    whose: Whose | None = None
    digest: str = ""
    needs_digest: bool = False
    edit: ProposedEdit | None = None
    refusals: tuple[Refusal, ...] = ()

    @property
    def question_id(self) -> str:
        """The question's own id, such as `confirm`; of approvals `__run__`, `__deliver__` or `__review__`."""
        return self.request.question_id if isinstance(self.request, InquiryRequest) else f"__{self.kind}__"

    @property
    def answer_schema(self) -> JsonObject | None:
        """The JSON Schema of an answer, for a form library; None for a secret, and for a type of a newer version."""
        if isinstance(self.question.answer_type, SecretType | UnknownType):
            return None
        return answer_schema(BareType(self.question.answer_type, self.question.optional))

    @property
    def content(self) -> str | None:
        """The result that waits for approval (kind `deliver`)."""
        return self.request.content if isinstance(self.request, Approval) else None

    @property
    def is_error(self) -> bool | None:
        """Whether that result is an error."""
        return self.request.is_error if isinstance(self.request, Approval) else None

    @property
    def definition(self) -> str:
        """The fingerprint of the tool of a call that waits (kind `run`), which a permission for later calls is bound to; else empty."""
        return self.request.definition if isinstance(self.request, Approval) else ""

    @property
    def deadline(self) -> str | None:
        """Until when an answer counts, in RFC 3339: its deadline, or when another agent's own dialog asks; None where it has no end."""
        return min(filter(None, (self.request.deadline, self.asker.ends if self.asker else "")), default=None)

    @property
    def problem(self) -> str | None:
        """The tool's objection to the previous answer, where it asks again because of that."""
        return self.request.problem if isinstance(self.request, InquiryRequest) else None

    def whole_digest(self, given: str) -> str:
        """Return `digest` if `given` is at least its first 8 characters; otherwise return `given`, which then counts for nothing else."""
        return self.digest if len(given) >= SHORT_DIGEST and self.digest.startswith(given.lower()) else given

    def to_json(self) -> dict[str, Json]:
        """Return the one shape that the API, `inbox --json`, exit status 3 and `notify.command` show."""
        asker: dict[str, Json] = {} if self.asker is None else {"asker": self.asker.to_json()}
        problem: dict[str, Json] = {} if self.problem is None else {"problem": self.problem}
        people: dict[str, Json] = {} if self.whose is None else {"people": self.whose.to_json()}
        about: dict[str, Json] = {"about": self.digest} if self.digest else {}
        edit: dict[str, Json] = {} if self.edit is None else {"edit": self.edit.to_json()}
        refused: dict[str, Json] = {"refused_before": [each.to_json() for each in self.refusals]} if self.refusals else {}
        deadline: dict[str, Json] = {} if self.deadline is None else {"deadline": self.deadline}
        result: dict[str, Json] = {} if self.content is None else {"content": self.content, "is_error": bool(self.is_error)}
        digest: dict[str, Json] = {"digest": self.digest} if self.digest else {}  # `about` is the older name
        return {
            "id": self.id,
            "conversation": self.conversation,
            "kind": self.kind,
            "source": msgspec.to_builtins(self.source),
            "question_id": self.question_id,
            "question": self.question.to_json(),
            "answer_schema": self.answer_schema,
            "form": None if self.form is None else {"total": self.form.total, "questions": [*map(_whole, self.form.questions)]},
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
    """Return what binds an approval to the exact arguments that run."""
    return sha256(canonical(arguments))


def result_sha256(content: str, *, is_error: bool, images: Sequence[Image]) -> str:
    """Return the digest of a result that waits to be delivered."""
    return sha256(canonical([content, is_error, *([image.media_type, image.data] for image in images)]))


def answers_sha256(questions: Sequence[Question[Any]], answers: Mapping[str, Json]) -> str:
    """Return the digest of answers that wait for review, with the texts of their questions."""
    return sha256(canonical([[question.id, question.text, answers[question.id]] for question in questions if question.id in answers]))


def _whole(question: dict[str, Json]) -> Json:
    """Return a question of a form with its options as objects, as those of a single question are."""
    kind = question.get("answer_type")
    options = kind.get("options") if isinstance(kind, Mapping) else None
    if not isinstance(kind, Mapping) or not isinstance(options, list):
        return question
    return {**question, "answer_type": {**kind, "options": [_option(option) for option in options]}}


def _option(option: Json) -> Json:
    return option if isinstance(option, Mapping) else {"value": option}


def holds_secret(question: OpenQuestion) -> bool:
    """Say whether the question, or one of its form, is a secret: those are answered where the turn runs."""
    return isinstance(question.question.answer_type, SecretType) or bool(secrets_of_form(question.form))


def secrets_of_form(form: FormAuthored | None) -> frozenset[str]:
    """Return the ids of the questions of a form that are secrets, whatever version wrote it."""
    return frozenset(str(asked.get("id")) for asked in form.questions if _is_secret(asked.get("answer_type"))) if form else frozenset()


def _is_secret(answer_type: Json) -> bool:
    return answer_type == "secret" or (isinstance(answer_type, Mapping) and answer_type.get("type") == "secret")


def recorded_at(event: Event) -> str:
    """Return when the event was recorded as RFC 3339 in UTC; an unreadable time is returned as it stands."""
    if re.fullmatch(_AS_WE_WRITE_IT, event.timestamp):
        return event.timestamp
    try:
        return rfc3339(event.at)
    except (ValueError, OverflowError):
        return event.timestamp


# Words of an approval -------------------------------------------------------------------------------------------------


_TEXTS: Final = {"run": "Run {tool}?", "deliver": "Deliver the result of {tool}?", "review": "Send these answers?"}


def approval_text(kind: str, tool: str) -> str:
    """Return what a person is asked to approve."""
    return _TEXTS.get(kind, f"Approve {kind} of {{tool}}?").replace("{tool}", tool)


def asked_text(approval: Approval, tool: str) -> str:
    """Return what was asked: what the tool had foretold, or the words of the approval."""
    return approval_text(approval.kind, tool) if approval.question is None else approval.question.text


# Values and blocks of text in Markdown --------------------------------------------------------------------------------


_BACKTICKS: Final = r"`+"


def fenced(text: str, language: str = "") -> str:
    """Return a block that shows `text` as it is, whatever backticks are in it."""
    fence = "`" * max(3, 1 + max(map(len, re.findall(_BACKTICKS, text)), default=0))
    return "\n".join((fence + language, text.removesuffix("\n"), fence))


def shown(value: Json) -> str:
    """Return a JSON value as a person writes it: text bare, everything else as JSON."""
    return value if isinstance(value, str) else msgspec.json.encode(value).decode()
