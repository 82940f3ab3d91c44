"""The last batch of a turn: every open question and every open call closes with it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from msgspec import Struct

from midturn.core.events import AnsweredBy, CancelReason, Event, InquiryCancelled, ToolCallResponse, TurnEnd, TurnStatus
from midturn.core.json_value import Json
from midturn.core.stream import INTERRUPTED
from midturn.core.turn.effects import Record
from midturn.core.turn.record import CallRecord
from midturn.core.turn.settings import TurnSettings
from midturn.core.turn.state import TurnState


class Ending(Struct, frozen=True):
    """How a turn ends: what the model reads of each call that is open, and why open questions close."""

    status: TurnStatus
    content: Callable[[CallRecord], str]
    reason: CancelReason
    metadata: dict[str, Json] | None = None
    error: str | None = None
    by: AnsweredBy | None = None


def write_ending(state: TurnState, ending: Ending) -> None:
    """Write the last batch."""
    for attempt in list(state.record.inquiries.values()):
        if attempt.response is None:
            state.write(InquiryCancelled(id=attempt.request.id, reason=ending.reason, metadata=ending.metadata))
    for call in state.record.open_calls():
        request = call.request
        state.write(ToolCallResponse(id=request.id, content=ending.content(call), is_error=True, call=request.event_id))
    state.write(TurnEnd(status=ending.status, error=ending.error, ended_by=ending.by))


def ending_batch(turn: Sequence[Event], ending: Ending, ids: Iterator[str]) -> tuple[Event, ...]:
    """Return the last batch of an open turn that nobody runs."""
    state = TurnState(TurnSettings(tools={}), ids)
    for event in turn:
        state.record.apply(event)
    write_ending(state, ending)
    return tuple(effect.event for effect in state.drain() if isinstance(effect, Record))


def as_it_ended(status: str, error: str | None) -> Ending:
    """Return the end of a turn inside a tool: it ends as the one around it."""
    return ended_by_user(set()) if status == "ended_by_user" else failed(error or "the turn around it is over", "superseded")


def left_by_its_call() -> Ending:
    """Return the end of a turn inside a tool that went on without it."""
    return failed("the tool that began it went on without it", "superseded")


def ended_by_user(asked: set[str], by: AnsweredBy | None = None) -> Ending:
    """Return the end of a turn that a person wants, who was `asked` in these calls; `by` says who, where it was at a question."""
    from midturn.core.routing import messages  # most turns come to their own end

    return Ending(
        "ended_by_user",
        lambda call: messages.INPUT_CANCELLED if call.request.event_id in asked else messages.TURN_ENDED,
        "user",
        by=by,
    )


def failed(error: str, reason: CancelReason, metadata: dict[str, Json] | None = None) -> Ending:
    """Return the end of a turn for a reason that is nobody's answer."""
    return Ending("failed", lambda _: INTERRUPTED, reason, metadata, error)


def out_of_time(seconds: float) -> Ending:
    """Return the end of a turn that has worked for as long as it may."""
    return failed(f"stopped after {seconds:g} seconds; raise limits.seconds to allow more", "limit_exceeded", {"limit": "seconds"})
