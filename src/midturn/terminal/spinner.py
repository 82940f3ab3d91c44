"""A row that says what goes on and for how long; it goes away with whatever comes next, and leaves no trace."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from itertools import cycle

from msgspec import Struct

from midturn.prompts.cells import clip
from midturn.terminal.gate import Gate
from midturn.terminal.outlet import Outlet

FRAMES = "⠋⠙⠹⠸⠼⠴⠦⠧⠇⠏"
_ASCII = "|/-\\"
_QUIET = 0.4  # seconds without news before the row appears: what is quicker needs none
_LONGEST = 60
_MINUTE = 60


class _Activity(Struct, frozen=True):
    doing: str
    since: float


class Spinner:
    """Draws through the gate, so that a prompt or a line of output takes its place. `paint` is called at every heartbeat."""

    def __init__(self, gate: Gate, outlet: Outlet, clock: Callable[[], float] = time.monotonic) -> None:
        self._gate = gate
        self._outlet = outlet
        self._clock = clock
        self._frames = cycle(FRAMES if outlet.unicode else _ASCII)
        self._activities: dict[str, _Activity] = {}
        self._resumes = 0.0
        self._news = 0.0

    @property
    def is_busy(self) -> bool:
        """Whether anything goes on, or is waited for."""
        return bool(self._activities) or self._clock() < self._resumes

    def begin(self, id: str, doing: str) -> None:
        """Begin to count; `doing` is fit to be shown."""
        self._activities[id] = _Activity(doing, self._clock())

    def finish(self, id: str) -> None:
        """Stop counting; nothing is left of the row when this was the last."""
        self._activities.pop(id, None)
        self._resumes = 0.0
        if not self._activities:
            self._gate.clear_status()

    def wait(self, seconds: float) -> None:
        """Count down before an attempt."""
        self._resumes = self._clock() + seconds

    def heard(self) -> None:
        """Note that something was shown: the row is not needed for a while."""
        self._news, self._resumes = self._clock(), 0.0

    def clear(self) -> None:
        """Forget everything, and take the row away."""
        self._activities.clear()
        self._resumes = 0.0
        self._gate.clear_status()

    def paint(self) -> None:
        """Draw the row as it is now."""
        now = self._clock()
        if not self._outlet.in_foreground:
            return
        if now < self._resumes:
            self._draw(f"trying again in {_span(self._resumes - now + 1)}")
        elif self._activities:
            since = min(activity.since for activity in self._activities.values())
            if now - max(since, self._news) >= _QUIET:
                names = dict.fromkeys(activity.doing for activity in self._activities.values())
                self._draw(f"{clip(', '.join(names), _LONGEST)} {_span(now - since)}")
        else:
            self._gate.clear_status()

    def _draw(self, text: str) -> None:
        self._gate.show_status(self._outlet, clip(f"{next(self._frames)} {text}", self._outlet.columns - 1))


def _span(seconds: float) -> str:
    whole = int(seconds)
    return f"{whole} s" if whole < _MINUTE else f"{whole // _MINUTE} min {whole % _MINUTE} s"


# ----------------------------------------------------------------------------------------------------------------------
# The beat of a display: ten times a second


STEP = 0.1
"""Seconds between two beats."""


class Heartbeat:
    """Calls `beat` ten times a second between `start` and `stop`; not at all where no loop runs."""

    def __init__(self, beat: Callable[[], None]) -> None:
        self._beat = beat
        self._next: asyncio.TimerHandle | None = None

    def start(self) -> None:
        """Begin, unless it beats already."""
        if self._next is None:
            try:
                self._next = asyncio.get_running_loop().call_later(STEP, self._run)
            except RuntimeError:
                return  # no loop: output is the only clock

    def stop(self) -> None:
        """Stop at once."""
        if self._next is not None:
            self._next.cancel()
            self._next = None

    def _run(self) -> None:
        self._next = None
        self.start()
        self._beat()
