"""Dropping the oldest events where a model's context is smaller than the conversation."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate
from typing import Final

import msgspec

from midturn.core.events import ChatRequest, Event, ToolCallRequest, ToolCallResponse, encode_custom

LEFT_OUT: Final = ChatRequest(content="(Earlier messages of this conversation are left out.)")
_STEPS: Final = 4  # what is dropped is a whole number of quarters of the room, so that the prefix stays while the turn grows


def size(events: Sequence[Event]) -> int:
    """Return about how many bytes a provider is sent for `events`."""
    return sum(map(_size, events))


def trimmed(events: Sequence[Event], room: int) -> Sequence[Event]:
    """Return the newest events that fit into `room` bytes, headed by a note and by what the user asked last.

    It cuts only between a user's words or results and what follows them, so that no call loses its result and no response its reasoning.
    What stands after the last such place is kept even if it is too long.
    """
    excess = size(events) - room
    if excess <= 0:
        return events
    step = max(room // _STEPS, 1)
    drop = -(-excess // step) * step
    dropped = [*accumulate(map(_size, events), initial=0)]
    cuts = _cuts(events)
    place = next((place for place in cuts if dropped[place] >= drop), cuts[-1] if cuts else 0)
    if place == 0:
        return events
    asked = None if _last_request(events[place:]) else _last_request(events[:place])
    return [LEFT_OUT, *([asked] if asked else []), *events[place:]]


def _cuts(events: Sequence[Event]) -> list[int]:
    """Return the places before which everything may be dropped."""
    cuts: list[int] = []
    open_calls = 0
    for place, event in enumerate(events):
        after_results = place > 0 and isinstance(events[place - 1], ToolCallResponse) and not isinstance(event, ToolCallResponse)
        if open_calls == 0 and (after_results or isinstance(event, ChatRequest)):
            cuts.append(place)
        open_calls += isinstance(event, ToolCallRequest) - isinstance(event, ToolCallResponse)
    return cuts


def _last_request(events: Sequence[Event]) -> ChatRequest | None:
    return next((event for event in reversed(events) if isinstance(event, ChatRequest)), None)


def _size(event: Event) -> int:
    return len(msgspec.json.encode(event, enc_hook=encode_custom))
