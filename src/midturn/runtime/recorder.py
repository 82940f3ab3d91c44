"""From an event of the machine to a durable line: here it gets its moment."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec.structs import replace

from midturn.core.events import Event
from midturn.core.moments import stamp
from midturn.core.turn.effects import Effect, Record
from midturn.ports import Clock, Display, Journal, Recorded


class Recorder:
    """Appends batches to a journal, and shows what became durable."""

    def __init__(self, journal: Journal, clock: Clock, display: Display) -> None:
        self._journal = journal
        self._clock = clock
        self._display = display

    async def append(self, batch: Sequence[Event]) -> None:
        """Write a batch at once; when this returns, it is durable.

        Raises:
            StoreError: The disk refused; nothing of the batch is recorded.
        """
        now = stamp(self._clock)
        stamped = [replace(event, timestamp=now) for event in batch]
        await self._journal.append(stamped)
        for event in stamped:
            self._display.show(Recorded(event))


async def record_effects(effects: Sequence[Effect], journal: Journal, clock: Clock, display: Display) -> None:
    """Make what a step records durable, and do nothing else of it."""
    await Recorder(journal, clock, display).append([effect.event for effect in effects if isinstance(effect, Record)])
