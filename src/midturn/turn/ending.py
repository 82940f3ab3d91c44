"""Ends a turn. The closing batch contains events that close every open question and call."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from msgspec import Struct
from msgspec.structs import replace

from midturn.events.types import (
    INTERRUPTED,
    AnsweredBy,
    CancelReason,
    Event,
    InquiryCancelled,
    ToolCallResponse,
    TurnEnd,
    TurnStatus,
)
from midturn.question.json_value import Json
from midturn.routing import messages
from midturn.turn.call_record import CallRecord
from midturn.turn.record import TurnRecord


class TurnEnding(Struct, frozen=True):
    """The end of a turn: its status, and the events that close its calls and questions.

    Args:
        status: The status of the turn.
        content: Returns the response text for an open call.
        reason: Reason recorded for closing the open questions.
        metadata: Metadata of the responses to these questions.
        error: Error message, if the turn failed.
        by: The person who ended the turn, or None.
    """

    status: TurnStatus
    content: Callable[[CallRecord], str]
    reason: CancelReason
    metadata: dict[str, Json] | None = None
    error: str | None = None
    by: AnsweredBy | None = None

    def events(self, turn: TurnRecord) -> Iterator[Event]:
        """Yield the closing batch, without ids. The caller must apply each event to `turn` before
        it requests the next one.
        """
        for request in turn.open_requests:
            yield InquiryCancelled(id=request.id, reason=self.reason, metadata=self.metadata)
        for call in turn.open_calls():
            request = call.request
            yield ToolCallResponse(
                id=request.id, content=self.content(call), is_error=True, call=request.event_id
            )
        yield TurnEnd(status=self.status, error=self.error, ended_by=self.by)


class TurnLeft(Struct, frozen=True):
    """A person wants to end a turn, but other people must decide one of its questions. The turn
    stays open for them. `why` is a message that names them.
    """

    why: str


def ending_batch(
    turn: Sequence[Event], ending: TurnEnding, ids: Iterator[str]
) -> tuple[Event, ...]:
    """Return the closing batch for an open turn that no process is running."""
    record = TurnRecord()
    for event in turn:
        record.apply(event)
    batch: list[Event] = []
    for event in ending.events(record):
        batch.append(replace(event, event_id=next(ids)))
        record.apply(batch[-1])
    return tuple(batch)


def as_it_ended(status: str, error: str | None) -> TurnEnding:
    """Return the ending of a nested turn, with the same status as its outer turn."""
    return (
        ended_by_user(set())
        if status == "ended_by_user"
        else failed(error or "the outer turn is over", "superseded")
    )


def left_by_its_call() -> TurnEnding:
    """Return the ending of a nested turn that its tool no longer waits for."""
    return failed("the tool that started this turn continued without it", "superseded")


def ended_by_user(asked: set[str], by: AnsweredBy | None = None) -> TurnEnding:
    """Return the ending of a turn that a person ends.

    Args:
        asked: The calls that had an open question, by `event_id`.
        by: The person, if the person ended the turn instead of answering a question.
    """
    return TurnEnding(
        "ended_by_user",
        lambda call: (
            messages.INPUT_CANCELLED if call.request.event_id in asked else messages.TURN_ENDED
        ),
        "user",
        by=by,
    )


def failed(error: str, reason: CancelReason, metadata: dict[str, Json] | None = None) -> TurnEnding:
    """Return the ending of a failed turn."""
    return TurnEnding("failed", lambda _: INTERRUPTED, reason, metadata, error)


def out_of_time(seconds: float) -> TurnEnding:
    """Return the ending of a turn that reached its time limit."""
    return failed(
        f"stopped after {seconds:g} seconds; raise limits.seconds to allow more",
        "limit_exceeded",
        {"limit": "seconds"},
    )
