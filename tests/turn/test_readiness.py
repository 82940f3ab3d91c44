"""Readiness of turns.

A question that was shown to a person is always shown to a person again, whoever resumes the
turn.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

import pytest
from msgspec.structs import replace

from midturn.events.types import (
    AnsweredBy,
    Approval,
    Event,
    InquiryCancelled,
    InquiryRequest,
    Suspended,
    ToolCallResponse,
)
from midturn.question.question import Question
from midturn.question.reply import Answered, EndedTurn, Reply
from midturn.routing.policy import (
    DetachedPolicies,
    DetachedPolicy,
    QuestionPolicy,
    ResultPolicy,
    RunPolicy,
    Target,
    ToolPolicy,
)
from midturn.turn.inputs import ConsultAssistant, PromptUser, RunTool, SuspendTurn
from midturn.turn.pending import pending
from midturn.turn.settings import TurnSettings
from midturn.turn.view import TurnView
from midturn.turn.visit import Visit
from support.turns import CONFIRM, DEPLOY, Played, settings

FIRST, SECOND = Question.text("first", "First?"), Question.text("second", "Second?", default="none")
POLICIES: Sequence[DetachedPolicy] = ("deny", "auto", "defaults", "defer")
every_policy = pytest.mark.parametrize("policy", POLICIES)


def unattended(
    policy: DetachedPolicy, run: RunPolicy = "unattended", result: ResultPolicy = "unattended"
) -> TurnSettings:
    """Return settings for a turn with nobody attached."""
    return settings(
        ToolPolicy(
            source=DEPLOY, run=run, result=result, detached=DetachedPolicies(policy, policy, policy)
        ),
        attached=False,
    )


def attached(run: RunPolicy = "unattended", result: ResultPolicy = "unattended") -> Played:
    """Return a turn with a person at its terminal."""
    return Played(settings(ToolPolicy(source=DEPLOY, run=run, result=result)))


def ready(events: Sequence[Event]) -> bool:
    """Return whether a turn can continue."""
    return TurnView.last(events).is_ready


def due(events: Sequence[Event]) -> bool:
    """Return whether a turn waits for anything except a person."""
    return TurnView.last(events).is_due


def answered(played: Played, reply: Reply, place: int = 0) -> list[Event]:
    """Return the events after a reply to an open question in the inbox."""
    waiting = pending(played.events, "1")[place]
    batch = Visit(played.events, waiting.request.event_id, played.ids).take(
        reply, AnsweredBy("user", via="inbox")
    )
    return [
        *played.events,
        *(replace(event, more=len(batch) - number) for number, event in enumerate(batch, 1)),
    ]


# Questions shown to a person
# --------------------------------------------------------------------------------------------------


@every_policy
def test_a_half_answered_form_stays_open_when_resumed_with_nobody_attached(
    policy: DetachedPolicy,
) -> None:
    played = attached()
    (call,) = played.model_calls("deploy")
    played.asks(call, FIRST, SECOND)
    played.answer("one")  # the window is closed here

    assert not ready(played.events)
    resumed = Played(unattended(policy), events=played.events)
    resumed.asks(call, FIRST, SECOND)

    assert resumed.wanted(SuspendTurn)
    assert resumed.events == played.events
    assert [question.question.text for question in pending(resumed.events, "1")] == ["Second?"]
    assert not due(resumed.events)


@every_policy
def test_a_later_question_of_a_started_form_goes_to_a_person(policy: DetachedPolicy) -> None:
    played = attached()
    (call,) = played.model_calls("deploy")
    played.asks(call, FIRST, SECOND)
    events = answered(played, Answered("one"))
    assert ready(events)

    resumed = Played(unattended(policy), events=events)
    resumed.asks(call, FIRST, SECOND)

    assert resumed.wanted(SuspendTurn)
    assert not resumed.recorded(InquiryCancelled)
    assert [question.question.text for question in pending(resumed.events, "1")] == ["Second?"]
    assert not ready(resumed.events)


def test_a_configured_later_question_is_answered_without_a_person() -> None:
    played = attached()
    (call,) = played.model_calls("deploy")
    played.asks(call, FIRST, SECOND)
    policies = {"second": QuestionPolicy(answer="two")}
    given = settings(
        ToolPolicy(source=DEPLOY, run="unattended", questions=policies), attached=False
    )

    resumed = Played(given, events=answered(played, Answered("one")))
    resumed.asks(call, FIRST, SECOND)

    assert resumed.run.answers == {"first": "one", "second": "two"}


@every_policy
def test_a_new_question_uses_the_policy_of_the_turn(policy: DetachedPolicy) -> None:
    played = attached()
    (call,) = played.model_calls("deploy")
    played.asks(call, FIRST)
    resumed = Played(unattended(policy), events=answered(played, Answered("one")))
    resumed.asks(call, FIRST)
    resumed.asks(call, SECOND)

    assert bool(resumed.wanted(SuspendTurn)) == (policy == "defer")
    assert bool(resumed.wanted(ConsultAssistant)) == (policy == "auto")


@every_policy
@pytest.mark.parametrize("kind", ["run", "deliver", "review"])
def test_a_displayed_approval_waits_for_a_person(
    kind: Literal["run", "deliver", "review"], policy: DetachedPolicy
) -> None:
    run: RunPolicy = "ask" if kind == "run" else "unattended"
    result: ResultPolicy = "ask" if kind == "deliver" else "unattended"
    played = attached(run, result)
    (call,) = played.model_calls("deploy")
    if kind == "deliver":
        played.succeeds(call)
    if kind == "review":
        played.asks(call, FIRST, SECOND, review=True)
        played.answer("one")
        played.answer("two")
    assert played.prompt.prompt.kind == kind
    assert [(event.kind, event.state) for event in played.recorded(Approval)] == [(kind, "waiting")]

    resumed = Played(unattended(policy, run, result), events=played.events)
    if kind == "review":
        resumed.asks(call, FIRST, SECOND, review=True)

    assert resumed.wanted(SuspendTurn)
    assert [question.kind for question in pending(resumed.events, "1")] == [kind]
    assert [(event.kind, event.state) for event in resumed.recorded(Approval)] == [
        (kind, "waiting")
    ]
    assert not resumed.recorded(ToolCallResponse)


def test_an_approval_without_a_terminal_is_recorded_with_its_call() -> None:
    """It takes no sync of its own."""
    played = attached("ask")
    played.model_calls("deploy")

    assert [event.type for event in played.events[-played.batches[-1] :]] == [
        "tool_call_request",
        "approval",
    ]


# Questions of a model
# --------------------------------------------------------------------------------------------------


def test_a_question_given_to_a_model_because_nobody_was_there_is_given_to_it_again() -> None:
    played = Played(unattended("auto"))
    (call,) = played.model_calls("deploy")
    played.asks(call, CONFIRM)
    assert played.wanted(ConsultAssistant)  # the process dies here

    assert due(played.events)
    resumed = Played(unattended("auto"), events=played.events)
    resumed.asks(call, CONFIRM)

    assert resumed.wanted(ConsultAssistant)
    assert len(resumed.recorded(InquiryRequest)) == 1


def test_a_question_taken_over_by_a_person_stays_with_people() -> None:
    played = Played(unattended("auto"))
    (call,) = played.model_calls("deploy")
    played.asks(call, CONFIRM)
    at_the_terminal = Played(
        settings(ToolPolicy(source=DEPLOY, run="unattended")), events=played.events
    )
    at_the_terminal.asks(call, CONFIRM)
    assert at_the_terminal.wanted(PromptUser)

    resumed = Played(unattended("auto"), events=at_the_terminal.events)
    resumed.asks(call, CONFIRM)

    assert resumed.wanted(SuspendTurn)
    assert len(pending(resumed.events, "1")) == 1


def test_a_configured_model_is_asked_again_and_its_call_is_due() -> None:
    given = settings(
        ToolPolicy(
            source=DEPLOY,
            run="unattended",
            questions={"*": QuestionPolicy(target=Target("assistant"))},
        ),
        attached=False,
    )
    played = Played(given)
    (call,) = played.model_calls("deploy")
    played.asks(call, CONFIRM)

    assert due(played.events)
    assert not ready(played.events)
    resumed = Played(given, events=played.events)
    resumed.asks(call, CONFIRM)
    assert resumed.wanted(ConsultAssistant)


# Readiness
# --------------------------------------------------------------------------------------------------


def test_one_answered_ask_of_several_makes_the_turn_ready_once() -> None:
    """A run that takes an answer and records no other event records that it continued."""
    played = Played(unattended("defer"))
    (call,) = played.model_calls("deploy")
    played.step_only(call, FIRST, ask=1)
    played.asks(call, SECOND, ask=2)
    assert not ready(played.events)
    events = answered(played, Answered("one"))
    assert ready(events)

    resumed = Played(unattended("defer"), events=events)
    resumed.step_only(call, FIRST, ask=1)
    resumed.asks(call, SECOND, ask=2)

    (suspended,) = resumed.recorded(Suspended)
    assert suspended.through == events[-1].event_id
    assert not ready(resumed.events)
    assert ready(answered(resumed, Answered("two")))


def test_a_run_that_asks_more_records_no_suspension() -> None:
    played = Played(unattended("defer"))
    (call,) = played.model_calls("deploy")
    played.asks(call, FIRST)
    resumed = Played(unattended("defer"), events=answered(played, Answered("one")))
    resumed.asks(call, FIRST)
    resumed.asks(call, SECOND)

    assert not resumed.recorded(Suspended)
    assert not ready(resumed.events)


def test_a_decided_approval_makes_a_turn_ready() -> None:
    played = Played(unattended("defer", "ask"))
    played.model_calls("deploy")

    assert ready(answered(played, Answered(True)))
    assert ready(answered(played, Answered(False)))
    assert not ready(answered(played, EndedTurn()))


def test_a_no_to_one_of_two_calls_leaves_the_turn_waiting() -> None:
    played = Played(unattended("defer", "ask"))
    played.model_calls("deploy", "deploy")

    assert not ready(answered(played, Answered(False)))
    assert ready(answered(played, Answered(True)))


def test_a_call_of_a_dead_process_is_due_although_another_one_waits() -> None:
    played = attached("unattended")
    _, second = played.model_calls("deploy", "deploy")
    assert len(played.wanted(RunTool)) == 2
    played.asks(second, FIRST)

    assert due(played.events)
    assert not ready(played.events)
