"""How much a platform takes."""

from __future__ import annotations

import time


class Limit:
    """Takes so many in a second; what is more is told how long to wait."""

    def __init__(self, most: int) -> None:
        self.most = most
        self.refused = 0
        self._began, self._taken = 0.0, 0

    def wait(self) -> float:
        """Return how long the next one has to wait; 0 where it is taken."""
        now = time.monotonic()
        if now - self._began >= 1:
            self._began, self._taken = now, 0
        if self._taken < self.most:
            self._taken += 1
            return 0.0
        self.refused += 1
        return self._began + 1 - now
