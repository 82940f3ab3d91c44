"""What the row of a conversation says about its last turn, computed from its events."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import Struct

from midturn.core.events import Event
from midturn.core.stream import last_turn
from midturn.core.stream.window import starts_turn
from midturn.core.turn.pending import pending
from midturn.store.port import LastTurn
from midturn.store.readiness import was_answered


class TurnState(Struct, frozen=True):
    """`turn_at` is the position of the last turn's first event; `asking` the event ids of its open questions."""

    turn_at: int = 0
    unfinished: bool = False
    asking: frozenset[str] = frozenset()
    answered: bool = False

    @classmethod
    def of(cls, events: Sequence[Event]) -> TurnState:
        """Compute it from all events of a conversation."""
        window = last_turn(events)
        if window is None:
            return cls()
        asking = frozenset(question.request.event_id for question in pending(window.events, "")) if window.open else frozenset[str]()
        return cls(len(events) - len(window.events), window.open, asking, window.open and was_answered(LastTurn(window.events)))

    def after(self, events: Sequence[Event], batch: Sequence[Event]) -> TurnState:
        """Compute it for the events and a batch that follows them: only the last turn is looked at."""
        found = TurnState.of([*events[self.turn_at :], *batch])
        return TurnState(self.turn_at + found.turn_at, found.unfinished, found.asking, found.answered)


def batch_state(before: TurnState, after: TurnState, head: int, batch: Sequence[Event]) -> dict[str, object]:
    """Return what the statement that writes a batch is told about the turn, and which questions it closes."""
    begins = any(map(starts_turn, batch)) or not head
    return {
        "turn_at": after.turn_at if begins else None,
        "unfinished": after.unfinished,
        "asking": bool(after.asking),
        "answered": after.answered,
        "closed": sorted(before.asking - after.asking),
    }
