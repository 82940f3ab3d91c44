"""Keys that come too soon are not meant for this prompt: they count once none has come for a while."""

from __future__ import annotations


class Settle:
    """Armed for good after `quiet` seconds without a key; `now` are seconds that only count up."""

    def __init__(self, quiet: float, now: float) -> None:
        self._quiet = quiet
        self._last = now
        self._armed = False

    def hears(self, now: float) -> bool:
        """Tell whether a key that is pressed now counts."""
        self._armed = self._armed or now - self._last >= self._quiet
        self._last = now
        return self._armed
