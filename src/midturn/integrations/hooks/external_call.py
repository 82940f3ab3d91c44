"""One call by another agent that waits for a person's decision. Each call is stored as its own
conversation.

This module also limits the number and size of other agents' questions, so that an agent in a loop
cannot flood the inbox or fill the disk.

**Guarantee.** Every change is decided inside `StorePort.settle`, on the current events of the
turn. Earlier reads are only hints.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncGenerator, Callable, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager
from hmac import compare_digest
from typing import Any, Final, TypeAlias

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from midturn.errors import MidturnError, QuestionError, StoreError
from midturn.events import types as ev
from midturn.events.open_question import AskingAgent, OpenQuestion, arguments_sha256
from midturn.integrations.hooks.model_messages import (
    Approved,
    Decided,
    DecidedElsewhere,
    Refused,
    RepliedTo,
    TurnStopped,
    tool_name,
)
from midturn.ports import Clock
from midturn.protocol_forms import Outgoing, heading
from midturn.question.form import Form
from midturn.question.json_value import (
    DEFAULT_LIMITS,
    Json,
    JsonObject,
    canonical,
    json_problem,
    members,
    text,
)
from midturn.question.question import Question
from midturn.routing.rules import Ruling
from midturn.stores.batch import event_ids, stamped
from midturn.stores.port import CommittedBatch
from midturn.stores.store import ConversationStore
from midturn.tools.ask_user_call import read_arguments
from midturn.turn.pending import pending
from midturn.turn.view import TurnView
from midturn.turn.visit import Visit


class ExternalCall(Struct, frozen=True, kw_only=True):
    """A call by another agent. `id` is the agent's own call id. `call` is the id of the call's
    event in midturn's conversation.
    """

    conversation: str
    call: str
    id: str
    tool: str
    arguments: JsonObject
    asker: AskingAgent

    @property
    def handle(self) -> str:
        """Id that the asking agent uses to find the call later. It contains a random part, so other
        agents cannot guess it.
        """
        return f"{self.conversation}-{self.call}"


def start_events(external_call: ExternalCall, title: str) -> tuple[ev.Event, ...]:
    """Return the first events of a call's conversation, without ids. `title` is the title of the
    conversation.
    """
    return (
        ev.TurnStart(metadata=external_call.asker.metadata()),
        ev.ChatRequest(content=title, author=external_call.asker.name),
        ev.ToolCallRequest(
            event_id=external_call.call,
            id=external_call.id,
            name=external_call.tool,
            arguments=external_call.arguments,
        ),
    )


def asked_by(
    turn: Sequence[ev.Event], asker: AskingAgent, ids: Iterator[str]
) -> tuple[ev.Event, ...]:
    """Return the event that records changed data of the asking agent, for example after another
    process starts to wait for the answer. Empty if the turn is over.
    """
    return () if is_over(turn) else (ev.ConfigDelta(event_id=next(ids), metadata=asker.metadata()),)


def permission(
    external_call: ExternalCall, ruling: Ruling, *, any_arguments: bool = False
) -> ev.Approval:
    """Return the approval for a call. It waits for a person unless a rule decides.

    `any_arguments` means that the rules do not depend on the arguments. See `Approval`.
    """
    asked = ev.Approval(
        id=f"{external_call.id}.__run__.1", call=external_call.call, kind="run", state="waiting"
    )
    by = ev.AnsweredBy("configuration", origin=ruling.place)
    match ruling.run:
        case "unattended":
            digest = arguments_sha256(external_call.arguments)
            return replace(
                asked,
                state="approved",
                answered_by=by,
                reason=ruling.reason,
                arguments_sha256=digest,
            )
        case "skip":
            return replace(asked, state="skipped", answered_by=by, reason=ruling.reason)
        case _:
            people = ruling.people
            return replace(
                asked,
                reason=ruling.reason,
                rule=ruling.place,
                people=people,
                configured=people is not None,
                any_arguments=any_arguments,
                requires=ev.required_by("", people),
            )


def external_call_of(conversation: str, turn: Sequence[ev.Event]) -> ExternalCall | None:
    """Return the external call of a turn, or None if the turn is not an external call."""
    view = TurnView.last(turn)
    asker, call = view.asker, next((request for request, _ in view.calls), None)
    if asker is None or call is None:
        return None
    arguments = members(call.arguments)
    return ExternalCall(
        conversation=conversation,
        call=call.event_id,
        id=call.id,
        tool=call.name,
        arguments=arguments,
        asker=asker,
    )


def has_handle(external_call: ExternalCall, turn: Sequence[ev.Event], name: str) -> bool:
    """Return whether `name` is the handle of the call, or the inbox id of one of the call's
    questions.
    """
    questions = (
        f"{external_call.conversation}-{request.event_id}"
        for request, _ in TurnView.last(turn).inquiries
    )
    return any(
        compare_digest(known.encode(), name.encode("utf-8", "replace"))
        for known in (external_call.handle, *questions)
    )


def is_over(turn: Sequence[ev.Event]) -> bool:
    """Return whether the turn has ended: the agent has received the answer, or will never receive
    one.
    """
    return TurnView.last(turn).record.ended is not None


def decision_of(turn: Sequence[ev.Event]) -> Decided | None:
    """Return the recorded decision by a person or a rule, or None if there is none. Answers to a
    form are not a decision: `ExternalCallService.outcome` collects them.
    """
    view = TurnView.last(turn)
    ended = view.record.ended
    if ended and ended.status == "ended_by_user":
        return TurnStopped()
    if view.permissions:
        return _permitted(view.permissions[-1])
    reasons = view.cancel_reasons
    if "reply" in reasons:
        return _reply(view)
    if "user" in reasons:
        return TurnStopped()
    return DecidedElsewhere() if reasons & {"superseded"} and ended else None


def check_edit(
    conversation: str, turn: Sequence[ev.Event], rules: Callable[[Json], Ruling], ids: Iterator[str]
) -> tuple[ev.Event, ...]:
    """Return the events that record the check of an edit, if another process recorded the edit
    without checking it against the rules.
    """
    edited = (
        question
        for question in pending(turn, conversation)
        if question.edit is not None and not question.edit.is_checked
    )
    question = next(edited, None)
    return (
        ()
        if question is None
        else Visit(turn, question.request.event_id, ids, conversation, rules=rules).checked()
    )


def was_delivered(turn: Sequence[ev.Event]) -> bool:
    """Return whether the agent was informed that the call is allowed. The agent repeats the call
    later.
    """
    view = TurnView.last(turn)
    allowed = bool(view.permissions) and view.permissions[-1].state in {"approved", "edited"}
    return allowed and view.result is not None


def tell(turn: Sequence[ev.Event], content: str, ids: Iterator[str]) -> tuple[ev.Event, ...]:
    """Return the event that records a message to the agent. The call does not end."""
    external_call = external_call_of("", turn)
    if external_call is None or is_over(turn) or TurnView.last(turn).result is not None:
        return ()
    return (
        ev.ToolCallResponse(
            event_id=next(ids), id=external_call.id, call=external_call.call, content=content
        ),
    )


def content_of(turn: Sequence[ev.Event]) -> str | None:
    """Return the final text for the agent, or None while the agent waits."""
    return TurnView.last(turn).result


def reasons_of(turn: Sequence[ev.Event], answers: Mapping[str, Json]) -> Mapping[str, str]:
    """Return the reasons given with the current answers, by question id. Reasons of withdrawn and
    obsolete answers are left out.
    """
    latest = {request.question_id: response for request, response in TurnView.last(turn).answered}
    return {
        key: response.reason
        for key, response in latest.items()
        if response.reason and answers.get(key) is not None
    }


def answers_of(turn: Sequence[ev.Event]) -> dict[str, Json]:
    """Return the latest answer to each question."""
    return {
        request.question_id: response.answer for request, response in TurnView.last(turn).answered
    }


def first_question(turn: Sequence[ev.Event]) -> ev.InquiryRequest | None:
    """Return the first question of a call."""
    return next((request for request, _ in TurnView.last(turn).inquiries), None)


def _permitted(approval: ev.Approval) -> Decided | None:
    by = approval.answered_by
    rule = (by.origin or "") if by and by.by == "configuration" else ""
    match approval.state:
        case "approved":
            return Approved(always=approval.kept, rule=rule)
        case "edited":
            return Approved(members(approval.arguments))
        case "skipped":
            return Refused(approval.reason, rule)
        case "superseded":
            return DecidedElsewhere()
        case _:
            return None


def _reply(turn: TurnView) -> RepliedTo:
    """Return the message that a person sent instead of answering, and the earlier answers. The
    result of the call contains both.
    """
    try:
        marker = members(msgspec.json.decode(turn.result or "{}"))
    except msgspec.DecodeError:
        return RepliedTo()
    texts = {request.question_id: request.question.text for request, _ in turn.inquiries}
    answers = {texts.get(key, key): value for key, value in members(marker.get("answered")).items()}
    return RepliedTo(text(marker.get("reply")), answers)


# --------------------------------------------------------------------------------------------------
# Dialogs that an agent opens for questions from midturn's own MCP server. Such a dialog is
# recognized by its content, because the server can be registered under any name.


VIA: Final = "mcp"
"""Value of `via` for questions from midturn's MCP server."""


