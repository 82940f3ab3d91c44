"""Number of random examples: enough for daily runs, or five times as many (`DEEP=1 make test`)."""

from __future__ import annotations

import os

IS_DEEP = os.environ.get("DEEP") == "1"
_TIMES = 5 if IS_DEEP else 1


def tries(number: int) -> int:
    """Return the number of examples for this run; `number` is the daily one."""
    return number * _TIMES
