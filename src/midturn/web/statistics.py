"""Sums over what was asked: how much waits, for how long, who answers, and at which hours; and their pictures."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import UTC, date, datetime, timedelta
from statistics import median
from typing import Final

from markupsafe import Markup
from msgspec import Struct

from midturn.clock import parse_time
from midturn.web.conversation_cache import FormFact
from midturn.web.templating import lasted

_DAYS: Final = 30
_HOURS: Final = 24
_ROWS: Final = 10
_MOST: Final = 0.9
_WIDTH: Final = 600
_HEIGHT: Final = 120
_NAMES: Final = {
    "user": "People",
    "policy": "Policies of programs",
    "assistant": "Models",
    "static": "Configuration",
    "configuration": "Rules of the configuration",
    "default": "Defaults",
    "cached": "Remembered answers",
}


class SumRow(Struct, frozen=True):
    """One row of a picture: `share` is between 0 and 1 of the longest, `most` that of nine in ten, `address` where it was asked last."""

    name: str
    count: int
    said: str
    share: float
    most: float = 0.0
    address: str = ""


class DaySum(Struct, frozen=True):
    """One day: how long half and nine in ten of its questions waited for people, in seconds."""

    day: date
    count: int
    half: float
    most: float


class Sums(Struct, frozen=True, kw_only=True):
    """Everything that the page shows. `days` are (day, how many were open at its end), `hours` how many were answered in each."""

    total: int
    days: list[tuple[date, int]]
    waited: list[DaySum]
    waiting: list[SumRow]
    people: list[SumRow]
    hours: list[int]
    answered_by: list[SumRow]
    most: list[SumRow]
    approved: int
    refused: int
    overturned: int
    escalated: int


def sums(facts: Iterable[FormFact], today: date | None = None) -> Sums:
    """Add up."""
    every = list(facts)
    judged = [one.overturns for one in every if one.overturns is not None]
    permissions = [one.is_refused for one in every if one.is_refused is not None]
    last = today or datetime.now(UTC).date()
    return Sums(
        total=len(every),
        days=_days(every, last),
        waited=_waited(every, last),
        waiting=_waiting(every, lambda one: one.tool),
        people=_waiting(every, lambda one: one.person),
        hours=_hours(every),
        answered_by=_rows(Counter(_NAMES.get(one.by, one.by) for one in every if one.by), {}),
        most=_rows(Counter(f"{one.tool}: {one.text}" for one in every), {f"{one.tool}: {one.text}": one.address for one in every}),
        approved=permissions.count(False),
        refused=permissions.count(True),
        overturned=sum(judged),
        escalated=len(judged),
    )


def _days(every: Sequence[FormFact], today: date) -> list[tuple[date, int]]:
    """Count what was open at the end of each of the last days."""
    changes: Counter[date] = Counter()
    for one in every:
        begun, closed = parse_time(one.at), parse_time(one.closed_at) if one.closed_at else None
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


def _waits(every: Iterable[FormFact]) -> Iterable[tuple[FormFact, float]]:
    return ((one, one.waited) for one in every if one.by == "user" and one.waited is not None)


def _waited(every: Sequence[FormFact], today: date) -> list[DaySum]:
    """Say of each of the last days how long what was answered then had waited; days without an answer are left out."""
    times: defaultdict[date, list[float]] = defaultdict(list)
    for one, wait in _waits(every):
        if (closed := parse_time(one.closed_at)) and today - closed.date() < timedelta(days=_DAYS):
            times[closed.date()].append(wait)
    return [DaySum(day, len(waits), median(waits), _nine_in_ten(waits)) for day, waits in sorted(times.items())]


def _waiting(every: Sequence[FormFact], named: Callable[[FormFact], str]) -> list[SumRow]:
    """Say how long it took, by tool or by person: half of the answers came sooner, and nine in ten."""
    times: defaultdict[str, list[float]] = defaultdict(list)
    for one, wait in _waits(every):
        if name := named(one):
            times[name].append(wait)
    rows = sorted(((median(waits), _nine_in_ten(waits), name, len(waits)) for name, waits in times.items()), reverse=True)[:_ROWS]
    longest = max((most for _, most, _, _ in rows), default=0.0) or 1.0
    return [SumRow(name, count, f"{lasted(half)} ({count} answered)", half / longest, most / longest) for half, most, name, count in rows]


def _nine_in_ten(waits: Sequence[float]) -> float:
    return sorted(waits)[min(len(waits) - 1, int(len(waits) * _MOST))]


def _hours(every: Iterable[FormFact]) -> list[int]:
    counted = Counter(closed.hour for one, _ in _waits(every) if (closed := parse_time(one.closed_at)))
    return [counted[hour] for hour in range(_HOURS)]


def _rows(counted: Counter[str], addresses: Mapping[str, str]) -> list[SumRow]:
    rows = counted.most_common(_ROWS)
    most = rows[0][1] if rows else 1
    return [SumRow(name, count, str(count), count / most, address=addresses.get(name, "")) for name, count in rows]


# ----------------------------------------------------------------------------------------------------------------------
# Pictures; each stands beside a table of its numbers


def curve(added: Sums) -> Markup:
    """Draw how many were open, day by day, as steps: what was open stays open until the next day's count."""
    highest = max((count for _, count in added.days), default=0) or 1
    step = _WIDTH / len(added.days)
    points = [f"0,{_HEIGHT}"]
    for place, (_, count) in enumerate(added.days):
        height = round(_HEIGHT - count / highest * (_HEIGHT - 4), 1)
        points += [f"{place * step:.1f},{height}", f"{(place + 1) * step:.1f},{height}"]
    points.append(f"{_WIDTH},{_HEIGHT}")
    drawn = Markup('<polygon points="{}"/>').format(" ".join(points))
    return _picture("curve", drawn)


def columns(added: Sums) -> Markup:
    """Draw in which hours people answer."""
    highest = max(added.hours) or 1
    step = _WIDTH / _HOURS
    bars = (_bar(hour * step, step - 3, count / highest, "") for hour, count in enumerate(added.hours))
    return _picture("columns", Markup("").join(bars))


def waits(added: Sums) -> Markup:
    """Draw how long people let things wait, day by day: half of them, and behind that nine in ten."""
    longest = max((one.most for one in added.waited), default=0.0) or 1.0
    step = _WIDTH / _DAYS
    last = added.days[-1][0]
    bars = [
        _bar((_DAYS - 1 - (last - one.day).days) * step, step - 4, share / longest, kind)
        for one in added.waited
        for share, kind in ((one.most, "most"), (one.half, ""))
    ]
    return _picture("columns", Markup("").join(bars))


def _bar(left: float, width: float, share: float, kind: str) -> Markup:
    height = max(1.5, share * (_HEIGHT - 4)) if share else 0.0
    drawn = Markup('<rect class="{}" x="{:.1f}" y="{:.1f}" width="{:.1f}" height="{:.1f}"/>')
    return drawn.format(kind, left, _HEIGHT - height, width, height)


def _picture(name: str, drawn: Markup) -> Markup:
    whole = Markup('<svg class="{}" viewBox="0 0 {} {}" preserveAspectRatio="none" aria-hidden="true">{}</svg>')
    return whole.format(name, _WIDTH, _HEIGHT, drawn)
