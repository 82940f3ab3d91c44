"""A conversation as one reads it: turn by turn, what was said, called, asked and answered."""

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
    told,
)
from midturn.events.types import AnsweredBy, Approval, Event, InquiryRequest, InquiryResponse
from midturn.events.window import Window
from midturn.question.json_value import Json
from midturn.stores.conversation import problems_of, turns_in
from midturn.stores.log_tail import Part
from midturn.stores.port import first_words
from midturn.stores.store import ConversationStore, parts_from


class SaidItem(Struct, frozen=True, kw_only=True):
    """Words: of the user, of the assistant, or what the model thought (`reasoning`)."""

    id: str
    at: str
    who: str
    kind: str
    text: str


class CalledItem(Struct, frozen=True, kw_only=True):
    """A call, and its result where it has one."""

    id: str
    at: str
    name: str
    arguments: Json
    result: str | None
    is_error: bool


class OutcomeItem(Struct, frozen=True, kw_only=True):
    """A question and what became of it; `waited` is in seconds, `escalates` says that a model had said no before."""

    id: str
    at: str
    request: InquiryRequest
    response: InquiryResponse | None
    waited: float | None
    escalates: bool

    @property
    def by(self) -> AnsweredBy | None:
        """The answerer."""
        return None if self.response is None or self.response.outcome == "cancelled" else self.response.answered_by


class DecidedItem(Struct, frozen=True, kw_only=True):
    """An approval: what was asked, and what was decided (None: it waits)."""

    id: str
    at: str
    text: str
    kind: str
    decision: Approval | None
    waited: float | None


class NotedItem(Struct, frozen=True, kw_only=True):
    """Something else that is on record."""

    id: str
    at: str
    text: str


TimelineItem: TypeAlias = SaidItem | CalledItem | OutcomeItem | DecidedItem | NotedItem


class TurnItems(Struct, frozen=True, kw_only=True):
    """One turn; `status` is empty while it is open, and `left_out` counts what came before these items."""

    number: int
    at: str
    status: str
    error: str
    items: tuple[TimelineItem, ...]
    left_out: int = 0


_BEHIND_ALL = 1 << 40
"""A number that no turn has: those before it are counted."""
_TURNS = 50
_ITEMS = 1_000
"""How much of a long conversation is shown at once: so many turns, and no more turns than hold so many events."""


class Excerpt(Struct, frozen=True, kw_only=True):
    """Turns of a conversation, the last ones or some before them, oldest first; `problems` are those of what was read."""

    id: str
    title: str
    labels: tuple[str, ...]
    turns: Sequence[TurnItems]
    problems: Sequence[str]

    @property
    def hidden(self) -> int:
        """How many turns are before those."""
        return self.turns[0].number - 1 if self.turns else 0

    @property
    def is_open(self) -> bool:
        """Whether the last one is open."""
        return bool(self.turns) and not self.turns[-1].status


def excerpt(store: ConversationStore, id: str, before: int | None = None) -> Excerpt:
    """Read the last turns of a conversation, or those before the turn of a number: no more is kept than what is shown.

    Raises:
        StoreError: There is none, or it cannot be read.
    """
    mark = store.run_sync("excerpt", store.port.last_turns(id, _TURNS, before or _BEHIND_ALL))
    read: list[Part] = []
    shown: deque[tuple[int, Window]] = deque(maxlen=_TURNS)
    events = 0
    for number, window in enumerate(turns_in(_noted(parts_from(store, id, mark), read)), mark.turns + 1):
        if number == before:
            break
        events += len(window.events) - (len(shown[0][1].events) if len(shown) == _TURNS else 0)
        shown.append((number, window))
        while len(shown) > 1 and events - len(shown[0][1].events) >= _ITEMS:
            events -= len(shown.popleft()[1].events)
    metadata = read[0].metadata
    return Excerpt(
        id=id,
        title=metadata.title or store.run_sync("excerpt", first_words(store.port, id)),
        labels=metadata.labels,
        turns=[_turn(number, window.events, is_open=window.open) for number, window in shown],
        problems=[*(problem for _, window in shown for problem in problems_of(window.events)), *read[0].problems],
    )


def _noted(parts: Iterable[Part], last: list[Part]) -> Iterator[Part]:
    """Pass parts on; the last one stays at hand."""
    for part in parts:
        last[:] = [part]
        yield part


def _turn(number: int, events: Sequence[Event], *, is_open: bool) -> TurnItems:
    entries = told(events)
    end = next((entry.event for entry in reversed(entries) if isinstance(entry, EndEntry)), None)
    hidden = agreed(events)
    items = tuple(item for entry in entries if entry.event.event_id not in hidden for item in _items(entry))
    return TurnItems(
        number=number,
        at=events[0].timestamp if events else "",
        status="" if is_open else end.status if end else "completed",
        error=(end.error or "") if end else "",
        items=items[-_ITEMS:],
        left_out=max(0, len(items) - _ITEMS),
    )


def _items(entry: Entry) -> Iterator[TimelineItem]:
    match entry:
        case WordsEntry():
            yield _said(entry)
        case CallEntry():
            yield _called(entry)
        case RequestEntry():
            yield _asked(entry)
        case ApprovalEntry() if entry.waits or entry.put is None:
            yield _approval(entry)
        case SettingsEntry(event=event) if event.delta is not None:  # else something else is known of who asks
            yield NotedItem(id=event.event_id, at=event.timestamp, text="Settings were given with the request.")
        case UnreadEntry(event=event):
            yield NotedItem(id=event.event_id, at=event.timestamp, text=event.problem or f"An event of the kind {event.kind!r}.")
        case _:
            pass


def _said(entry: WordsEntry) -> SaidItem:
    event, who = entry.event, "Assistant"
    if entry.kind == "request":
        who = entry.author or "You"
    kind = "message" if entry.kind == "structured" else entry.kind
    text = str(entry.value) if entry.kind == "structured" else entry.text
    return SaidItem(id=event.event_id, at=event.timestamp, who=who, kind=kind, text=text)


def _called(entry: CallEntry) -> CalledItem:
    event, result = entry.event, entry.result
    return CalledItem(
        id=event.event_id,
        at=event.timestamp,
        name=event.name,
        arguments=event.arguments,
        result=None if result is None else result.content,
        is_error=result is not None and result.is_error,
    )


def _asked(entry: RequestEntry) -> OutcomeItem:
    event = entry.event
    return OutcomeItem(
        id=event.event_id,
        at=event.timestamp,
        request=event,
        response=entry.response,
        waited=waited(event, entry.response),
        escalates=event.escalates is not None,
    )


def _approval(entry: ApprovalEntry) -> DecidedItem:
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
    """Return how many seconds lie between two events, where both times can be read."""
    if response is None:
        return None
    try:
        return max(0.0, (response.at - request.at).total_seconds())
    except (ValueError, OverflowError, TypeError):
        return None
