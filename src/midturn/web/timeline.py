"""The timeline of a conversation: messages, calls, questions and answers, turn by turn."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from typing import TypeAlias

from msgspec import Struct

from midturn.events.open_question import asked_text
from midturn.events.transcript import (
    ApprovalEntry,
    CallEntry,
    EndEntry,
    Entry,
    RequestEntry,
    SettingsEntry,
    UnreadEntry,
    WordsEntry,
    agreed,
    transcript_entries,
)
from midturn.events.types import AnsweredBy, Approval, Event, InquiryRequest, InquiryResponse
from midturn.events.window import Window
from midturn.question.json_value import Json
from midturn.stores.conversation import problems_of, turns_in
from midturn.stores.log_tail import Part
from midturn.stores.port import first_words
from midturn.stores.store import ConversationStore, parts_from


class SaidItem(Struct, frozen=True, kw_only=True):
    """A message from the user or the assistant, or the model's reasoning (`reasoning`)."""

    id: str
    at: str
    who: str
    kind: str
    text: str


class CalledItem(Struct, frozen=True, kw_only=True):
    """A tool call with its result, if it has one."""

    id: str
    at: str
    name: str
    arguments: Json
    result: str | None
    is_error: bool


class OutcomeItem(Struct, frozen=True, kw_only=True):
    """A question with its outcome. `waited` is in seconds. `escalates` is whether a model denied
    the question first.
    """

    id: str
    at: str
    request: InquiryRequest
    response: InquiryResponse | None
    waited: float | None
    escalates: bool

    @property
    def by(self) -> AnsweredBy | None:
        """The responder."""
        return (
            None
            if self.response is None or self.response.outcome == "cancelled"
            else self.response.answered_by
        )


class DecidedItem(Struct, frozen=True, kw_only=True):
    """An approval with its decision. The decision is None while the approval is open."""

    id: str
    at: str
    text: str
    kind: str
    decision: Approval | None
    waited: float | None


class NotedItem(Struct, frozen=True, kw_only=True):
    """A recorded event of any other kind, such as changed settings."""

    id: str
    at: str
    text: str


TimelineItem: TypeAlias = SaidItem | CalledItem | OutcomeItem | DecidedItem | NotedItem


class TurnItems(Struct, frozen=True, kw_only=True):
    """One turn. `status` is empty while the turn is open. `left_out` is the number of earlier items
    that are not shown.
    """

    number: int
    at: str
    status: str
    error: str
    items: tuple[TimelineItem, ...]
    left_out: int = 0


_AFTER_LAST_TURN = 1 << 40
"""A number larger than the number of any turn."""
MAX_TURNS = 50
MAX_ITEMS = 1_000
"""Maximum number of turns and events that one page shows."""


class Excerpt(Struct, frozen=True, kw_only=True):
    """The last turns of a conversation, or the turns before a given turn, oldest first. `problems`
    lists the errors found while reading.
    """

    id: str
    title: str
    labels: tuple[str, ...]
    turns: Sequence[TurnItems]
    problems: Sequence[str]

    @property
    def hidden(self) -> int:
        """Number of earlier turns."""
        return self.turns[0].number - 1 if self.turns else 0

    @property
    def is_open(self) -> bool:
        """Whether the last turn is open."""
        return bool(self.turns) and not self.turns[-1].status


