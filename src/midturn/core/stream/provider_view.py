"""What a provider sees of a conversation."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, Final, cast

import msgspec

from midturn.core.codec import Start
from midturn.core.events import (
    ChatRequest,
    ChatResponse,
    Event,
    OpaqueEvent,
    ToolCallRequest,
    ToolCallResponse,
    TurnEnd,
    TurnStart,
    VisibleEvent,
    visible,
)
from midturn.core.stream.cycle import Cycle
from midturn.core.stream.pairing import pair_calls
from midturn.core.stream.sanitize import interrupted
from midturn.core.stream.window import TurnByTurn, turns


def provider_view(events: Iterable[Event]) -> list[VisibleEvent]:
    """Return the visible events, so that every provider accepts them: each call has exactly one response, before anything else is said.

    A call without a response, in the open turn too, gets a synthetic one. A response that stands too late moves to its place; one that
    belongs to no call is left out.
    """
    if isinstance(events, TurnByTurn):
        return events.provider_view()
    events = events if isinstance(events, (list, Sequence)) else list(events)  # asking a class for `Sequence` is slow
    whole = whole_view(events)
    return [event for window in turns(events) for event in _turn_view(window.events)] if whole is None else whole


def whole_view(events: Iterable[Event | Start]) -> list[VisibleEvent] | None:
    """Return the visible events as they are, where each call has its response in its place; else None."""
    view: list[Any] = []
    waiting: dict[str, str] = {}
    answered = False
    event: Any
    for event in events:
        kind = event.__class__
        if kind is ToolCallRequest:
            if waiting and (answered or event.event_id in waiting):
                return None
            waiting[event.event_id] = event.id
            answered = False
        elif kind is ToolCallResponse:
            if waiting.pop(event.call, None) != event.id:
                return None
            answered = True
        elif kind is not ChatResponse and kind is not ChatRequest:
            if waiting and kind in _ENDING:
                return None
            continue
        elif waiting:
            return None
        view.append(event)
    return None if waiting else view


_ENDING: Final = (Start, TurnStart, TurnEnd, OpaqueEvent)
"""Behind these, or what they may stand for, no call of before gets its response."""


def _turn_view(events: Sequence[Event]) -> list[VisibleEvent]:
    whole = whole_view(events)
    return mended_view(events) if whole is None else whole


def mended_view(events: Sequence[Event]) -> list[VisibleEvent]:
    """Return the visible events of one turn, each call with its response behind it."""
    pairing = pair_calls(events)
    asked_by = {response: request for request, response in pairing.responses.items()}
    view: list[VisibleEvent] = []
    due: dict[int, ToolCallResponse] = {}
    cycle = Cycle()
    for place, event in enumerate(events):
        if cycle.ends_before(event):
            view += due.values()
            due = {}
        if isinstance(event, ToolCallResponse):
            if response := due.pop(asked_by.get(place, -1), None):
                view.append(response)
        elif visible(event):
            view.append(cast("VisibleEvent", event))
        if isinstance(event, ToolCallRequest):
            due[place] = _result(events, pairing.responses.get(place), event)
    return [*view, *due.values()]


def _result(events: Sequence[Event], place: int | None, call: ToolCallRequest) -> ToolCallResponse:
    """Return the response of a call, under the id by which the provider knows the call."""
    if place is None:
        return interrupted(call)
    response = cast("ToolCallResponse", events[place])
    return response if response.id == call.id else msgspec.structs.replace(response, id=call.id)
