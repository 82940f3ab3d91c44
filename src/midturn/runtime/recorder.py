"""From an event of the machine to a durable line, where it gets its moment; and on to displays, and to whoever observes this process."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec.structs import replace

from midturn.core.events import Event
from midturn.core.moments import stamp
from midturn.core.turn.effects import Effect, Record
from midturn.journal import Journal
from midturn.ports import OBSERVERS, Clock, Display, Happening, Recorded, RunObservation


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


class Observed:
    """A display that lets observers see what it shows."""

    def __init__(self, display: Display) -> None:
        self._display = display
        self._seen_by: list[RunObservation] = []
        self.status = "open"
        """What the run has come to."""

    def show(self, happening: Happening) -> None:
        """Take note of what happened (see `ports.Display`)."""
        for observation in self._seen_by:
            observation.show(happening)
        self._display.show(happening)

    def begin(self, journal: Journal) -> None:
        """Have a run observed, until `end`."""
        self._seen_by = [observer.run_began(journal) for observer in OBSERVERS]

    def end(self) -> None:
        """Say what the run has come to."""
        for observation in self._seen_by:
            observation.end(self.status)
