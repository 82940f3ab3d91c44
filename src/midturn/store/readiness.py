"""Whether a stored turn can go on: what `core.turn.readiness` says of its events, and what was handed over to a holder that is gone."""

from __future__ import annotations

from midturn.core.turn import readiness
from midturn.store.port import LastTurn


def is_ready(turn: LastTurn) -> bool:
    """Say whether a turn, which nobody holds, can go on without a person who is absent."""
    record = readiness.recorded_turn(turn.events)
    return record is not None and (bool(turn.handed) or readiness.is_ready(record))


def is_due(turn: LastTurn) -> bool:
    """Say whether an open turn, which nobody holds, does not wait for a person alone."""
    record = readiness.recorded_turn(turn.events)
    return record is not None and (bool(turn.handed) or readiness.is_due(record))
