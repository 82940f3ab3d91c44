"""System time."""

from __future__ import annotations

import sys
import time
from datetime import UTC, datetime

from midturn.values.text import stamp


class SystemClock:
    """`ports.Clock` on the machine's own clocks."""

    def now(self) -> datetime:
        """The time of day, in UTC."""
        return datetime.now(UTC)

    def monotonic(self) -> float:
        """Seconds that only count up."""
        return time.monotonic()

    async def sleep(self, seconds: float) -> None:
        """Wait."""
        await pause(seconds)


SYSTEM = SystemClock()


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
