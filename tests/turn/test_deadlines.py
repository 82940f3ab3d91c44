"""Deadlines in the state machine.

The time is an input, and every prefix of a run leads to the same result.
"""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, strategies as st
from msgspec.structs import replace

from midturn.events.types import Approval, Event, InquiryCancelled, InquiryRequest, ToolCallResponse
from midturn.question.question import Question
from midturn.question.reply import Answered, WentBack
from midturn.routing.policy import DetachedPolicies, QuestionPolicy, ToolPolicy
from midturn.turn.inputs import Answer, ClosePrompt, GiveAnswers, PromptUser, RunTool, TimePassed
from midturn.turn.view import TurnView, expired_requests
from support.turns import DEPLOY, Played, counting_ids, settings

NOON, ONE, TWO = (
    "2030-01-01T12:00:00.000000Z",
    "2030-01-01T13:00:00.000000Z",
    "2030-01-01T14:00:00.000000Z",
)
FIRST = Question.from_json({"id": "first", "text": "First?", "answer_type": {"type": "boolean"}})
SECOND = Question.from_json(
    {
        "id": "second",
        "text": "Second?",
        "answer_type": {"type": "boolean"},
        "deadline_seconds": 3600,
    }
)
AGAIN = Question.from_json({"id": "again", "text": "Again?", "answer_type": {"type": "boolean"}})


def asked(played: Played) -> list[tuple[str, str]]:
    """Return each request with its deadline."""
    return [(event.question_id, event.deadline) for event in played.recorded(InquiryRequest)]


def given_answers(played: Played) -> dict[str, object]:
    """Return the answers that the coroutine received last."""
    (given,) = played.wanted(GiveAnswers)
    return {
        key: answer.value if isinstance(answer, Answer) else answer.reason
        for key, answer in given.answers.items()
    }


def test_the_earliest_deadline_includes_forms_and_questions_reopened_by_back() -> None:
    played = Played(settings())
    (call,) = played.model_calls("deploy")
    played.step(TimePassed(NOON))
    played.asks(call, FIRST, SECOND, ask=1)
    played.answer(True)
    played.reply(WentBack())
    assert asked(played) == [("first", ONE), ("second", ONE), ("first", ONE)]


def test_answers_given_before_the_deadline_are_passed_to_the_coroutine() -> None:
    played = Played(settings())
    (call,) = played.model_calls("deploy")
    played.step(TimePassed(NOON))
    played.asks(call, FIRST, SECOND, ask=1)
    played.answer(True)
    played.step(TimePassed("2030-01-01T12:59:59.000000Z"))
    assert not played.wanted(GiveAnswers)
    played.step(TimePassed(ONE))
    assert given_answers(played) == {"first": True, "second": "deadline"}
    assert [event.reason for event in played.recorded(InquiryCancelled)] == ["deadline"]


@pytest.mark.parametrize(
    ("configured", "deadline"), [(60.0, "2030-01-01T12:01:00.000000Z"), (86_400.0, ONE)]
)
def test_configuration_only_shortens_a_deadline(configured: float, deadline: str) -> None:
    policy = ToolPolicy(
        source=DEPLOY, run="unattended", questions={"*": QuestionPolicy(deadline=configured)}
    )
    played = Played(settings(policy))
    (call,) = played.model_calls("deploy")
    played.step(TimePassed(NOON))
    played.asks(call, SECOND, ask=1)
    assert asked(played) == [("second", deadline)]


def test_without_a_deadline_nothing_is_recorded_and_time_has_no_effect() -> None:
    played = Played(settings())
    (call,) = played.model_calls("deploy")
    played.step(TimePassed(NOON))
    played.asks(call, FIRST, ask=1)
    played.step(TimePassed(TWO))
    assert asked(played) == [("first", "")]
    assert not played.recorded(InquiryCancelled)


@given(cut=st.integers(0, 20), detached=st.booleans(), late=st.booleans())
def test_every_prefix_of_the_turn_leads_to_the_same_result(
    cut: int,
    detached: bool,  # noqa: FBT001
    late: bool,  # noqa: FBT001
) -> None:
    """The tool asks a form, and another question if the form was not answered in time."""
    whole = play(Played(settings()), late=late)
    events = prefix(whole, cut)
    policy = ToolPolicy(source=DEPLOY, run="unattended", detached=DetachedPolicies(tool="defer"))
    if late and TurnView.last(events).deadlines:
        events += expired_requests(TurnView.last(events), ONE, counting_ids(100))
    again = (
        play(Played(settings(policy, attached=not detached), events), late=late)
        if events
        else whole
    )
    if not detached:
        assert [event.content for event in again.recorded(ToolCallResponse)] == [
            event.content for event in whole.recorded(ToolCallResponse)
        ]
    requests = [event.id for event in again.recorded(InquiryRequest)]
    assert len(requests) == len(set(requests))


def prefix(played: Played, cut: int) -> list[Event]:
    """Return whole recorded batches. Returns nothing if the call was not made yet."""
    ends = [sum(played.batches[:number]) for number in range(len(played.batches) + 1)]
    events = played.events[: ends[min(cut, len(ends) - 1)]]
    return list(events) if any(event.type == "tool_call_request" for event in events) else []


