"""What the row of a conversation says about its last turn."""

from __future__ import annotations

from collections.abc import Sequence

from midturn.core.events import (
    Approval,
    Event,
    InquiryAnswered,
    InquiryCancelled,
    InquiryRedacted,
    InquiryRequest,
    TurnEnd,
    TurnStart,
)
from midturn.core.stream import last_turn
from midturn.core.stream.children import parent_of
from midturn.core.stream.window import ends_turn, is_legacy, starts_turn
from midturn.core.turn.readiness import is_ready, recorded_turn
from midturn.store.batch import may_close
from midturn.store.open_requests import OpenRequests

_STIRRING = (TurnStart, TurnEnd, InquiryRequest, InquiryAnswered, InquiryCancelled, InquiryRedacted, Approval)
"""What whoever watches a store wants to hear of."""


class TurnRow:
    """Computed from all events of a conversation, and kept up to date batch by batch: only where a turn begins is one looked at whole."""

    def __init__(self, events: Sequence[Event] = ()) -> None:
        self.turn_at = 0
        """The position of the last turn's first event."""
        self._compute(events)

    def _compute(self, events: Sequence[Event]) -> None:
        window = last_turn(events)
        turn = window.events if window else ()
        self.turn_at += len(events) - len(turn) if window else 0
        self.unfinished = window is not None and window.open
        self._record = recorded_turn(turn)
        self.answered = self._record is not None and is_ready(self._record)
        """Whether the turn can go on without a person who is absent."""
        self._parent = parent_of(turn) if self.unfinished else None
        self._requests = OpenRequests(turn if self.unfinished else ())

    @property
    def waiting(self) -> list[str]:
        """The event ids of what waits for somebody."""
        return self._requests.event_ids

    def follow(self, events: Sequence[Event], batch: Sequence[Event]) -> None:
        """Take in a batch that follows `events`, which are all that came before."""
        if not self.unfinished or any(starts_turn(event) or is_legacy(event) for event in batch):
            self._compute([*events[self.turn_at :], *batch])
            return
        self.unfinished = not any(map(ends_turn, batch))
        if self._record is not None:
            for event in batch:
                self._record.apply(event)
            self.answered = is_ready(self._record)
        self._requests.follow(batch)
        if not self.unfinished:
            self._requests = OpenRequests()

    def given(self, head: int, batch: Sequence[Event]) -> dict[str, object]:
        """Return what the statement is told that writes `batch` behind `head` events, which this row has taken in."""
        return {
            "turn_at": self.turn_at if not head or any(map(starts_turn, batch)) else None,
            "unfinished": self.unfinished and self._parent is None,  # one inside a tool goes on with the turn around it
            "root": self._parent.root if self._parent else None,
            "asking": bool(self.waiting),
            "answered": self.answered,
            "may_close": may_close(batch),
            "waiting": self.waiting,
            "stirs": any(isinstance(event, _STIRRING) for event in batch),
        }
