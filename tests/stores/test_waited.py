"""Time that people were waited for, read from the log."""

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


def at(minutes: int) -> str:
    """Return a moment so many minutes after noon."""
    return f"2030-01-01T{12 + minutes // 60:02}:{minutes % 60:02}:00.000000Z"


def asked(id: str, minutes: int = 0, people: People | None = OPS) -> InquiryRequest:
    """Return a question that was asked then."""
    return InquiryRequest(id=id, source=Source.tool("deploy"), question=QUESTION, people=people, timestamp=at(minutes))


def by(user: str | None) -> AnsweredBy:
    """Return a person."""
    return AnsweredBy("user", user=user)


def test_the_time_of_each_person_and_group_is_added_up_with_what_they_needed() -> None:
    events: list[Event] = [
        asked("q1"),
        Reminded(id="q1", number=1, timestamp=at(30)),
        Vote(id="q1", answered_by=by("ana"), timestamp=at(40)),
        Escalated(id="q1", number=1, to=("leads",), timestamp=at(50)),
        InquiryAnswered(id="q1", answer=True, answered_by=by("cy"), timestamp=at(60)),
        asked("q2", 100),
        Vote(id="q2", answered_by=by("ana"), timestamp=at(110)),
        Vote(id="q2", answer=False, answered_by=by("bo"), timestamp=at(120)),
        InquiryAnswered(id="q2", answer=False, answered_by=by("bo"), timestamp=at(120)),
        asked("q3", 130),
        Reassigned(id="q3", to=("leads",), timestamp=at(131)),
        InquiryCancelled(id="q3", reason="deadline", timestamp=at(190)),
        Approval(id="a1", call="c", kind="run", state="waiting", timestamp=at(200)),
        Approval(id="a1", call="c", kind="run", state="expired", timestamp=at(260)),
        asked("q4", 270, None),
        InquiryAnswered(id="q4", answer=True, answered_by=by(None), timestamp=at(271)),
    ]
    sums = people_sums(waited_for(events))
    assert [(row.name, row.answers, row.half, row.longest) for row in sums.people] == [
        ("cy", 1, 3600.0, 3600.0),
        ("ana", 2, 1500.0, 2400.0),
        ("bo", 1, 1200.0, 1200.0),
        ("(no name)", 1, 60.0, 60.0),
    ]
    assert [(row.name, row.answers, row.half) for row in sums.groups] == [("leads", 1, 3600.0), ("ops", 2, 2400.0)]
    counted = (sums.asked, sums.reminders, sums.escalations, sums.deadlines_missed, sums.votes_overturned)
    assert counted == (5, 1, 1, 2, 1)


def test_what_no_person_had_to_do_with_is_left_out() -> None:
    events: list[Event] = [
        asked("q1", people=None),
        InquiryAnswered(id="q1", answer=True, answered_by=AnsweredBy("assistant"), timestamp=at(1)),
        asked("q2", people=None),
        InquiryCancelled(id="q2", reason="superseded", timestamp=at(2)),
        asked("q3", people=None),
        TurnEnd(status="ended_by_user"),
        InquiryAnswered(id="q3", answer=True, answered_by=by("ana"), timestamp=at(3)),
    ]
    assert list(waited_for(events)) == []


def test_a_vote_that_was_taken_back_counts_for_nothing() -> None:
    events: list[Event] = [
        asked("q1"),
        Vote(id="q1", answered_by=by("ana"), timestamp=at(1)),
        Vote(id="q1", answered_by=by("ana"), withdrawn=True, timestamp=at(2)),
        InquiryAnswered(id="q1", answer=False, answered_by=by("bo"), timestamp=at(3)),
    ]
    sums = people_sums(waited_for(events))
    assert ([row.name for row in sums.people], sums.votes_overturned) == (["bo"], 0)
