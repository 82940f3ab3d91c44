"""Displays for runs: one that shows nothing, and one that also notifies observers."""

from __future__ import annotations

from midturn.journal import Journal
from midturn.ports import OBSERVERS, Display, Happening, RunObservation


class NullDisplay:
    """A display that shows nothing."""

    def show(self, happening: Happening) -> None:
        """Show nothing."""


class ObservedDisplay:
    """A display that also notifies observers, such as OpenTelemetry."""

    def __init__(self, display: Display) -> None:
        self._display = display
        self._observations: list[RunObservation] = []
        self.status = "open"
        """Status of the run when it ended."""

    def show(self, happening: Happening) -> None:
        """Show a happening (see `ports.Display`)."""
        for observation in self._observations:
            observation.show(happening)
        self._display.show(happening)

    def begin(self, journal: Journal) -> None:
        """Start to report the events of a run."""
        self._observations = [observer.run_began(journal) for observer in OBSERVERS]

    def end(self) -> None:
        """Report the end of the run."""
        for observation in self._observations:
            observation.end(self.status)
