"""Points in time, as a listing shows them."""

from __future__ import annotations

from datetime import datetime

from midturn.cli.shown import Shown, line


def moment(text: str, now: datetime | None = None) -> Shown:
    """Show an RFC 3339 time in the local zone: the time of day, with the date unless it is today's. Anything else is shown as it is."""
    try:
        at = datetime.fromisoformat(text).astimezone()
    except (ValueError, OverflowError):
        return line("{}", text)
    today = (now or datetime.now().astimezone()).date()
    return line("{}", f"{at:%H:%M}" if at.date() == today else f"{at:%Y-%m-%d %H:%M}")
