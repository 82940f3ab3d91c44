"""The end of a turn: its last batch, which closes every open question and call."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from msgspec import Struct
from msgspec.structs import replace

from midturn.events.types import INTERRUPTED, AnsweredBy, CancelReason, Event, InquiryCancelled, ToolCallResponse, TurnEnd, TurnStatus
from midturn.question.json_value import Json
from midturn.routing import messages
from midturn.turn.record import CallRecord, TurnRecord


class Ending(Struct, frozen=True):
    """How a turn ends: what the model reads of each call that is open, and why open questions close."""

    status: TurnStatus
    content: Callable[[CallRecord], str]
    reason: CancelReason
    metadata: dict[str, Json] | None = None
    error: str | None = None
    by: AnsweredBy | None = None

    def events(self, turn: TurnRecord) -> Iterator[Event]:
        """Yield the last batch, without ids; each event is to be taken into `turn` before the next is asked for."""
        for attempt in list(turn.inquiries.values()):
            if attempt.response is None:
                yield InquiryCancelled(id=attempt.request.id, reason=self.reason, metadata=self.metadata)
        for call in turn.open_calls():
            request = call.request
            yield ToolCallResponse(id=request.id, content=self.content(call), is_error=True, call=request.event_id)
        yield TurnEnd(status=self.status, error=self.error, ended_by=self.by)


class TurnLeft(Struct, frozen=True):
    """A person leaves a turn that is not theirs alone to end: it stays open, and waits for the others. `why` says for whom."""

    why: str


def ending_batch(turn: Sequence[Event], ending: Ending, ids: Iterator[str]) -> tuple[Event, ...]:
    """Return the last batch of an open turn that no process runs."""
    record = TurnRecord()
    for event in turn:
        record.apply(event)
    batch: list[Event] = []
    for event in ending.events(record):
        batch.append(replace(event, event_id=next(ids)))
        record.apply(batch[-1])
    return tuple(batch)


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
