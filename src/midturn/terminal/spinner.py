"""A row that says what goes on and for how long; it goes away with whatever comes next."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable

from midturn.terminal.gate import Gate, Stream

FRAMES = "⠋⠙⠹⠸⠼⠴⠦⠧⠇⠏"

_STEP = 0.1
_FIRST = 0.4  # what is quicker needs no row


class Spinner:
    """Draws through the gate, so that a prompt or a line of output takes its place."""

    def __init__(self, gate: Gate, stream: Stream, clock: Callable[[], float] = time.monotonic) -> None:
        self._gate = gate
        self._stream = stream
        self._clock = clock
        self._tick: asyncio.TimerHandle | None = None
        self._doing = ""
        self._since = 0.0
        self._frame = 0

    def start(self, doing: str) -> None:
        """Begin to count; `doing` is fit to be shown. Without a running loop nothing is drawn."""
        self.stop()
        self._doing, self._since = doing, self._clock()
        try:
            self._tick = asyncio.get_running_loop().call_later(_FIRST, self._draw)
        except RuntimeError:
            return  # nobody to wake us up

    def stop(self) -> None:
        """Take the row away."""
        if self._tick is not None:
            self._tick.cancel()
            self._tick = None
        self._gate.clear_status()

    def _draw(self) -> None:
        self._frame = (self._frame + 1) % len(FRAMES)
        self._gate.show_status(self._stream, f"{FRAMES[self._frame]} {self._doing} {self._clock() - self._since:.0f} s")
        self._tick = asyncio.get_running_loop().call_later(_STEP, self._draw)
