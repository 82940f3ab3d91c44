"""Deadlines of questions: as a program gives them, as they are written, and the one that holds for a form."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime, timedelta
from typing import Final, TypeAlias, TypeGuard

from midturn.values.text import rfc3339

Deadline: TypeAlias = timedelta | datetime
"""How long an answer may take from when it is asked, or until when."""
SHORTEST: Final = 1
LONGEST: Final = 31_536_000
"""Seconds that an answer may take."""


def deadline_as_json(deadline: Deadline) -> dict[str, object]:
    """Return the key of a question that says the same; a moment without a zone stays as it is, for the check to refuse."""
    if isinstance(deadline, timedelta):
        seconds = deadline.total_seconds()
        return {"deadline_seconds": int(seconds) if seconds.is_integer() else seconds}
    return {"deadline": rfc3339(deadline) if deadline.tzinfo else deadline.isoformat()}


def is_number(value: object) -> TypeGuard[float]:
    """Say whether a JSON value is a number."""
    return isinstance(value, int | float) and not isinstance(value, bool)


def moment_of(value: object) -> str | None:
    """Return a moment as every deadline is recorded; None where it is none, or has no zone."""
    try:
        moment = datetime.fromisoformat(value) if isinstance(value, str) else None
        return rfc3339(moment) if moment is not None and moment.tzinfo is not None else None
    except (ValueError, OverflowError):
        return None


def after(now: str, seconds: float) -> str:
    """Return the moment that comes so many seconds after another one."""
    return rfc3339(datetime.fromisoformat(now) + timedelta(seconds=seconds))


def earliest(now: str, moments: Iterable[str | float | None]) -> str:
    """Return the earliest of moments, and of moments in so many seconds from `now`; empty where there is none, or no time is known."""
    given = [moment for moment in moments if moment is not None]
    known = [moment if isinstance(moment, str) else after(now, moment) for moment in given if now or isinstance(moment, str)]
    return min(known, default="")


_UNITS: Final = ((86_400, "d", "day"), (3_600, "h", "hour"), (60, "min", "minute"), (1, "s", "second"))


def time_left(now: str, asked_at: str, deadline: str) -> str:
    """Say how long there is left for an answer, for people; from the last quarter on in words. Empty where a time cannot be read."""
    try:
        left, whole = (
            (datetime.fromisoformat(deadline) - datetime.fromisoformat(begin)).total_seconds() for begin in (now, asked_at or now)
        )
    except (ValueError, TypeError, OverflowError):
        return ""
    if left <= 0:
        return "the time is over"
    if left > whole / 4:
        return f"{amount(left)} left"
    return f"only {amount(left, in_words=True)} left"


def amount(seconds: float, *, in_words: bool = False) -> str:
    """Write a length of time in the largest unit, and the next one where that counts."""
    whole = max(1, int(seconds))
    place = next(place for place, (size, _, _) in enumerate(_UNITS) if whole >= size)
    parts: list[str] = []
    for size, short, name in _UNITS[place : place + 2]:
        count, whole = divmod(whole, size)
        if count:
            parts.append(f"{count} {name}{'' if count == 1 else 's'}" if in_words else f"{count} {short}")
    return " ".join(parts)
