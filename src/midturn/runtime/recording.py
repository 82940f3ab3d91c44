"""Writes events: adds their timestamps, makes them durable, and shows them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from msgspec.structs import replace

from midturn.clock import stamp, trusted
from midturn.events.types import Event
from midturn.journal import Journal
from midturn.ports import Clock, Display, Recorded
from midturn.turn import inputs as steps
from midturn.turn.view import TurnView, expired_requests


async def record(batch: Sequence[Event], journal: Journal, clock: Clock, display: Display) -> None:
    """Write a batch. It is durable when this function returns.

    Raises:
        StoreError: The store could not record the batch. None of its events is recorded.
    """
    now = stamp(clock)
    stamped = [replace(event, timestamp=now) for event in batch]
    before = len(journal.events)
    await journal.append(stamped)
    for position, event in enumerate(stamped, before + 1):
        display.show(Recorded(event, position))


async def record_effects(
    effects: Sequence[steps.Effect], journal: Journal, clock: Clock, display: Display
) -> None:
    """Write the events of a step, without performing its other effects."""
    await record(
        [effect.event for effect in effects if isinstance(effect, steps.Record)],
        journal,
        clock,
        display,
    )


async def record_expired(
    journal: Journal, clock: Clock, display: Display, ids: Iterator[str]
) -> None:
    """Record passed deadlines as expired, before an open turn continues."""
    turn = TurnView.last(journal.events)
    now = trusted(clock).now(journal.events) if turn.deadlines else None
    if now is not None and (batch := expired_requests(turn, now, ids)):
        await record(batch, journal, clock, display)


def read_time(journal: Journal, clock: Clock) -> steps.TimePassed | steps.TimeRead:
    """Return the current time as an input. It expires deadlines only if the clock is trusted."""
    now = trusted(clock).now(journal.events)
    return steps.TimePassed(now) if now is not None else steps.TimeRead(stamp(clock))
