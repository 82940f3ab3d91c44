"""Waiting times for people, computed from the log."""

from __future__ import annotations

from midturn.events.types import (
    AnsweredBy,
    Approval,
    Escalated,
    Event,
    InquiryAnswered,
    InquiryCancelled,
    InquiryRequest,
    Reassigned,
    Reminded,
    Source,
    TurnEnd,
    Vote,
)
from midturn.question.answer_type import BooleanType
from midturn.question.people import People
from midturn.question.persisted_question import PersistedQuestion
from midturn.stores.response_times import people_sums, waited_for

OPS = People(ask=("ops",), approvals=2, members={"ops": ("ana", "bo"), "leads": ("cy",)})
QUESTION = PersistedQuestion(text="Deploy?", answer_type=BooleanType())


def time_at(minutes: int) -> str:
    """Return the time this many minutes after noon."""
    return f"2030-01-01T{12 + minutes // 60:02}:{minutes % 60:02}:00.000000Z"


def asked(id: str, minutes: int = 0, people: People | None = OPS) -> InquiryRequest:
    """Return a question asked at that time."""
    return InquiryRequest(
        id=id,
        source=Source.tool("deploy"),
        question=QUESTION,
        people=people,
        timestamp=time_at(minutes),
    )


def person(user: str | None) -> AnsweredBy:
    return AnsweredBy("user", user=user)


def test_waiting_time_is_summed_by_person_and_group() -> None:
    events: list[Event] = [
        asked("q1"),
        Reminded(id="q1", number=1, timestamp=time_at(30)),
        Vote(id="q1", answered_by=person("ana"), timestamp=time_at(40)),
        Escalated(id="q1", number=1, to=("leads",), timestamp=time_at(50)),
        InquiryAnswered(id="q1", answer=True, answered_by=person("cy"), timestamp=time_at(60)),
        asked("q2", 100),
        Vote(id="q2", answered_by=person("ana"), timestamp=time_at(110)),
        Vote(id="q2", answer=False, answered_by=person("bo"), timestamp=time_at(120)),
        InquiryAnswered(id="q2", answer=False, answered_by=person("bo"), timestamp=time_at(120)),
        asked("q3", 130),
        Reassigned(id="q3", to=("leads",), timestamp=time_at(131)),
        InquiryCancelled(id="q3", reason="deadline", timestamp=time_at(190)),
        Approval(id="a1", call="c", kind="run", state="waiting", timestamp=time_at(200)),
        Approval(id="a1", call="c", kind="run", state="expired", timestamp=time_at(260)),
        asked("q4", 270, None),
        InquiryAnswered(id="q4", answer=True, answered_by=person(None), timestamp=time_at(271)),
    ]
    sums = people_sums(waited_for(events))
    assert [(row.name, row.answers, row.half, row.longest) for row in sums.people] == [
        ("cy", 1, 3600.0, 3600.0),
        ("ana", 2, 1500.0, 2400.0),
        ("bo", 1, 1200.0, 1200.0),
        ("(no name)", 1, 60.0, 60.0),
    ]
    assert [(row.name, row.answers, row.half) for row in sums.groups] == [
        ("leads", 1, 3600.0),
        ("ops", 2, 2400.0),
    ]
    counted = (
        sums.asked,
        sums.reminders,
        sums.escalations,
        sums.deadlines_missed,
        sums.votes_overturned,
    )
    assert counted == (5, 1, 1, 2, 1)


def test_questions_without_people_are_left_out() -> None:
    events: list[Event] = [
        asked("q1", people=None),
        InquiryAnswered(
            id="q1", answer=True, answered_by=AnsweredBy("assistant"), timestamp=time_at(1)
        ),
        asked("q2", people=None),
        InquiryCancelled(id="q2", reason="superseded", timestamp=time_at(2)),
        asked("q3", people=None),
        TurnEnd(status="ended_by_user"),
        InquiryAnswered(id="q3", answer=True, answered_by=person("ana"), timestamp=time_at(3)),
    ]
    assert list(waited_for(events)) == []


def test_withdrawn_vote_does_not_count() -> None:
    events: list[Event] = [
        asked("q1"),
        Vote(id="q1", answered_by=person("ana"), timestamp=time_at(1)),
        Vote(id="q1", answered_by=person("ana"), withdrawn=True, timestamp=time_at(2)),
        InquiryAnswered(id="q1", answer=False, answered_by=person("bo"), timestamp=time_at(3)),
    ]
    sums = people_sums(waited_for(events))
    assert ([row.name for row in sums.people], sums.votes_overturned) == (["bo"], 0)
