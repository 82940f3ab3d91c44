"""`limits.seconds`: how long a turn may work, not counting the time that people take."""

from __future__ import annotations

from collections.abc import Callable

from midturn.ports import Clock

PRECISION = 0.25  # seconds between two looks at whether somebody is being asked


async def expire(seconds: float, clock: Clock, waits_for_people: Callable[[], bool]) -> None:
    """Return when the turn has worked for `seconds`."""
    worked, last = 0.0, clock.monotonic()
    while worked < seconds:
        await clock.sleep(min(PRECISION, seconds - worked))
        now = clock.monotonic()
        if not waits_for_people():
            worked += now - last
        last = now
