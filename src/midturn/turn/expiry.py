"""The end of deadlines on record: which questions of an open turn are over, and the events that say so."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from msgspec.structs import replace

from midturn.errors import AlreadyAnswered, NotOpen
from midturn.record.asker import Address, asker_of
from midturn.record.events import Approval, Event, InquiryCancelled, InquiryRequest, ToolCallRequest, ToolCallResponse, TurnEnd
from midturn.record.window import open_turn, pairs
from midturn.turn.closed import past_deadline, why_closed
from midturn.turn.readiness import recorded_turn
from midturn.turn.record import CallRecord


def deadlines(events: Sequence[Event]) -> dict[str, str]:
    """Return the deadline of each question, permission and review of the open turn that waits and has one, by its `event_id`.

    What another agent asks is over when its own dialog asks in place of us.
    """
    window = open_turn(events)
    asker = asker_of(window.events) if window else None
    if window and asker:
        return dict.fromkeys(_waiting(window.events), asker.ends) if asker.ends else {}
    if window is None or not any(isinstance(event, InquiryRequest | Approval) and event.deadline for event in window.events):
        return {}
    turn = recorded_turn(window.events)
    if turn is None:
        return {}
    return {event_id: deadline for call in turn.open_calls() for event_id, deadline in waiting_until(call)}


def expired_batch(events: Sequence[Event], now: str, ids: Iterator[str]) -> tuple[Event, ...]:
    """Return the events that close what no one has answered in time; its call goes on when the turn does.

    What another agent asks is over where its own dialog asks in place of us.
    """
    over = {event_id for event_id, deadline in deadlines(events).items() if deadline <= now}
    window = open_turn(events) if over else None
    if window and (asker := asker_of(window.events)):
        return close(window.events, asker.in_own_dialog, ids)
    closing: list[Event] = []
    for event in events if over else ():
        if event.event_id in over and isinstance(event, InquiryRequest):
            closing.append(InquiryCancelled(event_id=next(ids), id=event.id, reason="deadline"))
        elif event.event_id in over and isinstance(event, Approval):
            closing.append(_expired(event, next(ids)))
    return tuple(closing)


def waits(turn: Sequence[Event]) -> bool:
    """Say whether a person has still to answer something that another agent asks."""
    return bool(_waiting(turn))


def _waiting(turn: Sequence[Event]) -> list[str]:
    if any(isinstance(event, TurnEnd) for event in turn):
        return []
    permissions = [event.event_id for event in _permissions(turn)[-1:] if event.state == "waiting"]
    return [*permissions, *(request.event_id for request, response in pairs(turn) if response is None)]


def close(turn: Sequence[Event], content: str, ids: Iterator[str]) -> tuple[Event, ...]:
    """Return the events that end the call of another agent: what still waits is superseded, and `content` is what the agent reads."""
    call = next((event for event in turn if isinstance(event, ToolCallRequest)), None)
    if call is None or any(isinstance(event, TurnEnd) for event in turn):
        return ()
    events: list[Event] = [InquiryCancelled(id=request.id, reason="superseded") for request, response in pairs(turn) if response is None]
    permissions = _permissions(turn)
    if permissions and permissions[-1].state == "waiting":
        events.append(Approval(id=permissions[-1].id, call=call.event_id, kind="run", state="superseded"))
    if not any(isinstance(event, ToolCallResponse) for event in turn):
        events.append(ToolCallResponse(id=call.id, call=call.event_id, content=content))
    events.append(TurnEnd(status="completed"))
    return tuple(replace(event, event_id=next(ids)) for event in events)


def _permissions(turn: Sequence[Event]) -> list[Approval]:
    return [event for event in turn if isinstance(event, Approval) and event.kind == "run"]


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
    return past_deadline(at, deadline) if deadline and deadline <= now and not asker_of(events) else why_closed(events, at)


def waiting_until(call: CallRecord) -> Iterator[tuple[str, str]]:
    """Yield what waits until a deadline, by its `event_id`: questions, the permission, and the review of a form of such questions."""
    for chain in call.open_chains:
        if chain.last.request.deadline:
            yield chain.last.request.event_id, chain.last.request.deadline
    for waiting in call.undecided_at:
        approval = call.undecided(waiting)
        if approval and approval.deadline:
            yield approval.event_id, approval.deadline
