"""Errors for late answers: one message for each way in which a question is closed."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from msgspec.structs import replace

from midturn.errors import AlreadyAnswered, MidturnError, NotOpen
from midturn.events.open_question import Address
from midturn.events.types import AnsweredBy, Event, InquiryRequest, TurnEnd
from midturn.question.question import Question
from midturn.question.reply import Answered, EndedTurn, Replied, Reply, WentBack
from midturn.routing.policy import DetachedPolicies
from midturn.turn.ending import ending_batch, failed
from midturn.turn.view import TurnView, describe, why_closed
from midturn.turn.visit import Visit
from support.turns import CONFIRM, REGION, UNATTENDED, Played, counting_ids, settings

ANA = AnsweredBy("user", via="inbox", user="ana")
DETACHED = settings(
    replace(UNATTENDED, detached=DetachedPolicies("defer", "defer", "defer")), attached=False
)


def asked(*questions: Question[bool] | Question[str]) -> list[Event]:
    """Return a turn that waits for an answer."""
    played = Played(DETACHED)
    (call,) = played.model_calls("deploy")
    played.asks(call, *questions)
    return played.events


def replied(events: Sequence[Event], *replies: Reply) -> list[Event]:
    """Return the turn after replies to its questions."""
    visit = Visit(events, last_asked(events), counting_ids(100))
    return [*events, *(event for reply in replies for event in visit.take(reply, ANA))]


def last_asked(events: Sequence[Event]) -> str:
    """Return the event ID of the latest question."""
    return next(event.event_id for event in reversed(events) if isinstance(event, InquiryRequest))


def error_for(events: Sequence[Event], event_id: str) -> MidturnError:
    """Return the error for an answer. A visit has the same error."""
    error = why_closed(events, Address("17", event_id))
    with pytest.raises(type(error)) as visited:
        Visit(events, event_id, counting_ids(200), "17")
    assert str(visited.value) == str(error)
    return error


def test_an_answered_question_names_the_responder() -> None:
    error = error_for(replied(asked(CONFIRM), Answered(True)), "e4")

    assert isinstance(error, AlreadyAnswered)
    assert (
        str(error) == "The question 17-e4 was answered before, by ana (inbox). That answer stands."
    )
    assert error.answered_by
    assert (error.answered_by.who, error.answered_by.via) == ("ana", "inbox")


@pytest.mark.parametrize(
    ("reply", "why"),
    [
        (Replied("Not now."), "a reply was given instead"),
        (EndedTurn(), "its turn was ended by ana (inbox)"),
    ],
)
def test_a_withdrawn_question_names_the_cause(reply: Reply, why: str) -> None:
    error = error_for(replied(asked(CONFIRM), reply), "e4")

    assert isinstance(error, NotOpen)
    assert str(error) == f"The question 17-e4 is closed: {why}."


def test_a_question_closed_by_back_is_reported_as_such() -> None:
    events = replied(asked(CONFIRM, REGION), Answered(True), WentBack())
    region = next(
        event
        for event in events
        if isinstance(event, InquiryRequest) and event.question_id == "region"
    )

    assert (
        str(error_for(events, region.event_id))
        == f"The question 17-{region.event_id} is closed: an earlier question is asked again."
    )


def test_a_question_that_its_tool_no_longer_asks_is_reported_as_such() -> None:
    again = Played(DETACHED, asked(CONFIRM))
    (call,) = again.turn.record.calls
    again.asks(call, Question.boolean("confirm", "Deploy all of it?"))

    assert (
        str(error_for(again.events, "e4"))
        == "The question 17-e4 is closed: it is not asked any more."
    )


def test_a_question_of_a_failed_turn_is_reported_as_such() -> None:
    events = asked(CONFIRM)
    events += ending_batch(events, failed("the model is away", "user"), counting_ids(100))

    assert isinstance(events[-1], TurnEnd)
    assert str(error_for(events, "e4")) == "The question 17-e4 is closed: its turn is over."


def test_an_unknown_question_is_reported() -> None:
    assert str(error_for(asked(CONFIRM), "e77")) == "There is no question '17-e77'."


def test_an_open_question_has_no_answer() -> None:
    assert TurnView.last(asked(CONFIRM)).answer("e4") is None


@pytest.mark.parametrize(
    ("by", "said"),
    [
        (None, ""),
        (ANA, "ana (inbox)"),
        (AnsweredBy("user", via="web"), "a person (web)"),
        (AnsweredBy("assistant", model="openai/gpt"), "openai/gpt"),
        (AnsweredBy("static", origin="--answer"), "the configuration (--answer)"),
        (AnsweredBy("policy", name="nights"), "the policy nights"),
        (AnsweredBy("cached"), "an earlier answer"),
        (AnsweredBy("oracle"), "oracle"),
    ],
)
def test_the_responder_is_named(by: AnsweredBy | None, said: str) -> None:
    assert describe(by) == said
