"""Clocks for tests."""

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
    """Time passes only through `sleep`, which returns at once. `slept` lists the waits in
    seconds.
    """

    def __init__(self) -> None:
        self.slept: list[float] = []

    def now(self) -> datetime:
        """Return a fixed day plus the time slept."""
        return datetime(2026, 11, 21, tzinfo=UTC) + timedelta(seconds=self.monotonic())

    def monotonic(self) -> float:
        """Return the time slept so far."""
        return sum(self.slept)

    async def sleep(self, seconds: float) -> None:
        self.slept.append(seconds)


class AdjustableClock:
    """Wraps another clock. `advance` moves it forward and releases its waiters.

    The time moves when a waiter notices it: `advance` also counts for a waiter that starts
    afterwards, which would otherwise have to wait for its full time.
    """

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._ahead = 0.0
        self._due = 0.0
        self._hurried = asyncio.Event()

    def advance(self, seconds: float) -> None:
        """Let `seconds` pass for the current waiters, or for the next one."""
        self._due += seconds
        self._hurried.set()

    def now(self) -> datetime:
        return self._clock.now() + timedelta(seconds=self._ahead)

    def monotonic(self) -> float:
        return self._clock.monotonic() + self._ahead

    async def sleep(self, seconds: float) -> None:
        """Wait until the time is over or the clock is advanced."""
        with suppress(TimeoutError):
            await asyncio.wait_for(self._hurried.wait(), seconds)
            self._ahead, self._due = self._ahead + self._due, 0.0
            self._hurried.clear()


class PatchedTime:
    """Patches the clocks of this process so that a test can move them: wall clock, monotonic
    clock and event loop time.

    A sleeping coroutine wakes when its time is reached. All clocks move together, so that checks
    which compare them pass.
    """

    def __init__(self, patch: pytest.MonkeyPatch) -> None:
        self._ahead = 0.0
        for name in ("time", "monotonic"):
            patch.setattr(time, name, self._moved(getattr(time, name)))
        elapsed, of_day = SystemClock().elapsed, SystemClock().now
        patch.setattr(SystemClock, "elapsed", staticmethod(lambda: elapsed() + self._ahead))
        patch.setattr(
            SystemClock, "now", staticmethod(lambda: of_day() + timedelta(seconds=self._ahead))
        )

    def move(self, seconds: float) -> None:
        self._ahead += seconds

    def _moved(self, clock: Callable[[], float]) -> Callable[[], float]:
        return lambda: clock() + self._ahead
