"""Readiness of an open turn to go on without an absent person: the one definition, for every store and every resume."""

from __future__ import annotations

from collections.abc import Sequence

from midturn.record.asker import asker_of
from midturn.record.events import Event
from midturn.record.window import open_turn
from midturn.turn.record import CallRecord, TurnRecord


def recorded_turn(events: Sequence[Event]) -> TurnRecord | None:
    """Return the last turn in `events`, where it is open and goes on here: a call of another agent goes on where it was made."""
    window = open_turn(events)
    if window is None or asker_of(window.events):
        return None
    record = TurnRecord()
    for event in window.events:
        record.apply(event)
    return record


def is_ready(turn: TurnRecord) -> bool:
    """Say whether a person has decided something that no run has taken in yet, and that lets the turn go on.

    That is so in a call which has put nothing to a person since: a form waits for its next question, one of several asks at once is
    enough. A decision that ended its call lets the turn go on where it was the last call that the model waits for.
    """
    if turn.ended is not None:
        return False
    if turn.waits_for_model:
        return turn.has_closed_by_itself
    return any(_goes_on(call, turn.suspended_at) for call in turn.open_calls())


def is_due(turn: TurnRecord) -> bool:
    """Say whether an open turn does not wait for a person alone: it is ready, or its process died, or its model was down."""
    calls = turn.open_calls()
    return turn.ended is None and (not calls or is_ready(turn) or any(map(_waits_for_no_one, calls)))


def _goes_on(call: CallRecord, suspended_at: int) -> bool:
    if call.decided_at <= suspended_at:
        return False
    asked = (*(chain.asked_at for chain in call.open_chains), *call.undecided_at.values())
    return all(at < call.decided_at for at in asked)


def _waits_for_no_one(call: CallRecord) -> bool:
    """Whether a process that died has left a call which was running, or which a model was asked about."""
    return not call.undecided_at and not call.open_children and all(chain.is_with_a_model for chain in call.open_chains)