def shows(dialog: JsonObject, external_call: ExternalCall) -> bool:
    """Return whether a dialog (`message`, `requested_schema`) shows one or all questions of a
    call to midturn's MCP server.
    """
    if external_call.asker.via != VIA:
        return False
    try:
        asked = read_arguments(external_call.arguments).form.questions
    except QuestionError:  # a permission request has no questions
        return False
    properties = members(members(dialog.get("requested_schema")).get("properties")).keys()
    return any(
        text(dialog.get("message")) == heading(shown)
        and properties == Outgoing.of(shown).schema["properties"].keys()
        for shown in (asked, *([each] for each in asked))
    )


# --------------------------------------------------------------------------------------------------
# Questions that another program's dialog shows, and the minimum response time of a person


MIN_RESPONSE_TIME = 0.4  # minimum time in seconds that a person needs to read and respond


def questions_for_dialog(
    question: OpenQuestion, can_show: Callable[[Sequence[Question[Any]]], bool]
) -> Sequence[Question[Any]]:
    """Return all questions of a form if they are independent of each other and the dialog can
    show all of them. Otherwise return only the open question.
    """
    asked = question.question.asked(question.question_id) if question.kind == "tool" else None
    if question.form is None:
        return [asked] if asked else []
    whole = Form.from_record(list(question.form.questions)).questions
    apart = (
        any(each.when for each in whole)
        or not can_show(whole)
        or whole[0].id != (asked.id if asked else "")
    )
    return [asked] if apart and asked else whole


