"""Waiting for a notification of the database, by what it is about."""

from __future__ import annotations

import asyncio
from collections import Counter, defaultdict

_LOOK = 1.0
"""Seconds after which one looks anyway: a notification may have been lost with its connection."""


class Bells:
    """What waits here is woken by `ring` of the same name, and by `ring_all`."""

    def __init__(self) -> None:
        self._waiting: dict[str, set[asyncio.Event]] = defaultdict(set)
        self.rung: Counter[str] = Counter()
        """How often each of them has rung."""

    async def wait(self, name: str, most: float = _LOOK) -> None:
        """Return when the bell rings, at the latest after a second, or after `most`."""
        bell = asyncio.Event()
        self._waiting[name].add(bell)
        try:
            async with asyncio.timeout(most):
                await bell.wait()
        except TimeoutError:
            pass
        finally:
            self._waiting[name].discard(bell)
            if not self._waiting[name]:
                del self._waiting[name]

    def ring(self, name: str) -> None:
        """Wake whoever waits for this."""
        self.rung[name] += 1
        for bell in self._waiting.get(name, ()):
            bell.set()

    def ring_all(self) -> None:
        """Wake everybody: nobody knows what was missed."""
        for name in {*self._waiting, *self.rung}:
            self.ring(name)
