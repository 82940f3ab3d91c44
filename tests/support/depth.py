"""How often what is drawn at random is tried: enough for every day, or five times that (`DEEP=1 make test`)."""

from __future__ import annotations

import os

IS_DEEP = os.environ.get("DEEP") == "1"
_TIMES = 5 if IS_DEEP else 1


def tries(number: int) -> int:
    """Return how often something is tried that is tried so often every day."""
    return number * _TIMES
