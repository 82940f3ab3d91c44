"""Tasks, computed from the log.

A context is a conversation, and a task is one of its turns: `<conversation>-<event ID of the turn's
start>`. The only data that is stored for a task is the metadata of the message that began its turn.
A server that was killed therefore shows the same tasks after a restart.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime
from functools import cached_property
from typing import Final, Literal, TypeAlias

from a2a.types.a2a_pb2 import Artifact, Message, Part, Task, TaskState, TaskStatus
from google.protobuf.timestamp_pb2 import Timestamp
from msgspec import UNSET, Struct

from midturn.agent.result import build_result
from midturn.clock import SYSTEM, parse_time, stamp
from midturn.errors import NoConversation
from midturn.events.open_question import parse_address
from midturn.events.types import ChatRequest, ChatResponse, Event, TurnEnd, TurnStart
from midturn.events.window import Window, last_turn, turns
from midturn.integrations.a2a.questions import (
    EXTENSION,
    AskedQuestion,
    Client,
    OutOfBand,
    asked_questions,
    next_question,
    status_parts,
)
from midturn.integrations.a2a.wire import data_part, message_of, text_part
from midturn.question.json_value import Json, JsonObject, members
from midturn.runtime.driver import RunEnding
from midturn.stores.nested_conversations import can_continue
from midturn.stores.port import CommittedBatch, LockedBy
from midturn.stores.store import ConversationStore
from midturn.turn.view import TurnView

ARTIFACT: Final = "answer"
_QUIET_SECONDS: Final = 0.5
"""Seconds without new events after which a locked turn with open questions counts as waiting for
answers.
"""
_FAILED: Final = "The task failed."
State: TypeAlias = Literal[
    "working", "input_required", "auth_required", "completed", "failed", "canceled"
]
STATES: Final[Mapping[State, TaskState]] = {
    "working": TaskState.TASK_STATE_WORKING,
    "input_required": TaskState.TASK_STATE_INPUT_REQUIRED,
    "auth_required": TaskState.TASK_STATE_AUTH_REQUIRED,
    "completed": TaskState.TASK_STATE_COMPLETED,
    "failed": TaskState.TASK_STATE_FAILED,
    "canceled": TaskState.TASK_STATE_CANCELED,
}
ENDED: Final = frozenset[State]({"completed", "failed", "canceled"})


# Metadata of the message that begins a task
# --------------------------------------------------------------------------------------------------


def request_metadata(user: str, context: str, message: str) -> JsonObject:
    """Return the metadata of the `chat_request` that begins a task.

    Args:
        user: Name of the principal, to whom the task belongs.
        context: The context ID that the client uses.
        message: ID of the message.
    """
    return {"a2a": {"user": user, "context": context, "message": message}}


def is_a2a_turn(events: Sequence[Event]) -> bool:
    """Return whether an A2A client began a turn."""
    return bool(_request_details(events))


def _request_details(events: Sequence[Event]) -> JsonObject:
    for event in events:
        if isinstance(event, ChatRequest):
            return members((event.metadata or {}).get("a2a"))
    return {}


# One task
# --------------------------------------------------------------------------------------------------


class TaskTurn(Struct, frozen=True, dict=True):
    """The turn of a task.

    Args:
        conversation: ID of the conversation.
        events: The events of the turn.
        is_open: Whether the turn has not ended.
    """

    conversation: str
    events: tuple[Event, ...]
    is_open: bool

    @classmethod
    def of(cls, conversation: str, window: Window) -> TaskTurn | None:
        """Return the task of a turn, or None if the turn was not begun by an A2A client."""
        if not is_a2a_turn(window.events):
            return None
        return cls(conversation, window.events, window.open)

    @cached_property
    def start(self) -> str:
        """ID of the event that starts the turn."""
        return next(event.event_id for event in self.events if isinstance(event, TurnStart))

    @property
    def id(self) -> str:
        """ID of the task."""
        return f"{self.conversation}-{self.start}"

    @cached_property
    def _details(self) -> JsonObject:
        return _request_details(self.events)

    @property
    def user(self) -> str:
        """Name of the principal that began the task."""
        return str(self._details.get("user", ""))

    @property
    def context(self) -> str:
        """The context ID that the client uses."""
        return str(self._details.get("context", self.conversation))

    @property
    def message(self) -> str:
        """ID of the message that began the task."""
        return str(self._details.get("message", ""))

    @property
    def changed_at(self) -> datetime | None:
        """Time of the last event."""
        return parse_time(self.events[-1].timestamp) if self.events else None

    @property
    def texts(self) -> list[str]:
        """The assistant's messages in this turn."""
        return [
            event.message
            for event in self.events
            if isinstance(event, ChatResponse) and event.message
        ]

    @property
    def structured(self) -> Json:
        """The last structured answer, or None if there is none."""
        found = [
            event.structured
            for event in self.events
            if isinstance(event, ChatResponse) and event.structured is not UNSET
        ]
        return found[-1] if found else None

    def outcome(self) -> tuple[State, str]:
        """Return the state of an ended turn, and the error message if it failed."""
        end = next(event for event in reversed(self.events) if isinstance(event, TurnEnd))
        ending = RunEnding(end.status, end.error)
        view = TurnView(Window(self.events))
        result = build_result(self.conversation, view, ending, None, ())
        match result.status:
            case "completed":
                return "completed", ""
            case "ended_by_user":
                return "canceled", ""
            case _:
                return "failed", result.error or _FAILED


