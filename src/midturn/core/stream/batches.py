"""Batches: events that were written together count together."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import takewhile

from midturn.core.events import Event


def torn_tail(events: Sequence[Event]) -> int:
    """Count the events at the end that belong to a batch whose rest never reached the disk."""
    return sum(1 for _ in takewhile(lambda event: event.more > 0, reversed(events)))


def complete_batches(events: Sequence[Event]) -> Sequence[Event]:
    """Leave out a tail that ends inside a batch, back to the start of the batch."""
    return events[: len(events) - torn_tail(events)]
