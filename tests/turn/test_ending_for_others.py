"""Ending a turn with an open question for other people.

It can be ended at the prompt, by Ctrl-C, and from outside.
"""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from midturn.events.types import AnsweredBy, InquiryCancelled, InquiryRequest, TurnEnd
from midturn.question.form import Form
from midturn.question.people import People
from midturn.question.question import Question
from midturn.question.reply import Answered, EndedTurn
from midturn.routing.policy import ToolPolicy
from midturn.turn.inputs import (
    AnsweredElsewhere,
    FormWanted,
    Interrupted,
    PromptUser,
    SuspendTurn,
    ToolReturned,
    Warn,
)
from midturn.turn.record import TurnRecord
from support.turns import DEPLOY, Played, settings

OPS = People(ask=["ops"], only=True, members={"ops": ["ana", "bo"]})
ANA, CARL = (AnsweredBy("user", via="web", user=name) for name in ("ana", "carl"))
OWNER, AGENT = (
    AnsweredBy("owner", via="inbox", user="root"),
    AnsweredBy("agent", via="api", user="planner"),
)


def both_asked(*, attached: bool, at_prompt: AnsweredBy = CARL, people: People = OPS) -> Played:
    """Play two calls. One asks anyone, and the other asks certain people."""
    played = Played(
        settings(
            ToolPolicy(source=DEPLOY, run="unattended"), attached=attached, at_prompt=at_prompt
        )
    )
    first, second = played.model_calls("deploy", "deploy")
    anyone, ops = (
        Question.boolean("any", "Say hello?"),
        Question.boolean("go", "Deploy?", people=people),
    )
    played.meanwhile(ToolReturned(second, FormWanted(Form([ops]), DEPLOY)))
    played.meanwhile(ToolReturned(first, FormWanted(Form([anyone]), DEPLOY)))
    return played


def request_of(played: Played, question: str) -> str:
    return next(
        event.event_id for event in played.recorded(InquiryRequest) if event.question_id == question
    )


@pytest.mark.parametrize("question", ["any", "go"])
@pytest.mark.parametrize(
    "who", [CARL, AnsweredBy("user"), AGENT, AnsweredBy("policy", name="Rules")]
)
def test_a_turn_cannot_be_ended_from_outside_by_a_person_who_may_not_decide(
    question: str, who: AnsweredBy
) -> None:
    played = both_asked(attached=False)
    played.meanwhile(AnsweredElsewhere(request_of(played, question), EndedTurn(), who))
    played.meanwhile(AnsweredElsewhere(played.events[0].event_id, EndedTurn(), who))
    assert not played.recorded(TurnEnd)
    assert not played.recorded(InquiryCancelled)


@pytest.mark.parametrize("who", [ANA, OWNER])
def test_a_person_who_may_decide_everything_and_the_owner_can_end_the_turn(who: AnsweredBy) -> None:
    played = both_asked(attached=False)
    played.meanwhile(AnsweredElsewhere(played.events[0].event_id, EndedTurn(), who))
    (end,) = played.recorded(TurnEnd)
    assert (end.status, end.ended_by) == ("ended_by_user", who)


def test_an_owner_cannot_answer_for_others() -> None:
    played = both_asked(attached=False)
    played.meanwhile(AnsweredElsewhere(request_of(played, "go"), Answered(True), OWNER))
    assert not [event for event in played.events if event.type == "inquiry_response"]


def test_ctrl_c_leaves_the_turn_open_for_others() -> None:
    played = both_asked(attached=True)
    played.meanwhile(Interrupted())
    (warning,) = played.wanted(Warn)
    assert "The turn stays open." in warning.text
    assert "carl may not answer this: only ana and bo may." in warning.text
    assert played.wanted(SuspendTurn)
    assert played.turn.is_over
    assert not played.recorded(TurnEnd)
    assert not played.recorded(InquiryCancelled)
    again = Played(played.settings, played.events)
    assert again.wanted(PromptUser) or again.turn.record.open_ids


def test_ending_at_ones_own_prompt_leaves_the_turn_open_for_others() -> None:
    played = both_asked(attached=True)
    (shown,) = played.wanted(PromptUser)
    assert shown.prompt.question.id == "any"
    played.reply(EndedTurn(), CARL)
    assert played.wanted(SuspendTurn)
    assert not played.recorded(TurnEnd)
    assert not played.recorded(InquiryCancelled)


@pytest.mark.parametrize(("people", "at_prompt"), [(OPS, ANA), (replace(OPS, only=False), CARL)])
def test_ctrl_c_ends_a_turn_without_questions_for_others_only(
    people: People, at_prompt: AnsweredBy
) -> None:
    played = both_asked(attached=True, at_prompt=at_prompt, people=people)
    played.meanwhile(Interrupted())
    assert len(played.recorded(TurnEnd)) == 1


def test_ending_a_turn_also_needs_permission_for_nested_and_outer_turns() -> None:
    inside = both_asked(attached=False)
    record = TurnRecord()
    for event in inside.events:
        record.apply(event)
    around = Played(replace(settings(attached=False), family={"child": record}))
    around.model_calls("deploy")
    around.meanwhile(AnsweredElsewhere(around.events[0].event_id, EndedTurn(), CARL))
    assert not around.recorded(TurnEnd)
    around.meanwhile(AnsweredElsewhere(around.events[0].event_id, EndedTurn(), ANA))
    assert len(around.recorded(TurnEnd)) == 1