class TaskSnapshot(Struct, frozen=True, kw_only=True):
    """The state of a task at one moment, for one client.

    Args:
        turn: The turn.
        state: The state.
        error: The error message if the task failed.
        asked: The open questions.
        can_continue: Whether the turn can continue and no process runs it.
    """

    turn: TaskTurn
    state: State
    error: str = ""
    asked: tuple[AskedQuestion, ...] = ()
    can_continue: bool = False

    @property
    def is_over(self) -> bool:
        """Whether the task has ended."""
        return self.state in ENDED

    @property
    def is_paused(self) -> bool:
        """Whether the task has ended or waits for an answer."""
        return self.state != "working"

    def status(self, problems: Mapping[str, str], *, has_extension: bool) -> TaskStatus:
        """Return the status of the task in the wire format.

        Args:
            problems: The reasons why answers in this request were not recorded, by address.
            has_extension: Whether the client supports structured questions.
        """
        status = TaskStatus(state=STATES[self.state])
        if (changed := self.turn.changed_at) is not None:
            time = Timestamp()
            time.FromDatetime(changed)
            status.timestamp.CopyFrom(time)
        parts = self._message_parts(problems, has_extension=has_extension)
        if parts:
            message = message_of(
                self._message_id,
                parts,
                task=self.turn.id,
                context=self.turn.context,
                extensions=(EXTENSION,) if has_extension and self.asked else (),
            )
            status.message.CopyFrom(message)
        return status

    @property
    def _message_id(self) -> str:
        first = next_question(self.asked)
        return first.question.id if first else f"{self.turn.events[-1].event_id}-status"

    def _message_parts(self, problems: Mapping[str, str], *, has_extension: bool) -> list[Part]:
        if self.state in ("input_required", "auth_required"):
            return status_parts(self.asked, problems, has_extension=has_extension)
        texts = [*problems.values(), *([self.error] if self.error else [])]
        return [text_part(text) for text in texts]

    @property
    def answer_parts(self) -> list[Part]:
        """The parts of the artifact: the assistant's messages, and the structured answer."""
        parts = [text_part(text) for text in self.turn.texts]
        structured = None if self.turn.structured is None else data_part(self.turn.structured)
        return parts if structured is None else [*parts, structured]

    def artifact(self, parts: Sequence[Part]) -> Artifact:
        """Return the artifact with these parts."""
        return Artifact(artifact_id=ARTIFACT, name=ARTIFACT, parts=list(parts))

    def history(self, length: int | None) -> list[Message]:
        """Return the latest messages of the turn.

        Args:
            length: Maximum number of messages; None for all.
        """
        messages = [*self._messages()]
        if length is None:
            return messages
        return messages[-length:] if length > 0 else []

    def _messages(self) -> Iterator[Message]:
        turn = self.turn
        for event in turn.events:
            match event:
                case ChatRequest():
                    given = members((event.metadata or {}).get("a2a")).get("message")
                    yield message_of(
                        str(given or event.event_id),
                        [text_part(event.content)],
                        task=turn.id,
                        context=turn.context,
                        is_user=True,
                    )
                case ChatResponse(message=str(text)) if text:
                    yield message_of(
                        event.event_id, [text_part(text)], task=turn.id, context=turn.context
                    )
                case _:
                    pass

    def task(
        self,
        client: Client,
        *,
        problems: Mapping[str, str] = {},
        history: int | None = None,
        has_artifacts: bool = True,
    ) -> Task:
        """Return the task in the wire format.

        Args:
            client: The client.
            problems: The reasons why answers in this request were not recorded, by address.
            history: Maximum number of messages; None for all.
            has_artifacts: Whether to include the answer.
        """
        parts = self.answer_parts if has_artifacts else []
        return Task(
            id=self.turn.id,
            context_id=self.turn.context,
            status=self.status(problems, has_extension=client.has_extension),
            artifacts=[self.artifact(parts)] if parts else [],
            history=self.history(history),
        )


