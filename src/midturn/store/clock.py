"""The time of day, as the store writes it."""

from __future__ import annotations

from datetime import UTC, datetime


def now() -> str:
    """Return the time as RFC 3339 in UTC, to the millisecond."""
    return datetime.now(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def now_in_a_name() -> str:
    """Return the time as a part of a file's name, to the microsecond."""
    return datetime.now(UTC).strftime("%Y%m%dT%H%M%S.%fZ")