MAX_OPEN_PER_SESSION: Final = 50
"""Maximum number of open questions per session."""
MAX_OPEN: Final = 500
"""Maximum number of open questions from all external agents together."""
MAX_SIZE: Final = 1024 * 1024
"""Maximum size of a question with its arguments, in bytes."""
MAX_PER_HOUR: Final = 600
"""Maximum number of questions per hour from all external agents together. Withdrawn questions
count too, because they stay recorded.
"""
SESSION_LABEL: Final = "session:"
"""Prefix of the label of another agent's conversation. The agent's own session id follows."""
_HOUR = 3_600_000_000  # one hour in microseconds, the unit of conversation ids
_MAX_SCANNED = (
    4 * MAX_PER_HOUR
)  # maximum number of conversations to read, so that a large number of other turns causes no delay
_ID_DIGITS = 16  # number of digits of a conversation id
_REFUSAL_CACHE_SECONDS = 1.0  # time in seconds for which a refusal is cached


class QuotaExceeded(MidturnError):  # noqa: N818  named for the event
    """A question exceeds a limit and was not asked. `oldest` is the oldest open conversation of
    the asking agent.
    """

    def __init__(self, message: str, oldest: str = "") -> None:
        super().__init__(message)
        self.oldest = oldest


class Quota:
    """Limits the questions from other agents. Use one instance per process, so that concurrent
    questions are counted one after the other.

    Questions are counted in the store, because each hook runs in a separate process. If several
    processes ask at the same moment, each of them may exceed the limit by one question.
    """

    def __init__(self) -> None:
        self._lock = asyncio.Lock()
        self._refused: dict[tuple[str, str], tuple[float, QuotaExceeded]] = {}

    @asynccontextmanager
    async def admit(
        self, store: ConversationStore, asker: AskingAgent, call: JsonObject, clock: Clock
    ) -> AsyncGenerator[None]:
        """Check the limits before the block asks about one more call. `call` contains all data from
        the agent.

        Raises:
            QuotaExceeded: The call is too large, cannot be displayed, or exceeds a limit.
        """
        problem = json_problem(call, DEFAULT_LIMITS.json_depth)
        if problem is not None:
            raise QuotaExceeded(
                f"What {asker.name} asks about could not be shown as it is: {problem.message} It"
                " was not asked."
            )
        size = len(canonical(call)) + len(canonical(asker.metadata()))
        if size > MAX_SIZE:
            raise QuotaExceeded(
                f"What {asker.name} asks about has {size:,} bytes; no question may have more than"
                f" {MAX_SIZE:,}. It was not asked."
            )
        async with self._lock:
            who = (asker.name, asker.session)
            before, refused = self._refused.get(who, (0.0, None))
            if refused and clock.monotonic() - before < _REFUSAL_CACHE_SECONDS:
                raise refused
            try:
                await _check_rate(store, asker, clock)
                await _check_open(store, asker)
            except QuotaExceeded as full:
                self._refused[who] = (clock.monotonic(), full)
                raise
            yield


