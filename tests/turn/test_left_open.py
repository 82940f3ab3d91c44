"""A question left open for later stays open under every detached policy."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from midturn.events.types import ToolCallResponse
from midturn.question.reply import Answered, Deferred
from midturn.routing.policy import DetachedPolicies, DetachedPolicy, ToolPolicy
from midturn.turn.inputs import PromptUser, RunTool, SuspendTurn
from support.turns import CONFIRM, DEPLOY, REGION, UNATTENDED, Played, settings

POLICIES: list[DetachedPolicy] = ["auto", "defaults", "deny", "defer"]


def detached(policy: DetachedPolicy) -> DetachedPolicies:
    """Return one policy for every kind of question."""
    return DetachedPolicies(run=policy, deliver=policy, tool=policy)


def is_left_open(played: Played) -> bool:
    """Return whether the turn is suspended and its call has no result yet."""
    return bool(played.wanted(SuspendTurn)) and not played.recorded(ToolCallResponse)


@pytest.mark.parametrize("policy", POLICIES)
def test_a_permission_stays_open_and_the_call_does_not_run(policy: DetachedPolicy) -> None:
    played = Played(settings(ToolPolicy(source=DEPLOY, detached=detached(policy))))
    played.model_calls("deploy")

    played.reply(Deferred())

    assert is_left_open(played)
    assert not played.wanted(RunTool)


@pytest.mark.parametrize("policy", POLICIES)
def test_a_question_stays_open(policy: DetachedPolicy) -> None:
    played = Played(settings(replace(UNATTENDED, detached=detached(policy))))
    (call,) = played.model_calls("deploy")
    played.asks(call, REGION)

    played.reply(Deferred())

    assert is_left_open(played)


@pytest.mark.parametrize("policy", POLICIES)
def test_the_approval_of_a_result_stays_open(policy: DetachedPolicy) -> None:
    played = Played(
        settings(
            ToolPolicy(source=DEPLOY, run="unattended", result="ask", detached=detached(policy))
        )
    )
    (call,) = played.model_calls("deploy")
    played.succeeds(call, "the log")

    played.reply(Deferred())

    assert is_left_open(played)


def test_a_form_stays_open_at_its_second_question_and_at_its_review() -> None:
    for answers in ([True], [True, "eu-1"]):
        played = Played(settings(replace(UNATTENDED, detached=detached("deny"))))
        (call,) = played.model_calls("deploy")
        played.asks(call, CONFIRM, REGION, review=True)
        for answer in answers:
            played.reply(Answered(answer))

        played.reply(Deferred())

        assert is_left_open(played)


def test_other_calls_of_the_turn_are_still_asked() -> None:
    played = Played(settings(ToolPolicy(source=DEPLOY)))
    played.model_calls("deploy", "deploy")

    played.reply(Deferred())

    assert [shown.id for shown in played.wanted(PromptUser)] == ["call_2.__run__.1"]
    assert not played.wanted(SuspendTurn)
    played.reply(Answered(value=False))
    assert played.wanted(SuspendTurn)
