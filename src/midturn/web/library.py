"""What is known of every conversation, for lists, searches and sums. Reading is what costs, so what was read is kept for a while."""

from __future__ import annotations

import time
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from datetime import UTC, date, datetime, timedelta
from statistics import median

from msgspec import Struct

from midturn.errors import MidturnError
from midturn.record.events import InquiryRequest, InquiryResponse, user_requests
from midturn.store.conversation import Conversation
from midturn.store.waited import Waited, waited_for
from midturn.turn.view import calls
from midturn.web.port import Port
from midturn.web.templating import lasted, moment
from midturn.web.timeline import waited

# ----------------------------------------------------------------------------------------------------------------------
# What was asked in a conversation, who answered, and how long it took: what sums are made of


class FormFact(Struct, frozen=True, kw_only=True):
    """One question. `by` is who answered (empty: no one, or no one yet), `closed_at` empty while it waits.

    `overturns` says, of a person's answer after a model's no, whether it was another one; None everywhere else.
    """

    tool: str
    text: str
    at: str
    closed_at: str
    by: str
    waited: float | None
    overturns: bool | None = None


def asked(conversation: Conversation) -> Iterator[FormFact]:
    """Return every question of a conversation, oldest first."""
    names = {call.event_id: call.name for call, _ in calls(conversation.events)}
    for request, response in conversation.pairs():
        yield FormFact(
            tool=names.get(request.call) or request.source.name or request.source.header,
            text=request.question.text,
            at=request.timestamp,
            closed_at=response.timestamp if response else "",
            by=_by(response),
            waited=waited(request, response),
            overturns=_overturns(request, response),
        )


def _by(response: InquiryResponse | None) -> str:
    if response is None or response.outcome == "cancelled":
        return ""
    return "user" if response.answered_by is None else response.answered_by.by


def _overturns(request: InquiryRequest, response: InquiryResponse | None) -> bool | None:
    if request.escalates is None or response is None or response.outcome != "answered" or _by(response) != "user":
        return None
    return response.answer is True


NEWEST = 1_000  # conversations that are looked at
_FRESH = 30.0  # seconds for which a conversation is not read again
_OLD = 600.0  # seconds for which a finished one is not


class Summary(Struct, frozen=True, kw_only=True):
    """One conversation in a list, and what was asked in it."""

    id: str
    title: str
    labels: tuple[str, ...]
    turns: int
    is_open: bool
    at: str
    words: str
    asked: tuple[FormFact, ...]
    waited: tuple[Waited, ...] = ()


class Library:
    """Reads conversations, the newest first."""

    def __init__(self, port: Port) -> None:
        self._port = port
        self._kept: dict[str, tuple[float, Summary]] = {}

    async def newest(self, limit: int = NEWEST) -> list[Summary]:
        """Return the newest conversations; one that cannot be read is left out."""
        ids = await self._port.newest(limit)
        found = [summary for id in ids if (summary := await self._summary(id))]  # noqa: A001  the wire's word
        self._kept = {id: self._kept[id] for id in ids if id in self._kept}  # noqa: A001  as above
        return found

    async def _summary(self, id: str) -> Summary | None:
        read_at, kept = self._kept.get(id, (0.0, None))
        age = time.monotonic() - read_at
        if kept and age < (_FRESH if kept.is_open else _OLD):
            return kept
        try:
            summary = _summarized(await self._port.read(id))
        except MidturnError:
            return None
        self._kept[id] = (time.monotonic(), summary)
        return summary

    def forget(self, id: str) -> None:
        """Read a conversation again when it is asked for: something happened in it."""
        self._kept.pop(id, None)


def fitting(summaries: Sequence[Summary], words: str, label: str) -> list[Summary]:
    """Return those in whose title, labels and requests all the words stand, and that have the label."""
    wanted = words.casefold().split()
    return [one for one in summaries if (not label or label in one.labels) and all(word in one.words for word in wanted)]


def _summarized(conversation: Conversation) -> Summary:
    requests = [request.content for request in user_requests(conversation.events)]
    turns = conversation.turns
    return Summary(
        id=conversation.id,
        title=conversation.title,
        labels=tuple(conversation.metadata.labels),
        turns=len(turns),
        is_open=bool(turns) and turns[-1].open,
        at=conversation.events[-1].timestamp if conversation.events else "",
        words="\n".join((conversation.id, conversation.title, *conversation.metadata.labels, *requests)).casefold(),
        asked=tuple(asked(conversation)),
        waited=tuple(waited_for(conversation.events)),
    )


# ----------------------------------------------------------------------------------------------------------------------
# Sums over what was asked: how much waits, for how long, who answers


_DAYS = 30
_ROWS = 10
_NAMES = {
    "user": "People",
    "policy": "Policies of programs",
    "assistant": "Models",
    "static": "Configuration",
    "configuration": "Rules of the configuration",
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


def sums(facts: Iterable[FormFact], today: date | None = None) -> Sums:
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


def _days(every: Sequence[FormFact], today: date) -> list[tuple[date, int]]:
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


def _waiting(every: Sequence[FormFact]) -> list[SumRow]:
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
