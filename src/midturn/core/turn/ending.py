"""The last batch of a turn: every open question and every open call closes with it."""

from __future__ import annotations

from collections.abc import Callable

from midturn.core.events import InquiryCancelled, ToolCallResponse, TurnEnd
from midturn.core.routing import messages
from midturn.core.turn.record import CallRecord
from midturn.core.turn.state import TurnState


def ended_by_user(asked: set[str]) -> Callable[[CallRecord], str]:
    """Return what the model reads of each call that a person ended: the one who was `asked` in it, or somewhere else."""
    return lambda call: messages.INPUT_CANCELLED if call.request.event_id in asked else messages.TURN_ENDED


def write_ending(state: TurnState, content: Callable[[CallRecord], str], end: TurnEnd) -> None:
    """Write the last batch; `content` is what the model reads of a call."""
    for attempt in list(state.record.inquiries.values()):
        if attempt.response is None:
            state.write(InquiryCancelled(id=attempt.request.id, reason="user"))
    for call in state.record.open_calls():
        request = call.request
        state.write(ToolCallResponse(id=request.id, content=content(call), is_error=True, call=request.event_id))
    state.write(end)
