"""The last batch of a turn, which closes every open question and call, and the limits that lead to it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING

from msgspec import Struct

from midturn.record.events import AnsweredBy, CancelReason, Event, InquiryCancelled, InquiryRequest, ToolCallResponse, TurnEnd, TurnStatus
from midturn.record.provider_view import INTERRUPTED
from midturn.routing import messages
from midturn.turn.effects import Record
from midturn.turn.inputs import TurnSettings
from midturn.turn.record import CallRecord, TurnRecord
from midturn.turn.state import TurnState
from midturn.values.json_value import Json
from midturn.values.limits import Limits

if TYPE_CHECKING:
    from midturn.routing.messages import LimitName


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
    """Return the last batch of an open turn that no process runs."""
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
    return Ending(
        "ended_by_user",
        lambda call: messages.INPUT_CANCELLED if call.request.event_id in asked else messages.TURN_ENDED,
        "user",
        by=by,
    )


def failed(error: str, reason: CancelReason, metadata: dict[str, Json] | None = None) -> Ending:
    """Return the end of a turn for a reason other than an answer."""
    return Ending("failed", lambda _: INTERRUPTED, reason, metadata, error)


def out_of_time(seconds: float) -> Ending:
    """Return the end of a turn that has worked for as long as it may."""
    return failed(f"stopped after {seconds:g} seconds; raise limits.seconds to allow more", "limit_exceeded", {"limit": "seconds"})


# Limits: repeats, prompts shown, rejections in a row, cycles ----------------------------------------------------------


def is_repeated_too_often(emissions: int, limits: Limits) -> bool:
    """Whether a tool has asked the same thing, whole, more often in one call than it may."""
    return emissions > limits.repeats


def is_one_too_many(request: InquiryRequest, turn: TurnRecord, settings: TurnSettings) -> bool:
    """Whether a person has been shown enough in this turn; what they have seen before may be shown again."""
    shown = len(turn.shown)
    if settings.family:
        shown += sum(len(other.shown) for other in _others(turn, settings))
    if shown < settings.limits.shown:
        return False
    return (request.call, request.question_id, request.question.key) not in turn.shown


def allowed(limit: LimitName, limits: Limits) -> int:
    """Return how many a limit allows, to be told."""
    match limit:
        case "repeats":
            return limits.repeats
        case "shown":
            return limits.shown
        case "rejected_cycles":
            return limits.rejected_cycles


def why_the_model_is_not_asked(turn: TurnRecord, settings: TurnSettings) -> tuple[str, str] | None:
    """Return the limit that ends a turn in place of another answer of the model, and what the user is told of it."""
    limits = settings.limits
    if turn.stopped_by_breaker:
        return "rejected_cycles", f"stopped after {limits.rejected_cycles} rejections in a row: nobody was there to review them"
    if turn.cycles + sum(other.cycles for other in _others(turn, settings)) >= limits.cycles:
        return "cycles", f"stopped after {limits.cycles} model calls; raise limits.cycles to allow more"
    return None


def _others(turn: TurnRecord, settings: TurnSettings) -> list[TurnRecord]:
    """Return the turns that share the limits: those inside of tools, and those around them."""
    return [other for other in settings.family.values() if other is not turn]
