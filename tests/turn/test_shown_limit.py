"""`limits.shown` counts questions only while nobody is attached.

An attached person can end the turn instead.
"""

from __future__ import annotations

from midturn.events.types import AnsweredBy, InquiryCancelled, InquiryRequest, ToolCallResponse
from midturn.question.form import Form
from midturn.question.json_value import Limits
from midturn.question.people import People
from midturn.question.question import Question
from midturn.question.reply import Answered
from midturn.turn.inputs import AnsweredElsewhere, FormWanted, ToolReturned
from support.turns import DEPLOY, Played, settings

LIMITS = Limits(shown=2)
OPS = People(ask=["ops"], members={"ops": ["ana", "bo"]})


def questions(count: int, people: People | None = None) -> list[Question[bool]]:
    """Return `count` different questions."""
    return [
        Question.boolean(f"q{number}", f"Deploy {number}?", people=people)
        for number in range(count)
    ]


def test_questions_to_an_attached_person_are_not_limited() -> None:
    played = Played(settings(limits=LIMITS))
    (call,) = played.model_calls("deploy")
    for question in questions(30):
        played.asks(call, question)
        played.answer(True)
    played.succeeds(call)

    assert played.recorded(InquiryCancelled) == []


def test_detached_questions_for_people_are_limited_and_the_message_names_the_setting() -> None:
    played = Played(settings(limits=Limits(shown=1), attached=False))
    (call,) = played.model_calls("deploy")
    first, second = questions(2, OPS)
    played.meanwhile(ToolReturned(call, FormWanted(Form([first]), DEPLOY)))
    (request,) = played.recorded(InquiryRequest)
    played.meanwhile(
        AnsweredElsewhere(request.event_id, Answered(True), AnsweredBy("user", user="ana"))
    )
    played.meanwhile(ToolReturned(call, FormWanted(Form([second]), DEPLOY)))

    assert [event.metadata for event in played.recorded(InquiryCancelled)] == [{"limit": "shown"}]
    (response,) = played.recorded(ToolCallResponse)
    assert (
        response.content
        == "deploy: stopped after 1 different questions in this turn (limits.shown). Do not retry"
        " this tool call in this turn."
    )
