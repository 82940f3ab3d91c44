"""System time, and log messages for outages."""

from __future__ import annotations

import logging
import sys
import time
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Protocol

from midturn.errors import StoreAway
from midturn.question.text import rfc3339

if TYPE_CHECKING:
    from midturn.events.types import Event


class TimeOfDay(Protocol):
    """Source of the current time."""

    def now(self) -> datetime:
        """Return the current time in UTC."""
        ...


def stamp(clock: TimeOfDay) -> str:
    """Return the current time as events store it: RFC 3339 in UTC, with microseconds."""
    return rfc3339(clock.now())


def parse_time(time: str) -> datetime | None:
    """Parse a recorded time. Returns None if it is invalid."""
    try:
        return datetime.fromisoformat(time).astimezone(UTC)
    except (ValueError, OverflowError):
        return None


_ELAPSED_CLOCK = getattr(
    time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC
)  # on macOS, CLOCK_MONOTONIC includes sleep


class SystemClock:
    """`ports.Clock` that reads the clocks of the machine."""

    def now(self) -> datetime:
        """Return the current time in UTC."""
        return datetime.now(UTC)

    def monotonic(self) -> float:
        """Return the monotonic time in seconds."""
        return time.monotonic()

    def elapsed(self) -> float:
        """Return the monotonic time in seconds, including the time that the machine was
        suspended.
        """
        return time.clock_gettime(_ELAPSED_CLOCK)

    async def sleep(self, seconds: float) -> None:
        """Wait for a number of seconds."""
        await pause(seconds)


SYSTEM = SystemClock()
# maximum difference in seconds between the wall clock and the elapsed-time clock; above it, the
# time is not trusted
_MAX_DRIFT = 60.0
# maximum seconds between two readings of the clock, because the machine may have been suspended
_MAX_SLEEP = 3600.0
_MIN_SLEEP = 0.01


class TrustedTime:
    """The current time, unless it is unsafe to expire deadlines.

    Expiring deadlines is unsafe after the wall clock was set, or if it is behind the recorded
    events.
    """

    def __init__(self, clock: TimeOfDay) -> None:
        self._clock = clock
        self._origin = self._current_origin()

    def now(self, events: Sequence[Event] = ()) -> str | None:
        """Return the current time, or None if it cannot be trusted. `events` are the recorded
        events, oldest first.
        """
        now = stamp(self._clock)
        return (
            None
            if abs(self._current_origin() - self._origin) > _MAX_DRIFT
            or (events and now < events[-1].timestamp)
            else now
        )

    def _current_origin(self) -> float:
        """Return the wall-clock time at which the elapsed time was zero. This origin changes only
        if the wall clock is set.
        """
        elapsed: Callable[[], float] | None = getattr(
            self._clock, "elapsed", getattr(self._clock, "monotonic", None)
        )
        return self._clock.now().timestamp() - elapsed() if elapsed else 0.0

    def until(self, moment: str) -> float:
        """Return the seconds to sleep before `moment` is checked again."""
        left = (datetime.fromisoformat(moment) - self._clock.now()).total_seconds()
        return min(max(left, _MIN_SLEEP), _MAX_SLEEP) if left > 0 else 1.0


SYSTEM_TIME = TrustedTime(SYSTEM)
"""The machine's clock. The time at which this process started is trusted."""


def trusted(clock: TimeOfDay) -> TrustedTime:
    """Return the trusted time of a clock. For the machine's clock, the time at which this process
    started is trusted.
    """
    return SYSTEM_TIME if clock is SYSTEM else TrustedTime(clock)


def now() -> str:
    """Return the machine's current time as events store it."""
    return stamp(SYSTEM)


def now_in_a_name() -> str:
    """Return the current time with microseconds, formatted for file names."""
    return datetime.now(UTC).strftime("%Y%m%dT%H%M%S.%fZ")


async def pause(seconds: float) -> None:
    """Sleep without blocking a running event loop. If the thread has no running event loop, block
    the thread.
    """
    asyncio = sys.modules.get(
        "asyncio"
    )  # no import: if asyncio was never imported, no loop is running
    if asyncio is not None and asyncio._get_running_loop() is not None:  # noqa: SLF001  the documented fast check
        await asyncio.sleep(seconds)
    else:
        time.sleep(seconds)  # noqa: ASYNC251  no event loop runs in this thread


class Outage:
    """Logs one warning when an outage begins and one when it ends, however many errors it causes.

    Args:
        log: Logger for both messages.
        back: Message for the end of the outage, without the duration.
    """

    def __init__(self, log: logging.Logger, back: str) -> None:
        self._log = log
        self._back = back
        self._since: float | None = None

    @property
    def is_on(self) -> bool:
        """Whether the start of an outage was logged, and its end was not logged yet."""
        return self._since is not None

    def noticed(self, message: str, *arguments: object) -> None:
        """Log the start of the outage, unless it was logged already or an argument is an error
        that the store has logged itself.
        """
        if self._since is None and not any(
            isinstance(argument, StoreAway) for argument in arguments
        ):
            self._since = time.monotonic()
            self._log.warning(message, *arguments)

    def over(self) -> None:
        """Log the end of the outage, if its start was logged."""
        if self._since is not None:
            self._log.warning("%s, after %.0f s", self._back, time.monotonic() - self._since)
            self._since = None