async def _check_rate(store: ConversationStore, asker: AskingAgent, clock: Clock) -> None:
    """Check the hourly limit. Conversation ids contain the creation time, so conversations are
    counted by id first. Their labels are read only if the count exceeds the limit.
    """
    now = int(clock.now().timestamp() * 1_000_000)
    since, until = f"{now - _HOUR:0{_ID_DIGITS}}", f"{now:0{_ID_DIGITS}}"
    ids = await store.port.ids(after=since)
    begun = [
        since,
        *(id for id in ids if id <= until),  # noqa: A001  ids in the future, after a clock was set back, are not recent
    ]
    if len(begun) <= MAX_PER_HOUR:
        return
    named = await store.port.described(after=begun[-_MAX_SCANNED - 1 :][0], limit=_MAX_SCANNED)
    count = sum(
        any(label.startswith(SESSION_LABEL) for label in metadata.labels) for _, metadata in named
    )
    if count >= MAX_PER_HOUR:
        oldest = next(
            (
                question.conversation
                for question in await _open_questions(store)
                if _asker_key(question)[0] == asker.name
            ),
            "",
        )
        raise QuotaExceeded(
            f"Other agents have asked {count} times in the last hour, and no more is taken for now."
            " This was not asked.",
            oldest,
        )


async def _check_open(store: ConversationStore, asker: AskingAgent) -> None:
    if len(await store.port.ids(which="open")) < MAX_OPEN_PER_SESSION:
        return
    foreign = await _open_questions(store)
    own = [question for question in foreign if _asker_key(question) == (asker.name, asker.session)]
    advice = "no more are taken until some of them are answered. This one was not asked."
    if len(own) >= MAX_OPEN_PER_SESSION:
        raise QuotaExceeded(
            f"{len(own)} questions of this session of {asker.name} wait for the user already, and"
            f" {advice}",
            own[0].conversation,
        )
    if len(foreign) >= MAX_OPEN:
        oldest = next(
            (question for question in foreign if _asker_key(question)[0] == asker.name), foreign[0]
        )
        raise QuotaExceeded(
            f"{len(foreign)} questions of other agents wait for the user already, and {advice}",
            oldest.conversation,
        )


