"""Statistics: open questions, response times, answers by person and by hour, with charts."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import UTC, date, datetime, timedelta
from statistics import median
from typing import Final

from markupsafe import Markup
from msgspec import Struct

from midturn.clock import parse_time
from midturn.web.conversation_cache import QuestionFact
from midturn.web.templating import lasted

DAYS: Final = 30
HOURS: Final = 24
MAX_ROWS: Final = 10
PERCENTILE: Final = 0.9
_WIDTH: Final = 600
_HEIGHT: Final = 120
_NAMES: Final = {
    "user": "People",
    "policy": "Program policies",
    "assistant": "Models",
    "static": "Configuration",
    "configuration": "Configuration rules",
    "default": "Defaults",
    "cached": "Remembered answers",
}


class ChartRow(Struct, frozen=True):
    """A row of a bar chart.

    Args:
        name: Label of the row.
        count: Number of questions.
        said: The value as text.
        share: Length of the bar, from 0 to 1.
        most: Length of the bar for the 90th percentile, from 0 to 1.
        address: URL of the last question.
    """

    name: str
    count: int
    said: str
    share: float
    most: float = 0.0
    address: str = ""


class DayStatistics(Struct, frozen=True):
    """Response times of one day in seconds: median (`half`) and 90th percentile (`most`)."""

    day: date
    count: int
    half: float
    most: float


class Statistics(Struct, frozen=True, kw_only=True):
    """All statistics of the page. `days` contains the number of open questions at the end of each
    day, and `hours` the number of answers in each hour of the day.
    """

    total: int
    days: list[tuple[date, int]]
    waited: list[DayStatistics]
    waiting: list[ChartRow]
    people: list[ChartRow]
    hours: list[int]
    answered_by: list[ChartRow]
    most: list[ChartRow]
    approved: int
    refused: int
    overturned: int
    escalated: int


def compute_statistics(facts: Iterable[QuestionFact], today: date | None = None) -> Statistics:
    """Compute the statistics of questions."""
    every = list(facts)
    judged = [one.overturns for one in every if one.overturns is not None]
    permissions = [one.is_refused for one in every if one.is_refused is not None]
    last = today or datetime.now(UTC).date()
    return Statistics(
        total=len(every),
        days=_open_by_day(every, last),
        waited=_response_times_by_day(every, last),
        waiting=_response_times(every, lambda one: one.tool),
        people=_response_times(every, lambda one: one.person),
        hours=_answers_by_hour(every),
        answered_by=_count_rows(Counter(_NAMES.get(one.by, one.by) for one in every if one.by), {}),
        most=_count_rows(
            Counter(f"{one.tool}: {one.text}" for one in every),
            {f"{one.tool}: {one.text}": one.address for one in every},
        ),
        approved=permissions.count(False),
        refused=permissions.count(True),
        overturned=sum(judged),
        escalated=len(judged),
    )


def _open_by_day(every: Sequence[QuestionFact], today: date) -> list[tuple[date, int]]:
    """Count the open questions at the end of each of the last days."""
    changes: Counter[date] = Counter()
    for one in every:
        begun, closed = parse_time(one.at), parse_time(one.closed_at) if one.closed_at else None
        if begun:
            changes[begun.date()] += 1
        if begun and closed:
            changes[closed.date()] -= 1
    first = today - timedelta(days=DAYS - 1)
    level = sum(count for day, count in changes.items() if day < first)
    days: list[tuple[date, int]] = []
    for number in range(DAYS):
        day = first + timedelta(days=number)
        level += changes[day]
        days.append((day, max(0, level)))
    return days


def _answered_facts(every: Iterable[QuestionFact]) -> Iterable[tuple[QuestionFact, float]]:
    return ((one, one.waited) for one in every if one.by == "user" and one.waited is not None)


def _response_times_by_day(every: Sequence[QuestionFact], today: date) -> list[DayStatistics]:
    """Return the response times of each of the last days. Days without answers are left out."""
    times: defaultdict[date, list[float]] = defaultdict(list)
    for one, wait in _answered_facts(every):
        if (closed := parse_time(one.closed_at)) and today - closed.date() < timedelta(days=DAYS):
            times[closed.date()].append(wait)
    return [
        DayStatistics(day, len(waits), median(waits), _percentile(waits))
        for day, waits in sorted(times.items())
    ]


def _response_times(
    every: Sequence[QuestionFact], named: Callable[[QuestionFact], str]
) -> list[ChartRow]:
    """Return the response times by tool or by person, slowest first."""
    times: defaultdict[str, list[float]] = defaultdict(list)
    for one, wait in _answered_facts(every):
        if name := named(one):
            times[name].append(wait)
    rows = sorted(
        ((median(waits), _percentile(waits), name, len(waits)) for name, waits in times.items()),
        reverse=True,
    )[:MAX_ROWS]
    longest = max((most for _, most, _, _ in rows), default=0.0) or 1.0
    return [
        ChartRow(name, count, f"{lasted(half)} ({count} answered)", half / longest, most / longest)
        for half, most, name, count in rows
    ]


def _percentile(waits: Sequence[float]) -> float:
    return sorted(waits)[min(len(waits) - 1, int(len(waits) * PERCENTILE))]


def _answers_by_hour(every: Iterable[QuestionFact]) -> list[int]:
    counted = Counter(
        closed.hour for one, _ in _answered_facts(every) if (closed := parse_time(one.closed_at))
    )
    return [counted[hour] for hour in range(HOURS)]


def _count_rows(counted: Counter[str], addresses: Mapping[str, str]) -> list[ChartRow]:
    rows = counted.most_common(MAX_ROWS)
    most = rows[0][1] if rows else 1
    return [
        ChartRow(name, count, str(count), count / most, address=addresses.get(name, ""))
        for name, count in rows
    ]


# --------------------------------------------------------------------------------------------------
# Charts. The page shows the numbers of each chart in a table, too.


def curve(added: Statistics) -> Markup:
    """Draw the number of open questions by day as a step chart."""
    highest = max((count for _, count in added.days), default=0) or 1
    step = _WIDTH / len(added.days)
    points = [f"0,{_HEIGHT}"]
    for place, (_, count) in enumerate(added.days):
        height = round(_HEIGHT - count / highest * (_HEIGHT - 4), 1)
        points += [f"{place * step:.1f},{height}", f"{(place + 1) * step:.1f},{height}"]
    points.append(f"{_WIDTH},{_HEIGHT}")
    drawn = Markup('<polygon points="{}"/>').format(" ".join(points))
    return _svg("curve", drawn)


def columns(added: Statistics) -> Markup:
    """Draw the number of answers by hour of the day."""
    highest = max(added.hours) or 1
    step = _WIDTH / HOURS
    bars = (
        _bar(hour * step, step - 3, count / highest, "") for hour, count in enumerate(added.hours)
    )
    return _svg("columns", Markup("").join(bars))


def waits(added: Statistics) -> Markup:
    """Draw the response times by day, with the median in front of the 90th percentile."""
    longest = max((one.most for one in added.waited), default=0.0) or 1.0
    step = _WIDTH / DAYS
    last = added.days[-1][0]
    bars = [
        _bar((DAYS - 1 - (last - one.day).days) * step, step - 4, share / longest, kind)
        for one in added.waited
        for share, kind in ((one.most, "most"), (one.half, ""))
    ]
    return _svg("columns", Markup("").join(bars))


def _bar(left: float, width: float, share: float, kind: str) -> Markup:
    height = max(1.5, share * (_HEIGHT - 4)) if share else 0.0
    drawn = Markup('<rect class="{}" x="{:.1f}" y="{:.1f}" width="{:.1f}" height="{:.1f}"/>')
    return drawn.format(kind, left, _HEIGHT - height, width, height)


def _svg(name: str, drawn: Markup) -> Markup:
    whole = Markup(
        '<svg class="{}" viewBox="0 0 {} {}" preserveAspectRatio="none" aria-hidden="true">{}</svg>'
    )
    return whole.format(name, _WIDTH, _HEIGHT, drawn)
