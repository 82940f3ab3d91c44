"""Which answers that were handed over have nothing to say any more."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from midturn.core.events import (
    Approval,
    Event,
    InquiryAnswered,
    InquiryCancelled,
    InquiryRedacted,
    InquiryRequest,
    ToolCallResponse,
    TurnEnd,
)
from midturn.core.stream import open_turn
from midturn.store.decisions import decision_about

_CLOSING = (InquiryAnswered, InquiryCancelled, InquiryRedacted, Approval, ToolCallResponse, TurnEnd)


def may_close(batch: Iterable[Event]) -> bool:
    """Say whether a batch can close a question: only then is it worth while to look."""
    return any(isinstance(event, _CLOSING) for event in batch)


def is_closed(turn: Sequence[Event], event_id: str) -> bool:
    """Say whether the question `event_id` waits for nothing more, given the events of the last turn."""
    window = open_turn(turn)
    events = window.events if window else ()
    request = next((event for event in events if isinstance(event, InquiryRequest | Approval) and event.event_id == event_id), None)
    if request is None or decision_about(events, event_id):
        return True
    return bool(request.call) and any(isinstance(event, ToolCallResponse) and event.call == request.call for event in events)
