"""Response times by person and by group, with the numbers of reminders, escalations, missed
deadlines, and votes for questions that were then refused.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from itertools import takewhile
from statistics import median
from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from midturn.events import types as ev
from midturn.events.window import ends_turn, turns
from midturn.question.json_value import Json
from midturn.turn.view import TurnView

NAMELESS: Final = "(no name)"
"""Placeholder for people without a known name."""


class ResponseTime(Struct, kw_only=True):
    """Response time of the people who were asked one question.

    Args:
        asked_at: Time at which the question was asked; None if it cannot be read.
        known: The groups whose members were recorded with the question.
        answers: Seconds until each person answered or voted, by name.
        groups: The groups that the question was assigned to.
        reminders: Number of reminders.
        escalations: Number of escalations.
        is_missed: Whether the deadline passed without an answer.
        overturned: Number of people who voted yes before the question was refused.
    """

    asked_at: datetime | None
    known: tuple[str, ...] = ()
    answers: dict[str, float] = {}
    groups: tuple[str, ...] = ()
    reminders: int = 0
    escalations: int = 0
    is_missed: bool = False
    overturned: int = 0


class WaitRow(Struct, frozen=True):
    """The answers of one person or group. Times are in seconds. `half` is the median."""

    name: str
    answers: int
    half: float
    longest: float

    def to_json(self) -> dict[str, Json]:
        """Return the row as JSON."""
        return {
            "name": self.name,
            "answers": self.answers,
            "half_within_seconds": self.half,
            "longest_seconds": self.longest,
        }


class PeopleStatistics(Struct, frozen=True, kw_only=True):
    """Statistics of the people who were asked. `people` and `groups` have one row each, the
    slowest first.
    """

    asked: int
    people: tuple[WaitRow, ...]
    groups: tuple[WaitRow, ...]
    reminders: int
    escalations: int
    deadlines_missed: int
    votes_overturned: int

    def to_json(self) -> dict[str, Json]:
        """Return the statistics as JSON."""
        return {
            "asked": self.asked,
            "people": [row.to_json() for row in self.people],
            "groups": [row.to_json() for row in self.groups],
            "reminders": self.reminders,
            "escalations": self.escalations,
            "deadlines_missed": self.deadlines_missed,
            "votes_overturned": self.votes_overturned,
        }


def waited_for(events: Iterable[ev.Event]) -> Iterator[ResponseTime]:
    """Yield the closed questions of a conversation that were assigned to people, except questions
    that only models or settings decided.
    """
    for window in turns(events):
        # Another version wrote the events after the end of a turn. They do not affect the turn.
        view = TurnView(
            replace(
                window, events=tuple(takewhile(lambda event: not ends_turn(event), window.events))
            )
        )
        for request, decision in view.decided:
            about = ResponseTime(
                asked_at=_at(request), known=tuple(request.people.members) if request.people else ()
            )
            _put_to(about, request.people.ask if request.people else ())
            for note in view.record.notes.get(request.id, ()):
                _noted(about, note)
            if _decided(about, decision):
                yield about


def people_sums(facts: Iterable[ResponseTime]) -> PeopleStatistics:
    """Return the statistics of these response times."""
    every = list(facts)
    people: defaultdict[str, list[float]] = defaultdict(list)
    groups: defaultdict[str, list[float]] = defaultdict(list)
    for one in every:
        for name, seconds in one.answers.items():
            people[name].append(seconds)
        for group in one.groups if one.answers else ():
            groups[group].append(max(one.answers.values()))
    return PeopleStatistics(
        asked=len(every),
        people=_rows(people),
        groups=_rows(groups),
        reminders=sum(one.reminders for one in every),
        escalations=sum(one.escalations for one in every),
        deadlines_missed=sum(one.is_missed for one in every),
        votes_overturned=sum(one.overturned for one in every),
    )


def _rows(times: Mapping[str, Sequence[float]]) -> tuple[WaitRow, ...]:
    rows = [WaitRow(name, len(waits), median(waits), max(waits)) for name, waits in times.items()]
    return tuple(sorted(rows, key=lambda row: (-row.half, row.name)))


def _decided(about: ResponseTime, decision: ev.InquiryResponse | ev.Approval) -> bool:
    """Record the end of a question; return whether people decided it."""
    if isinstance(decision, ev.InquiryCancelled):
        about.is_missed = decision.reason == "deadline"
        return about.is_missed or bool(about.answers)
    about.is_missed = isinstance(decision, ev.Approval) and decision.state == "expired"
    is_no = (
        decision.state == "skipped"
        if isinstance(decision, ev.Approval)
        else isinstance(decision, ev.InquiryAnswered) and not decision.answer
    )
    who = decision.answered_by
    about.overturned = (
        len(about.answers.keys() - {who.user if who else ""}) if is_no else 0
    )  # the refusal itself counts as a vote
    if who is not None and who.by == "user":
        _answered(about, who, decision)
    return about.is_missed or bool(about.answers)


def _noted(about: ResponseTime, note: ev.Note) -> None:
    match note:
        case ev.Vote(answered_by=ev.AnsweredBy() as who, withdrawn=True):
            about.answers.pop(who.user or NAMELESS, None)
        case ev.Vote(answered_by=ev.AnsweredBy() as who):
            _answered(about, who, note)
        case ev.Reassigned(to=to):
            about.groups = ()
            _put_to(about, to)
        case ev.Reminded():
            about.reminders += 1
        case ev.Escalated(to=to):
            about.escalations += 1
            _put_to(about, to)
        case _:
            pass


def _answered(about: ResponseTime, who: ev.AnsweredBy, event: ev.Event) -> None:
    at = _at(event)
    if at is not None and about.asked_at is not None:
        about.answers.setdefault(
            who.user or NAMELESS, max(0.0, (at - about.asked_at).total_seconds())
        )


def _put_to(about: ResponseTime, names: Iterable[str]) -> None:
    about.groups = (
        *about.groups,
        *(name for name in names if name in about.known and name not in about.groups),
    )


def _at(event: ev.Event) -> datetime | None:
    """Return the time at which an event was recorded, or None if the time cannot be read."""
    try:
        return event.at.astimezone(UTC)
    except (ValueError, OverflowError):
        return None
