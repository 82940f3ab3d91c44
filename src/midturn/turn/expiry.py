"""The end of deadlines on record: which questions of an open turn are over, and the events that say so."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from midturn.errors import AlreadyAnswered, NotOpen
from midturn.record.asker import Address
from midturn.record.events import Approval, Event, InquiryCancelled, InquiryRequest
from midturn.record.window import open_turn
from midturn.turn.closed import past_deadline, why_closed
from midturn.turn.readiness import recorded_turn
from midturn.turn.record import CallRecord


def deadlines(events: Sequence[Event]) -> dict[str, str]:
    """Return the deadline of each question, permission and review of the open turn that waits and has one, by its `event_id`."""
    window = open_turn(events)
    if window is None or not any(isinstance(event, InquiryRequest | Approval) and event.deadline for event in window.events):
        return {}
    turn = recorded_turn(window.events)
    if turn is None:
        return {}
    return {event_id: deadline for call in turn.open_calls() for event_id, deadline in waiting_until(call)}


def expired_batch(events: Sequence[Event], now: str, ids: Iterator[str]) -> tuple[Event, ...]:
    """Return the events that close what no one has answered in time; its call goes on when the turn does."""
    over = {event_id for event_id, deadline in deadlines(events).items() if deadline <= now}
    closing: list[Event] = []
    for event in events if over else ():
        if event.event_id in over and isinstance(event, InquiryRequest):
            closing.append(InquiryCancelled(event_id=next(ids), id=event.id, reason="deadline"))
        elif event.event_id in over and isinstance(event, Approval):
            closing.append(_expired(event, next(ids)))
    return tuple(closing)


def _expired(waiting: Approval, event_id: str) -> Approval:
    return Approval(
        event_id=event_id,
        id=waiting.id,
        call=waiting.call,
        kind=waiting.kind,
        state="expired",
        form=waiting.form,
        rule=waiting.rule,
    )


def why_closed_by(events: Sequence[Event], at: Address, now: str) -> AlreadyAnswered | NotOpen:
    """Return the error for an answer that comes too late; a deadline that has passed counts, whether or not that is on record."""
    deadline = deadlines(events).get(at.event_id)
    return past_deadline(at, deadline) if deadline and deadline <= now else why_closed(events, at)


def waiting_until(call: CallRecord) -> Iterator[tuple[str, str]]:
    """Yield what waits until a deadline, by its `event_id`: the permission, questions, and the review of a form of such questions."""
    if (permission := call.waiting("run")) and permission.deadline:
        yield permission.event_id, permission.deadline
    for chain in call.open_chains:
        if chain.last.request.deadline:
            yield chain.last.request.event_id, chain.last.request.deadline
    for approval, place in call.reviews:
        about = [chain.asked for chain in call.chains if chain.asked.id == approval.form] or [chain.asked for chain in call.chains[:place]][
            -1:
        ]
        if call.undecided(approval.id) is approval and about and about[0].deadline:
            yield approval.event_id, about[0].deadline