async def _open_questions(store: ConversationStore) -> list[OpenQuestion]:
    """Return the open questions from other agents, oldest first."""
    return [question for question in await store.pending() if question.asker]


def _asker_key(question: OpenQuestion) -> tuple[str, str]:
    return (question.asker.name, question.asker.session) if question.asker else ("", "")


_LOG = logging.getLogger(__name__)
_MAX_ATTEMPTS = 100
_UNNAMED_SESSION = "unnamed"
RETRY_DELAY = 0.1
"""Seconds between two attempts to write to a locked conversation."""
Decide: TypeAlias = Callable[[Sequence[ev.Event]], Sequence[ev.Event]]
"""Returns the events to write, given the current events of the turn. Called while no other process
can write.
"""


class ExternalCallLog:
    """Reads and writes the conversations of external calls in one store."""

    def __init__(self, store: ConversationStore, clock: Clock) -> None:
        self.store = store
        self.clock = clock
        self.ids = event_ids()

    async def turn(self, conversation: str) -> tuple[ev.Event, ...]:
        """Return the events of a call's turn."""
        return tuple((await self.store.port.look(conversation)).turn.events)

    async def find(self, conversation: str) -> ExternalCall | None:
        """Return the call of a conversation, or None if the conversation is missing or
        unreadable.
        """
        try:
            return external_call_of(conversation, await self.turn(conversation))
        except StoreError:
            return None

    async def is_unreadable(self, conversation: str) -> bool:
        """Return whether the conversation exists but cannot be read now."""
        try:
            await self.turn(conversation)
        except StoreError:
            return conversation in await self.store.port.ids()
        return False

    async def open_turns(self) -> list[tuple[str, tuple[ev.Event, ...]]]:
        """Return the open turns, oldest first. Deleted or damaged conversations are skipped with a
        warning in the log.
        """
        found: list[tuple[str, tuple[ev.Event, ...]]] = []
        for conversation in await self.store.port.ids(which="open"):
            try:
                found.append((conversation, await self.turn(conversation)))
            except StoreError as error:
                _LOG.warning("%s", error)
        return found

    async def open(
        self, asking: ExternalCall, title: str, *asks: Callable[[ExternalCall], ev.Event]
    ) -> ExternalCall:
        """Record a new call in a new conversation. `asks` return the first questions of the call,
        which are recorded in the same batch.
        """
        async with await self.store.create(f"{asking.asker.name}: {title}") as journal:
            call = next(self.ids)
            external_call = replace(
                asking,
                conversation=journal.conversation,
                call=call,
                id=asking.id or call,
                tool=tool_name(asking.tool),
            )
            events = [*start_events(external_call, title), *(ask(external_call) for ask in asks)]
            named = [
                event if event.event_id else replace(event, event_id=next(self.ids))
                for event in events
            ]
            await journal.append(stamped(named, self.clock))
        await self.store.port.describe(external_call.conversation, labels=_labels(asking.asker))
        return external_call

    async def note(self, external_call: ExternalCall, asker: AskingAgent) -> None:
        """Record changed data of the asking agent, unless the call is over."""
        await self.write(external_call, lambda turn: asked_by(turn, asker, self.ids))

    async def write(self, external_call: ExternalCall, decide: Decide) -> None:
        """Write the events that `decide` returns.

        Raises:
            StoreError: Another process keeps the conversation locked.
        """
        for _ in range(_MAX_ATTEMPTS):
            settled = await self.store.port.settle(
                external_call.conversation, lambda last: stamped(decide(last.events), self.clock)
            )
            if isinstance(settled, CommittedBatch):
                return
            await asyncio.sleep(RETRY_DELAY)
        raise StoreError(
            f"Conversation {external_call.conversation} is locked by another process. "
            f"The message to {external_call.asker.name} is not recorded."
        )


def _labels(asker: AskingAgent) -> tuple[str, ...]:
    return asker.agent or asker.name, f"{SESSION_LABEL}{asker.session or _UNNAMED_SESSION}"
