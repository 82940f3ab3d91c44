"""An open turn whose record was damaged, edited by hand, or written by another program: it goes on, or says why it cannot."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from midturn.events.codec import decode_event, encode_event
from midturn.events.types import AnsweredBy, Event, InquiryAnswered, InquiryCancelled, InquiryRequest, ToolCallRequest, TurnEnd
from midturn.question.persisted_question import PersistedQuestion
from midturn.question.question import Question
from midturn.question.reply import Answered
from midturn.routing.policy import DetachedPolicies, ToolPolicy
from midturn.turn.pending import pending
from midturn.turn.step import CallModel, EndTurn, PromptUser, RunTool, Warn
from midturn.turn.visit import Visit
from support.turns import CONFIRM, DEPLOY, REGION, Played, counting_ids, settings

DEFER = settings(ToolPolicy(source=DEPLOY, run="unattended", detached=DetachedPolicies("defer", "defer", "defer")), attached=False)
SOMEBODY = AnsweredBy("user", via="inbox")


def asked(*questions: Question[object]) -> tuple[Played, str]:
    """Return a turn that waits for a question."""
    played = Played(DEFER)
    (call,) = played.model_calls("deploy")
    played.asks(call, *questions)
    return played, call


def damaged(event: Event) -> Event:
    """Return an event as it is read when its line has lost a few bytes."""
    return decode_event(encode_event(event).replace(b'"question":{', b'"question":', 1)[:-1], "events.jsonl:4")


def edited(events: list[Event], answer: object) -> list[Event]:
    """Return the events after somebody has changed an answer with an editor."""
    return [replace(e, answer=answer) if isinstance(e, InquiryAnswered) else e for e in events]


# An answer that does not fit ----------------------------------------------------------------------------------------------


def test_a_recorded_answer_that_does_not_fit_is_reported_and_asked_for_again() -> None:
    played = Played()
    (call,) = played.model_calls("deploy")
    played.asks(call, CONFIRM)
    played.answer(True)

    resumed = Played(events=edited(played.events, "perhaps"))
    resumed.asks(call, CONFIRM)

    assert resumed.prompt.id == resumed.asked_as("call_1.confirm.2")
    (warning,) = resumed.wanted(Warn)
    assert "Deploy to staging?" in warning.text
    assert "asked again" in warning.text
    assert warning.event == next(event.event_id for event in played.events if isinstance(event, InquiryAnswered))
    resumed.answer(False)
    assert resumed.run.answers == {"confirm": False}


def test_in_a_form_only_the_answer_that_does_not_fit_is_asked_for_again() -> None:
    played = Played()
    (call,) = played.model_calls("deploy")
    played.asks(call, REGION, CONFIRM)
    played.answer("eu-1")

    resumed = Played(events=edited(played.events, "mars"))
    resumed.asks(call, REGION, CONFIRM)
    assert resumed.prompt.prompt.question.id == "region"
    resumed.answer("us-2")
    resumed.answer(True)

    assert resumed.run.answers == {"region": "us-2", "confirm": True}


# Ids ----------------------------------------------------------------------------------------------------------------------


def test_the_id_of_a_request_that_cannot_be_read_is_not_given_out_again() -> None:
    played, call = asked(CONFIRM)
    events = [damaged(event) if isinstance(event, InquiryRequest) else event for event in played.events]

    resumed = Played(events=events)
    resumed.asks(call, CONFIRM)

    assert [request.id for request in resumed.recorded(InquiryRequest)] == ["call_1.confirm.2"]


def test_a_question_can_be_answered_beside_one_that_cannot_be_read() -> None:
    played, call = asked(CONFIRM)
    events = [damaged(event) if isinstance(event, InquiryRequest) else event for event in played.events]
    resumed = Played(DEFER, events)
    resumed.asks(call, CONFIRM)
    (waiting,) = pending(resumed.events, "1")

    batch = Visit(resumed.events, waiting.request.event_id, counting_ids(50)).take(Answered(True), SOMEBODY)

    assert [type(event) for event in batch] == [InquiryAnswered]


# Lines that stand there twice ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("twice", ["tool_call_request", "inquiry_request", "both"])
def test_a_turn_in_which_a_line_stands_twice_goes_on_to_its_end(twice: str) -> None:
    """A file was put together from two copies. Nobody waits for the second one for ever."""
    played, call = asked(CONFIRM)
    doubled = [event for event in played.events for _ in range(2 if event.type == twice else 1)]
    if twice == "both":
        doubled = [*played.events, *played.events[2:]]

    resumed = Played(events=doubled)
    resumed.asks(call, CONFIRM)
    assert resumed.prompt.id == resumed.asked_as("call_1.confirm.1")
    resumed.answer(True)
    resumed.succeeds(call)
    assert resumed.wanted(CallModel)
    resumed.model_says()

    assert resumed.wanted(EndTurn)[0].status == "completed"
    assert [event.id for event in resumed.recorded(InquiryAnswered)] == ["call_1.confirm.1"]
    assert resumed.recorded(InquiryCancelled) == []


# Calls that cannot go on --------------------------------------------------------------------------------------------------


def test_a_call_whose_tool_is_gone_closes_its_questions_before_it_ends() -> None:
    played, _ = asked(CONFIRM)

    resumed = Played(replace(DEFER, tools={}), played.events)

    assert resumed.kinds[-2:] == ["inquiry_response", "tool_call_response"]
    assert [(e.id, e.reason) for e in resumed.recorded(InquiryCancelled)] == [("call_1.confirm.1", "superseded")]


def test_a_question_whose_call_cannot_be_read_is_not_listed() -> None:
    """Nobody can answer it: no tool would hear of it."""
    played, _ = asked(CONFIRM)
    events = [decode_event(b'{"type":"tool_call_request"', "events.jsonl:3") if e.type == "tool_call_request" else e for e in played.events]

    assert pending(events, "1") == []


# Turns without a beginning ------------------------------------------------------------------------------------------------


def test_a_turn_of_which_only_a_call_can_be_read_goes_on_with_it() -> None:
    resumed = Played(events=[ToolCallRequest(event_id="e1", id="call_1", name="deploy", arguments={})])

    assert resumed.wanted(RunTool)


def test_a_turn_of_which_nothing_can_be_read_ends_as_failed() -> None:
    resumed = Played(events=[decode_event(b'{"type":"turn_start","timestamp":', "events.jsonl:1")])

    assert resumed.wanted(EndTurn)[0].status == "failed"
    assert resumed.recorded(TurnEnd)[0].error


# Turns of other programs --------------------------------------------------------------------------------------------------

LEGACY = InquiryRequest(event_id="line:4", id="call_1.confirm", source=DEPLOY, question=CONFIRM.persisted())


def legacy() -> Played:
    """Return a turn of a program that says neither which call asks nor under which id."""
    played = Played(DEFER)
    played.model_calls("deploy")
    played.events.append(LEGACY)
    return played


def test_an_open_question_of_another_program_is_answered_and_the_answer_reaches_its_tool() -> None:
    events = legacy().events
    (waiting,) = pending(events, "1")
    events += Visit(events, waiting.request.event_id, counting_ids(50)).take(Answered(True), SOMEBODY)

    resumed = Played(events=events)
    (call,) = resumed.turn.record.calls
    resumed.asks(call, CONFIRM)

    assert resumed.run.answers == {"confirm": True}
    assert len(resumed.recorded(InquiryRequest)) == 1


def test_an_open_question_of_another_program_is_closed_when_its_call_ends_without_it() -> None:
    resumed = Played(events=legacy().events)
    (call,) = resumed.turn.record.calls
    resumed.succeeds(call)

    assert [(e.id, e.reason) for e in resumed.recorded(InquiryCancelled)] == [("call_1.confirm", "superseded")]


def test_a_question_of_another_program_that_belongs_to_no_call_is_not_listed_and_closes_with_the_turn() -> None:
    played = Played(DEFER)
    played.model_calls("deploy", "deploy")
    events = [*played.events, LEGACY]
    assert pending(events, "1") == []

    resumed = Played(events=events)
    for call in list(resumed.turn.record.calls):
        resumed.succeeds(call)
    resumed.model_says()

    assert [(e.id, e.reason) for e in resumed.recorded(InquiryCancelled)] == [("call_1.confirm", "superseded")]
    assert resumed.kinds[-2:] == ["inquiry_response", "turn_end"]


def test_the_id_of_a_question_of_another_program_is_not_given_out_again() -> None:
    played = Played(DEFER)
    (call,) = played.model_calls("deploy")
    taken = replace(LEGACY, id="call_1.region.1", question=PersistedQuestion(text="Where?", answer_type=REGION.answer_type))
    resumed = Played(events=[*played.events, taken])

    resumed.asks(call, REGION)

    assert [request.id for request in resumed.recorded(InquiryRequest)] == ["call_1.region.1", "call_1.region.2"]
    assert resumed.wanted(PromptUser)
