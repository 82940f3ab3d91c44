"""A clock that a test moves: hours pass at once, and deadlines with them."""

from __future__ import annotations

import asyncio
from collections.abc import Generator
from contextlib import contextmanager, suppress
from datetime import datetime, timedelta

from midturn.clock import SYSTEM, SystemClock
from midturn.question.public_names import public_repr


class Clock:
    """The time of midturn in a test: the machine's, and as much more as the test lets pass."""

    def __init__(self) -> None:
        self._real = SystemClock()
        self._ahead = 0.0
        self._sleeping: set[tuple[asyncio.AbstractEventLoop, asyncio.Event]] = set()

    def __repr__(self) -> str:
        return public_repr(self, "testing.Clock")

    def pass_(self, *, days: float = 0, hours: float = 0, minutes: float = 0, seconds: float = 0) -> None:
        """Let time pass: what waits for a moment in it goes on.

        Args:
            days: So many days.
            hours: And so many hours.
            minutes: And so many minutes.
            seconds: And so many seconds.

        Raises:
            ValueError: That would lead back.
        """
        passed = timedelta(days=days, hours=hours, minutes=minutes, seconds=seconds).total_seconds()
        if passed < 0:
            raise ValueError("Time only passes: give lengths above 0.")
        self._ahead += passed
        for loop, woken in tuple(self._sleeping):
            with suppress(RuntimeError):  # its loop is closed
                loop.call_soon_threadsafe(woken.set)

    def now(self) -> datetime:
        """Return the time of day, in UTC."""
        return self._real.now() + timedelta(seconds=self._ahead)

    def monotonic(self) -> float:
        """Return seconds that only count up."""
        return self._real.monotonic() + self._ahead

    def elapsed(self) -> float:
        """Return seconds that only count up, also while the machine sleeps."""
        return self._real.elapsed() + self._ahead

    async def sleep(self, seconds: float) -> None:
        """Wait, at the latest until so much time has passed.

        Args:
            seconds: How long.
        """
        until = self.monotonic() + seconds
        while (left := until - self.monotonic()) > 0:
            sleeper = asyncio.get_running_loop(), asyncio.Event()
            self._sleeping.add(sleeper)
            try:
                await asyncio.wait_for(sleeper[1].wait(), left)
            except TimeoutError:
                return
            finally:
                self._sleeping.discard(sleeper)

    @contextmanager
    def moved(self) -> Generator[Clock]:
        """Be the clock of this process while the block runs."""
        ours = {name: getattr(self, name) for name in ("now", "monotonic", "elapsed", "sleep")}
        vars(SYSTEM).update(ours)
        try:
            yield self
        finally:
            for name in ours:
                del vars(SYSTEM)[name]
