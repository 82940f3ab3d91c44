"""What a provider sees of a conversation."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import cast

import msgspec

from midturn.core.events import Event, ToolCallRequest, ToolCallResponse, VisibleEvent, visible
from midturn.core.stream.cycle import Cycle
from midturn.core.stream.pairing import pair_calls
from midturn.core.stream.sanitize import interrupted
from midturn.core.stream.window import turns


def provider_view(events: Iterable[Event]) -> list[VisibleEvent]:
    """Return the visible events, so that every provider accepts them: each call has exactly one response, before anything else is said.

    A call without a response, in the open turn too, gets a synthetic one. A response that stands too late moves to its place; one that
    belongs to no call is left out.
    """
    return [event for window in turns(events) for event in _turn_view(window.events)]


def _turn_view(events: Sequence[Event]) -> list[VisibleEvent]:
    if not any(isinstance(event, ToolCallRequest | ToolCallResponse) for event in events):
        return [cast("VisibleEvent", event) for event in events if visible(event)]
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
