"""A run of a turn, for whoever observes this process."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager

from midturn.ports import OBSERVERS, Display, Happening, Journal, RunObservation


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

    @contextmanager
    def run(self, journal: Journal) -> Generator[None]:
        """Have a run observed, to its end."""
        self._seen_by = [observer.run_began(journal) for observer in OBSERVERS]
        try:
            yield
        finally:
            for observation in self._seen_by:
                observation.end(self.status)
