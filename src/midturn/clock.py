"""System time, and what is away for some time."""

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
    """Whatever knows what time it is."""

    def now(self) -> datetime:
        """The time of day, in UTC."""
        ...


def stamp(clock: TimeOfDay) -> str:
    """Return the time that a clock shows, as every event carries it: RFC 3339 in UTC, to the microsecond."""
    return rfc3339(clock.now())


def parse_time(time: str) -> datetime | None:
    """Read a recorded time; None if it is none."""
    try:
        return datetime.fromisoformat(time).astimezone(UTC)
    except (ValueError, OverflowError):
        return None


_AWAKE_AND_ASLEEP = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)  # macOS counts its sleep with the latter


class SystemClock:
    """`ports.Clock` on the machine's own clocks."""

    def now(self) -> datetime:
        """The time of day, in UTC."""
        return datetime.now(UTC)

    def monotonic(self) -> float:
        """Seconds that only count up."""
        return time.monotonic()

    def elapsed(self) -> float:
        """Seconds that only count up, also while the machine sleeps."""
        return time.clock_gettime(_AWAKE_AND_ASLEEP)

    async def sleep(self, seconds: float) -> None:
        """Wait."""
        await pause(seconds)


SYSTEM = SystemClock()
_DRIFT = 60.0  # seconds by which the time of day may part from the seconds that count up, before it is not believed any more
_LONGEST = 3600.0  # seconds that are slept at once: a machine may have been asleep meanwhile
_SHORTEST = 0.01


class TrustedTime:
    """The time of day where a deadline may go by it: not where the clock was set meanwhile, or stands before what is on record."""

    def __init__(self, clock: TimeOfDay) -> None:
        """Trust a clock as it stands; one that counts nothing up is trusted further."""
        self._clock = clock
        self._began = self._begun()

    def now(self, events: Sequence[Event] = ()) -> str | None:
        """Return the time; None where it is not to be believed."""
        now = stamp(self._clock)
        return None if abs(self._begun() - self._began) > _DRIFT or (events and now < events[-1].timestamp) else now

    def _begun(self) -> float:
        """Return the time of day at which nothing was counted yet, as the clock has it now."""
        counted: Callable[[], float] | None = getattr(self._clock, "elapsed", getattr(self._clock, "monotonic", None))
        return self._clock.now().timestamp() - counted() if counted else 0.0

    def until(self, moment: str) -> float:
        """Return how many seconds to sleep before the next look."""
        left = (datetime.fromisoformat(moment) - self._clock.now()).total_seconds()
        return min(max(left, _SHORTEST), _LONGEST) if left > 0 else 1.0


SYSTEM_TIME = TrustedTime(SYSTEM)
"""The machine's own time, trusted as it stood when this process began."""


def trusted(clock: TimeOfDay) -> TrustedTime:
    """Return the time of a clock; that of the machine is trusted as it stood when this process began."""
    return SYSTEM_TIME if clock is SYSTEM else TrustedTime(clock)


def now() -> str:
    """Return the time of the machine's own clock as events carry it."""
    return stamp(SYSTEM)


def now_in_a_name() -> str:
    """Return the time as a part of a file's name, to the microsecond."""
    return datetime.now(UTC).strftime("%Y%m%dT%H%M%S.%fZ")


async def pause(seconds: float) -> None:
    """Wait: while an event loop runs in this thread, without stopping it; else (a command, a plain thread) just so."""
    asyncio = sys.modules.get("asyncio")  # where it is not even loaded, no loop runs, and commands need not pay for it
    if asyncio is not None and asyncio._get_running_loop() is not None:  # noqa: SLF001  documented for such uses
        await asyncio.sleep(seconds)
    else:
        time.sleep(seconds)  # noqa: ASYNC251  nothing else runs here


class Outage:
    """An outage: one line of a log when that begins and one when it ends, however often it is met in between."""

    def __init__(self, log: logging.Logger, back: str) -> None:
        """Write to `log`; `back` says that it is over."""
        self._log = log
        self._back = back
        self._since: float | None = None

    @property
    def is_on(self) -> bool:
        """Whether it is said to have begun."""
        return self._since is not None

    def noticed(self, message: str, *arguments: object) -> None:
        """Say that it begins, unless that was said, or a store among the `arguments` has said it of itself."""
        if self._since is None and not any(isinstance(argument, StoreAway) for argument in arguments):
            self._since = time.monotonic()
            self._log.warning(message, *arguments)

    def over(self) -> None:
        """Say that it is over, if it was said to have begun."""
        if self._since is not None:
            self._log.warning("%s, after %.0f s", self._back, time.monotonic() - self._since)
            self._since = None
