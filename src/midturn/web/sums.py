"""Sums over what was asked: how much waits, for how long, who answers."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from datetime import UTC, date, datetime, timedelta
from statistics import median

from msgspec import Struct

from midturn.web.facts import AskedFact
from midturn.web.templating import lasted, moment

_DAYS = 30
_ROWS = 10
_NAMES = {
    "user": "People",
    "policy": "Policies of programs",
    "assistant": "Models",
    "static": "Configuration",
    "default": "Defaults",
    "cached": "Remembered answers",
}


class SumRow(Struct, frozen=True):
    """One row of a picture: `share` is between 0 and 1 of the longest."""

    name: str
    count: int
    said: str
    share: float


class Sums(Struct, frozen=True, kw_only=True):
    """Everything that the page shows. `days` are (day, how many were open at its end)."""

    total: int
    days: list[tuple[date, int]]
    waiting: list[SumRow]
    answered_by: list[SumRow]
    most: list[SumRow]
    overturned: int
    escalated: int


def sums(facts: Iterable[AskedFact], today: date | None = None) -> Sums:
    """Add up."""
    every = list(facts)
    judged = [one.overturns for one in every if one.overturns is not None]
    return Sums(
        total=len(every),
        days=_days(every, today or datetime.now(UTC).date()),
        waiting=_waiting(every),
        answered_by=_rows(Counter(_NAMES.get(one.by, one.by) for one in every if one.by)),
        most=_rows(Counter(f"{one.tool}: {one.text}" for one in every)),
        overturned=sum(judged),
        escalated=len(judged),
    )


def _days(every: Sequence[AskedFact], today: date) -> list[tuple[date, int]]:
    """Count what was open at the end of each of the last days."""
    changes: Counter[date] = Counter()
    for one in every:
        begun, closed = moment(one.at), moment(one.closed_at) if one.closed_at else None
        if begun:
            changes[begun.date()] += 1
        if begun and closed:
            changes[closed.date()] -= 1
    first = today - timedelta(days=_DAYS - 1)
    level = sum(count for day, count in changes.items() if day < first)
    days: list[tuple[date, int]] = []
    for number in range(_DAYS):
        day = first + timedelta(days=number)
        level += changes[day]
        days.append((day, max(0, level)))
    return days


def _waiting(every: Sequence[AskedFact]) -> list[SumRow]:
    """Say how long people let each tool wait: half of its questions were answered sooner."""
    times: defaultdict[str, list[float]] = defaultdict(list)
    for one in every:
        if one.by == "user" and one.waited is not None:
            times[one.tool].append(one.waited)
    rows = sorted(((median(waits), tool, len(waits)) for tool, waits in times.items()), reverse=True)[:_ROWS]
    longest = max((wait for wait, _, _ in rows), default=0.0) or 1.0
    return [SumRow(tool, count, f"{lasted(wait)} ({count} answered)", wait / longest) for wait, tool, count in rows]


def _rows(counted: Counter[str]) -> list[SumRow]:
    rows = counted.most_common(_ROWS)
    most = rows[0][1] if rows else 1
    return [SumRow(name, count, str(count), count / most) for name, count in rows]
