"""Rate limit of a platform."""

from __future__ import annotations

import time


class Limit:
    """Accepts a number of requests per second. Further requests get the time to wait."""

    def __init__(self, most: int) -> None:
        self.most = most
        self.refused = 0
        self._began, self._taken = 0.0, 0

    def wait(self) -> float:
        """Return the seconds the next request has to wait, or 0 if it is accepted."""
        now = time.monotonic()
        if now - self._began >= 1:
            self._began, self._taken = now, 0
        if self._taken < self.most:
            self._taken += 1
            return 0.0
        self.refused += 1
        return self._began + 1 - now
