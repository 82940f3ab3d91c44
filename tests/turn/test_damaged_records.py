"""Open turns with a record that is damaged, edited by hand, or from another program.

The turn continues, or an error says why it cannot.
"""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from midturn.events.codec import decode_event, encode_event
from midturn.events.types import (
    AnsweredBy,
    Event,
    InquiryAnswered,
    InquiryCancelled,
    InquiryRequest,
    ToolCallRequest,
    TurnEnd,
)
from midturn.question.persisted_question import PersistedQuestion
from midturn.question.question import Question
from midturn.question.reply import Answered, Submitted
from midturn.routing.policy import DetachedPolicies, ToolPolicy
from midturn.turn.inputs import CallModel, EndTurn, PromptUser, RunTool, Warn
from midturn.turn.pending import pending
from midturn.turn.visit import Visit
from support.turns import CONFIRM, DEPLOY, REGION, Played, counting_ids, settings

DEFER = settings(
    ToolPolicy(
        source=DEPLOY, run="unattended", detached=DetachedPolicies("defer", "defer", "defer")
    ),
    attached=False,
)
SOMEBODY = AnsweredBy("user", via="inbox")


def asked(*questions: Question[object]) -> tuple[Played, str]:
    """Return a turn that waits for a question."""
    played = Played(DEFER)
    (call,) = played.model_calls("deploy")
    played.asks(call, *questions)
    return played, call


def damaged(event: Event) -> Event:
    """Return an event as it is read when its line has lost a few bytes."""
    return decode_event(
        encode_event(event).replace(b'"question":{', b'"question":', 1)[:-1], "events.jsonl:4"
    )


def edited(events: list[Event], answer: object) -> list[Event]:
    """Return the events after a user has changed an answer with an editor."""
    return [replace(e, answer=answer) if isinstance(e, InquiryAnswered) else e for e in events]


# Invalid answers
# --------------------------------------------------------------------------------------------------


def test_an_invalid_recorded_answer_is_reported_and_asked_again() -> None:
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
    assert warning.event == next(
        event.event_id for event in played.events if isinstance(event, InquiryAnswered)
    )
    resumed.answer(False)
    assert resumed.run.answers == {"confirm": False}


def test_in_a_form_only_the_invalid_answer_is_asked_again() -> None:
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


# IDs
# --------------------------------------------------------------------------------------------------


def test_the_id_of_an_unreadable_request_is_not_reused() -> None:
    played, call = asked(CONFIRM)
    events = [
        damaged(event) if isinstance(event, InquiryRequest) else event for event in played.events
    ]

    resumed = Played(events=events)
    resumed.asks(call, CONFIRM)

    assert [request.id for request in resumed.recorded(InquiryRequest)] == ["call_1.confirm.2"]


def test_a_question_next_to_an_unreadable_one_can_be_answered() -> None:
    played, call = asked(CONFIRM)
    events = [
        damaged(event) if isinstance(event, InquiryRequest) else event for event in played.events
    ]
    resumed = Played(DEFER, events)
    resumed.asks(call, CONFIRM)
    (waiting,) = pending(resumed.events, "1")

    batch = Visit(resumed.events, waiting.request.event_id, counting_ids(50)).take(
        Answered(True), SOMEBODY
    )

    assert [type(event) for event in batch] == [InquiryAnswered]


# Duplicate lines
# --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("twice", ["tool_call_request", "inquiry_request", "both"])
def test_a_turn_with_a_duplicate_line_is_completed(twice: str) -> None:
    """For example, a file was merged from two copies. No call waits for the second request."""
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


# Calls that cannot continue
# --------------------------------------------------------------------------------------------------


def test_a_call_of_a_removed_tool_closes_its_questions_before_it_ends() -> None:
    played, _ = asked(CONFIRM)

    resumed = Played(replace(DEFER, tools={}), played.events)

    assert resumed.kinds[-2:] == ["inquiry_response", "tool_call_response"]
    assert [(e.id, e.reason) for e in resumed.recorded(InquiryCancelled)] == [
        ("call_1.confirm.1", "superseded")
    ]


def test_a_question_of_an_unreadable_call_is_not_listed() -> None:
    """It cannot be answered, because no tool would receive the answer."""
    played, _ = asked(CONFIRM)
    events = [
        (
            decode_event(b'{"type":"tool_call_request"', "events.jsonl:3")
            if e.type == "tool_call_request"
            else e
        )
        for e in played.events
    ]

    assert pending(events, "1") == []


