"""A clock that does not wait."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from contextlib import suppress
from datetime import UTC, datetime, timedelta

import pytest

from midturn.clock import SystemClock
from midturn.ports import Clock


class FakeClock:
    """Time that passes only by `sleep`; `slept` lists every wait, in seconds."""

    def __init__(self) -> None:
        self.slept: list[float] = []

    def now(self) -> datetime:
        """Return an arbitrary day, plus what was slept."""
        return datetime(2026, 11, 21, tzinfo=UTC) + timedelta(seconds=self.monotonic())

    def monotonic(self) -> float:
        """Return what was slept so far."""
        return sum(self.slept)

    async def sleep(self, seconds: float) -> None:
        """Note the wait, and return at once."""
        self.slept.append(seconds)


class HurriedClock:
    """Another clock, which is set forward while it is waited for.

    It waits for whoever begins to wait after that: had it jumped before they looked at it, their whole wait would be ahead of them.
    """

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._ahead = 0.0
        self._due = 0.0
        self._hurried = asyncio.Event()

    def hurry(self, seconds: float) -> None:
        """Let so many seconds have passed for whoever waits, now or next."""
        self._due += seconds
        self._hurried.set()

    def now(self) -> datetime:
        """Return the time."""
        return self._clock.now() + timedelta(seconds=self._ahead)

    def monotonic(self) -> float:
        """Return the seconds that have passed."""
        return self._clock.monotonic() + self._ahead

    async def sleep(self, seconds: float) -> None:
        """Wait, at the latest until the clock is set forward."""
        with suppress(TimeoutError):
            await asyncio.wait_for(self._hurried.wait(), seconds)
            self._ahead, self._due = self._ahead + self._due, 0.0
            self._hurried.clear()


class MovedTime:
    """The time of this process, which a test moves on: that of day, what counts up, and that of event loops.

    Whoever sleeps in a loop wakes when its time has come there, and clocks agree: what is trusted with them is trusted.
    """

    def __init__(self, patch: pytest.MonkeyPatch) -> None:
        self._ahead = 0.0
        for name in ("time", "monotonic"):
            patch.setattr(time, name, self._moved(getattr(time, name)))
        elapsed, of_day = SystemClock().elapsed, SystemClock().now
        patch.setattr(SystemClock, "elapsed", staticmethod(lambda: elapsed() + self._ahead))
        patch.setattr(SystemClock, "now", staticmethod(lambda: of_day() + timedelta(seconds=self._ahead)))

    def move(self, seconds: float) -> None:
        """Let so many seconds have passed."""
        self._ahead += seconds

    def _moved(self, clock: Callable[[], float]) -> Callable[[], float]:
        return lambda: clock() + self._ahead
