"""What makes a display move while nothing comes: a beat ten times a second."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

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
                return  # no loop: whoever shows something is the only clock

    def stop(self) -> None:
        """Stop at once."""
        if self._next is not None:
            self._next.cancel()
            self._next = None

    def _run(self) -> None:
        self._next = None
        self.start()
        self._beat()
