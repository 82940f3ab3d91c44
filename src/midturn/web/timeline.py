"""A conversation as one reads it: turn by turn, what was said, called, asked and answered."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TypeAlias

from msgspec import UNSET, Struct

from midturn.record.events import (
    AnsweredBy,
    Approval,
    ChatRequest,
    ChatResponse,
    ConfigDelta,
    Event,
    InquiryCancelled,
    InquiryRequest,
    InquiryResponse,
    OpaqueEvent,
    ToolCallRequest,
    ToolCallResponse,
    TurnEnd,
)
from midturn.record.prompt import asked_text
from midturn.record.window import Window, agreed_before
from midturn.turn.view import calls, pairs
from midturn.values.json_value import Json


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


class AnsweredItem(Struct, frozen=True, kw_only=True):
    """A question and what became of it; `waited` is in seconds, `escalates` says that a model had said no before."""

    id: str
    at: str
    request: InquiryRequest
    response: InquiryResponse | None
    waited: float | None
    escalates: bool

    @property
    def by(self) -> AnsweredBy | None:
        """Who answered."""
        return None if self.response is None or isinstance(self.response, InquiryCancelled) else self.response.answered_by


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


TimelineItem: TypeAlias = SaidItem | CalledItem | AnsweredItem | DecidedItem | NotedItem


class TurnItems(Struct, frozen=True, kw_only=True):
    """One turn; `status` is empty while it is open."""

    number: int
    at: str
    status: str
    error: str
    items: tuple[TimelineItem, ...]


def timeline(windows: Sequence[Window]) -> list[TurnItems]:
    """Return the turns of a conversation, oldest first."""
    return [_turn(number, window.events, is_open=window.open) for number, window in enumerate(windows, 1)]


def _turn(number: int, events: Sequence[Event], *, is_open: bool) -> TurnItems:
    end = next((event for event in reversed(events) if isinstance(event, TurnEnd)), None)
    return TurnItems(
        number=number,
        at=events[0].timestamp if events else "",
        status="" if is_open else end.status if end else "completed",
        error=(end.error or "") if end else "",
        items=tuple(_items(events)),
    )


def _items(events: Sequence[Event]) -> Iterator[TimelineItem]:
    results = {call.event_id: response for call, response in calls(events)}
    agreed = agreed_before(events)
    names = {call.event_id: call.name for call, _ in calls(events)}
    responses = {request.event_id: response for request, response in pairs(events)}
    decisions = {event.id: event for event in events if isinstance(event, Approval) and event.state != "waiting"}
    waiting = {event.id for event in events if isinstance(event, Approval) and event.state == "waiting"}
    for event in events:
        match event:
            case ChatRequest() | ChatResponse():
                yield _said(event)
            case ToolCallRequest():
                yield _called(event, results.get(event.event_id))
            case InquiryRequest() if event.event_id not in agreed:
                yield _asked(event, responses.get(event.event_id))
            case Approval() if event.state == "waiting" or event.id not in waiting:
                yield _approval(event, decisions.get(event.id), names)
            case ConfigDelta(delta=None):  # something else is known of who asks
                pass
            case ConfigDelta():
                yield NotedItem(id=event.event_id, at=event.timestamp, text="Settings were given with the request.")
            case OpaqueEvent():
                yield NotedItem(id=event.event_id, at=event.timestamp, text=event.problem or f"An event of the kind {event.kind!r}.")
            case _:
                pass


def _said(event: ChatRequest | ChatResponse) -> SaidItem:
    if isinstance(event, ChatRequest):
        return SaidItem(id=event.event_id, at=event.timestamp, who=event.author or "The user", kind="request", text=event.content)
    if event.reasoning is not None:
        return SaidItem(id=event.event_id, at=event.timestamp, who="The assistant", kind="reasoning", text=event.reasoning)
    structured = "" if event.structured is UNSET else str(event.to_json().get("structured"))
    return SaidItem(id=event.event_id, at=event.timestamp, who="The assistant", kind="message", text=event.message or structured)


def _called(event: ToolCallRequest, response: ToolCallResponse | None) -> CalledItem:
    return CalledItem(
        id=event.event_id,
        at=event.timestamp,
        name=event.name,
        arguments=event.arguments,
        result=None if response is None else response.content,
        is_error=response is not None and response.is_error,
    )


def _asked(event: InquiryRequest, response: InquiryResponse | None) -> AnsweredItem:
    return AnsweredItem(
        id=event.event_id,
        at=event.timestamp,
        request=event,
        response=response,
        waited=waited(event, response),
        escalates=event.escalates is not None,
    )


def _approval(event: Approval, decision: Approval | None, names: Mapping[str, str]) -> DecidedItem:
    return DecidedItem(
        id=event.event_id,
        at=event.timestamp,
        text=asked_text(event, names.get(event.call, "")),
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