# Reading tasks
# --------------------------------------------------------------------------------------------------


class TaskReader:
    """Reads the current state of tasks from the store.

    Args:
        store: The store, with its authorization rules.
        out_of_band: The state of a task that waits only for people.
    """

    def __init__(self, store: ConversationStore, out_of_band: OutOfBand) -> None:
        self._store = store
        self._out_of_band: OutOfBand = out_of_band

    async def turn(self, task: str, client: Client) -> TaskTurn | None:
        """Return the turn of a task. None if the task does not exist or belongs to another
        principal.

        Raises:
            StoreError: The store cannot be read.
        """
        found, _ = await self._find(task, client)
        return found

    async def snapshot(self, task: str, client: Client) -> TaskSnapshot | None:
        """Return the state of a task. None if the task does not exist or belongs to another
        principal.

        Raises:
            StoreError: The store cannot be read.
        """
        turn, held = await self._find(task, client)
        if turn is None:
            return None
        if not turn.is_open or held is None:
            state, error = turn.outcome()
            return TaskSnapshot(turn=turn, state=state, error=error)
        asked = await asked_questions(self._store, turn.conversation, client)
        return await self._open_task(turn, held, asked)

    async def _find(
        self, task: str, client: Client
    ) -> tuple[TaskTurn | None, CommittedBatch | LockedBy | None]:
        """Return the turn of a task, and the state of its conversation. Both are None if the task
        does not exist or belongs to another principal.
        """
        at = parse_address(task)
        if at is None:
            return None, None
        try:
            held = await self._store.port.look(at.conversation)
            found = _task_in(at.conversation, last_turn(held.turn.events), at.event_id)
            if found is None:
                windows = turns((await self._store.read(at.conversation)).events)
                each = (_task_in(at.conversation, window, at.event_id) for window in windows)
                found = next(filter(None, each), None)
        except NoConversation:
            return None, None
        if found is None or found.user != client.name:
            return None, None
        return found, held

    async def _open_task(
        self, turn: TaskTurn, held: CommittedBatch | LockedBy, asked: Sequence[AskedQuestion]
    ) -> TaskSnapshot:
        is_free, last = isinstance(held, CommittedBatch), held.turn
        is_due = is_free and await can_continue(self._store.port, last, stamp(SYSTEM))
        waits = bool(asked) and not last.handed and (not is_due if is_free else _is_quiet(turn))
        if not waits:
            return TaskSnapshot(turn=turn, state="working", asked=tuple(asked), can_continue=is_due)
        is_answerable = next_question(asked) is not None
        return TaskSnapshot(
            turn=turn,
            state="input_required" if is_answerable else self._out_of_band,
            asked=tuple(asked),
        )


def _task_in(conversation: str, window: Window | None, start: str) -> TaskTurn | None:
    found = None if window is None else TaskTurn.of(conversation, window)
    return found if found is not None and found.start == start else None


def _is_quiet(turn: TaskTurn) -> bool:
    changed = turn.changed_at
    return changed is None or (datetime.now(UTC) - changed).total_seconds() >= _QUIET_SECONDS