# Turns without a start
# --------------------------------------------------------------------------------------------------


def test_a_turn_with_only_one_readable_call_continues_with_it() -> None:
    resumed = Played(
        events=[ToolCallRequest(event_id="e1", id="call_1", name="deploy", arguments={})]
    )

    assert resumed.wanted(RunTool)


def test_an_unreadable_turn_ends_as_failed() -> None:
    resumed = Played(events=[decode_event(b'{"type":"turn_start","timestamp":', "events.jsonl:1")])

    assert resumed.wanted(EndTurn)[0].status == "failed"
    assert resumed.recorded(TurnEnd)[0].error


# Turns of other programs
# --------------------------------------------------------------------------------------------------

LEGACY = InquiryRequest(
    event_id="line:4", id="call_1.confirm", source=DEPLOY, question=CONFIRM.persisted()
)


def legacy() -> Played:
    """Return a turn of a program that records neither the asking call nor its question ID."""
    played = Played(DEFER)
    played.model_calls("deploy")
    played.events.append(LEGACY)
    return played


def test_a_question_of_another_program_is_answered_and_its_tool_gets_the_answer() -> None:
    events = legacy().events
    (waiting,) = pending(events, "1")
    events += Visit(events, waiting.request.event_id, counting_ids(50)).take(
        Answered(True), SOMEBODY
    )

    resumed = Played(events=events)
    (call,) = resumed.turn.record.calls
    resumed.asks(call, CONFIRM)

    assert resumed.run.answers == {"confirm": True}
    assert len(resumed.recorded(InquiryRequest)) == 1


def test_a_question_of_another_program_is_closed_when_its_call_ends() -> None:
    resumed = Played(events=legacy().events)
    (call,) = resumed.turn.record.calls
    resumed.succeeds(call)

    assert [(e.id, e.reason) for e in resumed.recorded(InquiryCancelled)] == [
        ("call_1.confirm", "superseded")
    ]


def test_a_question_of_another_program_without_a_call_is_not_listed_and_closes_with_the_turn() -> (
    None
):
    played = Played(DEFER)
    played.model_calls("deploy", "deploy")
    events = [*played.events, LEGACY]
    assert pending(events, "1") == []

    resumed = Played(events=events)
    for call in list(resumed.turn.record.calls):
        resumed.succeeds(call)
    resumed.model_says()

    assert [(e.id, e.reason) for e in resumed.recorded(InquiryCancelled)] == [
        ("call_1.confirm", "superseded")
    ]
    assert resumed.kinds[-2:] == ["inquiry_response", "turn_end"]


def test_the_id_of_a_question_of_another_program_is_not_reused() -> None:
    played = Played(DEFER)
    (call,) = played.model_calls("deploy")
    taken = replace(
        LEGACY,
        id="call_1.region.1",
        question=PersistedQuestion(text="Where?", answer_type=REGION.answer_type),
    )
    resumed = Played(events=[*played.events, taken])

    resumed.asks(call, REGION)

    assert [request.id for request in resumed.recorded(InquiryRequest)] == [
        "call_1.region.1",
        "call_1.region.2",
    ]
    assert resumed.wanted(PromptUser)


@pytest.mark.parametrize("wrong", ["eu-1", True], ids=["first answer", "last answer"])
def test_an_approved_review_does_not_apply_to_an_answer_that_is_asked_again(wrong: object) -> None:
    played = Played()
    (call,) = played.model_calls("deploy")
    played.asks(call, REGION, CONFIRM, review=True)
    played.answer("eu-1")
    played.answer(True)
    played.reply(Submitted())

    events = [
        replace(event, answer="mars")
        if isinstance(event, InquiryAnswered) and event.answer == wrong
        else event
        for event in played.events
    ]
    resumed = Played(events=events)
    resumed.asks(call, REGION, CONFIRM, review=True)
    resumed.answer("us-2" if wrong == "eu-1" else False)

    assert resumed.prompt.prompt.kind == "review"
    resumed.reply(Submitted())
    assert resumed.run.answers == {
        "region": "us-2" if wrong == "eu-1" else "eu-1",
        "confirm": wrong == "eu-1",
    }
