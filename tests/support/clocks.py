"""A clock that does not wait."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta


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
