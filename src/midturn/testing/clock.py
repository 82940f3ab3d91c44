"""A clock that a test can advance, so that deadlines pass without waiting."""

from __future__ import annotations

import asyncio
from collections.abc import Generator
from contextlib import contextmanager, suppress
from datetime import datetime, timedelta

from midturn.clock import SYSTEM, SystemClock
from midturn.question.public_names import public_repr


class Clock:
    """Clock of midturn in a test: the system time plus the time that the test added."""

    def __init__(self) -> None:
        self._real = SystemClock()
        self._offset = 0.0
        self._sleeping: set[tuple[asyncio.AbstractEventLoop, asyncio.Event]] = set()

    def __repr__(self) -> str:
        return public_repr(self, "testing.Clock")

    def pass_(
        self, *, days: float = 0, hours: float = 0, minutes: float = 0, seconds: float = 0
    ) -> None:
        """Advance the clock, and wake every `sleep` that is due by then.

        Args:
            days: Days to add.
            hours: Hours to add.
            minutes: Minutes to add.
            seconds: Seconds to add.

        Raises:
            ValueError: The sum is negative.
        """
        passed = timedelta(days=days, hours=hours, minutes=minutes, seconds=seconds).total_seconds()
        if passed < 0:
            raise ValueError(
                f"`Clock.pass_` cannot go back in time: the sum must be at least 0, got {passed:g}"
                " seconds."
            )
        self._offset += passed
        for loop, wake in tuple(self._sleeping):
            with suppress(RuntimeError):  # the loop is closed
                loop.call_soon_threadsafe(wake.set)

    def now(self) -> datetime:
        """Return the current time in UTC."""
        return self._real.now() + timedelta(seconds=self._offset)

    def monotonic(self) -> float:
        """Return the monotonic time in seconds."""
        return self._real.monotonic() + self._offset

    def elapsed(self) -> float:
        """Return the monotonic time in seconds, including time during which the machine was
        suspended.
        """
        return self._real.elapsed() + self._offset

    async def sleep(self, seconds: float) -> None:
        """Sleep until `seconds` have passed on this clock.

        Args:
            seconds: Duration in seconds.
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
        """Replace the system clock of midturn in this process while the block runs."""
        methods = {name: getattr(self, name) for name in ("now", "monotonic", "elapsed", "sleep")}
        vars(SYSTEM).update(methods)
        try:
            yield self
        finally:
            for name in methods:
                del vars(SYSTEM)[name]