def play(played: Played, *, late: bool) -> Played:
    """Continue the turn until nobody is there to answer or the call has its response."""
    if not any(event.type == "tool_call_request" for event in played.events):
        played.model_calls("deploy")
    for run in played.wanted(RunTool):
        played.step(TimePassed(NOON))
        played.asks(run.call.event, FIRST, SECOND, ask=1)
        _answered(played, run.call.event, late=late)
    return played


def _answered(played: Played, call: str, *, late: bool) -> None:
    for _ in range(10):
        prompts, given_now = played.wanted(PromptUser), played.wanted(GiveAnswers)
        if given_now and given_now[0].ask == 1 and "deadline" in given_answers(played).values():
            played.asks(call, AGAIN, ask=2)
        elif given_now:
            played.succeeds(call, str(sorted(given_answers(played))))
            return
        elif prompts and late and prompts[0].prompt.question.id == "second":
            played.step(TimePassed(ONE))
        elif prompts:
            played.reply(Answered(value=True))
        else:
            return


# Permissions of calls, and tools that return their questions
# ----------------------------------------------------------

HOURLY = ToolPolicy(
    source=DEPLOY, run="ask", deadline=3600.0, detached=DetachedPolicies(run="defer")
)
IN_TIME = "deploy: nobody allowed it before its deadline. This is not a no."


def waiting_for_a_yes(**changes: Any) -> Played:
    """Return a turn whose call has waited for its permission since noon."""
    played = Played(settings(HOURLY, **changes))
    played.step(TimePassed(NOON))
    played.model_calls("deploy")
    return played


@pytest.mark.parametrize("attached", [True, False])
def test_a_permission_without_a_timely_answer_ends_the_call(attached: bool) -> None:  # noqa: FBT001
    played = waiting_for_a_yes(attached=attached)
    if attached:
        played.step(TimePassed("2030-01-01T12:59:59.000000Z"))
        assert [approval.state for approval in played.recorded(Approval)] == ["waiting"]
        played.step(TimePassed(ONE))
        assert played.wanted(ClosePrompt)
    else:
        closing = expired_requests(TurnView.last(played.events), ONE, counting_ids(100))
        played = Played(played.settings, [*played.events, *closing])
    assert [(approval.state, approval.deadline) for approval in played.recorded(Approval)] == [
        ("waiting", ONE),
        ("expired", ""),
    ]
    assert [(event.content, event.is_error) for event in played.recorded(ToolCallResponse)] == [
        (IN_TIME, True)
    ]


def test_the_machine_and_the_store_record_an_expired_permission_identically() -> None:
    played = waiting_for_a_yes()
    (by_store,) = expired_requests(TurnView.last(played.events), ONE, counting_ids(100))
    played.step(TimePassed(ONE))
    assert replace(by_store, event_id="", timestamp="") == replace(
        played.recorded(Approval)[-1], event_id="", timestamp=""
    )


def test_a_waiting_permission_keeps_its_deadline_when_the_turn_is_resumed() -> None:
    played = waiting_for_a_yes()
    again = Played(settings(HOURLY), played.events)
    again.step(TimePassed("2030-01-01T12:30:00.000000Z"))
    again.step(TimePassed(ONE))
    assert [event.content for event in again.recorded(ToolCallResponse)] == [IN_TIME]


@pytest.mark.parametrize("takes", [True, False])
def test_a_tool_that_handles_deadlines_runs_again_with_the_unanswered_questions(
    takes: bool,  # noqa: FBT001
) -> None:
    policy = ToolPolicy(source=DEPLOY, run="unattended", takes_deadlines=takes)
    played = Played(settings(policy))
    (call,) = played.model_calls("deploy")
    played.step(TimePassed(NOON))
    played.asks(call, FIRST, SECOND)
    played.answer(True)
    played.step(TimePassed(ONE))
    runs = [(run.answers, run.unanswered) for run in played.wanted(RunTool)]
    assert runs == ([({"first": True}, {"second": "deadline"})] if takes else [])
    late = 'deploy: nobody answered "Second?" before its deadline. This is not a no.'
    assert [event.content for event in played.recorded(ToolCallResponse)] == (
        [] if takes else [late]
    )


def test_a_repeated_question_after_a_deadline_is_a_new_attempt_also_after_a_crash() -> None:
    policy = ToolPolicy(source=DEPLOY, run="unattended", takes_deadlines=True)
    played = Played(settings(policy))
    (call,) = played.model_calls("deploy")
    played.step(TimePassed(NOON))
    played.asks(call, SECOND)
    played.step(TimePassed(ONE))
    again = Played(settings(policy), played.events)
    for one in (played, again):
        if one is again:
            one.asks(call, SECOND)
        assert [(run.answers, run.unanswered) for run in one.wanted(RunTool)] == [
            ({}, {"second": "deadline"})
        ]
        one.asks(call, SECOND)
        one.answer(True)
        assert [(run.answers, run.unanswered) for run in one.wanted(RunTool)] == [
            ({"second": True}, {})
        ]
        assert [request.id for request in one.recorded(InquiryRequest)] == [
            "call_1.second.1",
            "call_1.second.2",
        ]