def excerpt(store: ConversationStore, id: str, before: int | None = None) -> Excerpt:
    """Read the last turns of a conversation, or the turns before turn `before`. Only these turns
    are kept in memory.

    Raises:
        StoreError: There is no such conversation, or it cannot be read.
    """
    mark = store.run_sync(
        "excerpt", store.port.last_turns(id, MAX_TURNS, before or _AFTER_LAST_TURN)
    )
    read: list[Part] = []
    shown: deque[tuple[int, Window]] = deque(maxlen=MAX_TURNS)
    events = 0
    for number, window in enumerate(
        turns_in(_keep_last(parts_from(store, id, mark), read)), mark.turns + 1
    ):
        if number == before:
            break
        events += len(window.events) - (len(shown[0][1].events) if len(shown) == MAX_TURNS else 0)
        shown.append((number, window))
        while len(shown) > 1 and events - len(shown[0][1].events) >= MAX_ITEMS:
            events -= len(shown.popleft()[1].events)
    metadata = read[0].metadata
    return Excerpt(
        id=id,
        title=metadata.title or store.run_sync("excerpt", first_words(store.port, id)),
        labels=metadata.labels,
        turns=[_turn(number, window.events, is_open=window.open) for number, window in shown],
        problems=[
            *(problem for _, window in shown for problem in problems_of(window.events)),
            *read[0].problems,
        ],
    )


def _keep_last(parts: Iterable[Part], last: list[Part]) -> Iterator[Part]:
    """Yield the parts, and store the latest part in `last`."""
    for part in parts:
        last[:] = [part]
        yield part


def _turn(number: int, events: Sequence[Event], *, is_open: bool) -> TurnItems:
    entries = transcript_entries(events)
    end = next((entry.event for entry in reversed(entries) if isinstance(entry, EndEntry)), None)
    hidden = agreed(events)
    items = tuple(
        item for entry in entries if entry.event.event_id not in hidden for item in _items(entry)
    )
    return TurnItems(
        number=number,
        at=events[0].timestamp if events else "",
        status="" if is_open else end.status if end else "completed",
        error=(end.error or "") if end else "",
        items=items[-MAX_ITEMS:],
        left_out=max(0, len(items) - MAX_ITEMS),
    )


def _items(entry: Entry) -> Iterator[TimelineItem]:
    match entry:
        case WordsEntry():
            yield _words_item(entry)
        case CallEntry():
            yield _call_item(entry)
        case RequestEntry():
            yield _question_item(entry)
        case ApprovalEntry() if entry.waits or entry.put is None:
            yield _approval_item(entry)
        # other settings events only identify the asking agent
        case SettingsEntry(event=event) if event.delta is not None:
            yield NotedItem(
                id=event.event_id, at=event.timestamp, text="The request included settings."
            )
        case UnreadEntry(event=event):
            yield NotedItem(
                id=event.event_id,
                at=event.timestamp,
                text=event.problem or f"Unknown event of kind {event.kind!r}.",
            )
        case _:
            pass


def _words_item(entry: WordsEntry) -> SaidItem:
    event, who = entry.event, "Assistant"
    if entry.kind == "request":
        who = entry.author or "You"
    kind = "message" if entry.kind == "structured" else entry.kind
    text = str(entry.value) if entry.kind == "structured" else entry.text
    return SaidItem(id=event.event_id, at=event.timestamp, who=who, kind=kind, text=text)


def _call_item(entry: CallEntry) -> CalledItem:
    event, result = entry.event, entry.result
    return CalledItem(
        id=event.event_id,
        at=event.timestamp,
        name=event.name,
        arguments=event.arguments,
        result=None if result is None else result.content,
        is_error=result is not None and result.is_error,
    )


def _question_item(entry: RequestEntry) -> OutcomeItem:
    event = entry.event
    return OutcomeItem(
        id=event.event_id,
        at=event.timestamp,
        request=event,
        response=entry.response,
        waited=waited(event, entry.response),
        escalates=event.escalates is not None,
    )


def _approval_item(entry: ApprovalEntry) -> DecidedItem:
    event, decision = entry.event, entry.decision
    return DecidedItem(
        id=event.event_id,
        at=event.timestamp,
        text=asked_text(event, entry.call.event.name if entry.call else ""),
        kind=event.kind,
        decision=decision,
        waited=waited(event, decision) if decision is not event else None,
    )


def waited(request: Event, response: Event | None) -> float | None:
    """Return the seconds between two events. None if a time cannot be parsed."""
    if response is None:
        return None
    try:
        return max(0.0, (response.at - request.at).total_seconds())
    except (ValueError, OverflowError, TypeError):
        return None
