"""Approvals of calls and of results."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace

from midturn.events.codec import encode_event
from midturn.events.types import AnsweredBy, Approval, ToolCallRequest, ToolCallResponse
from midturn.question.reply import Answered, Edited, Unavailable
from midturn.routing.policy import DetachedPolicies, ToolPolicy
from midturn.routing.rules import RunRules, read_run_rules
from midturn.turn.inputs import CallModel, ModelAnswered, PromptUser, RunTool, SuspendTurn
from support.turns import CONFIRM, DEPLOY, REGION, Played, settings

ASK = ToolPolicy(source=DEPLOY)
DELIVER = ToolPolicy(source=DEPLOY, run="unattended", result="ask")


def contents(played: Played) -> list[str]:
    """Return the results that the model reads."""
    return [response.content for response in played.recorded(ToolCallResponse)]


def test_an_approved_call_runs() -> None:
    played = Played(settings(ASK))
    (call,) = played.model_calls("deploy", arguments={"env": "staging"})
    assert played.prompt.prompt.kind == "run"

    played.answer(True)

    assert played.run.call.event == call
    waiting, approval = played.recorded(Approval)
    assert (waiting.id, waiting.state, waiting.kind) == ("call_1.__run__.1", "waiting", "run")
    assert (approval.id, approval.state, approval.kind) == ("call_1.__run__.1", "approved", "run")
    assert approval.arguments_sha256


def test_a_skipped_call_tells_the_model_the_reason() -> None:
    played = Played(settings(ASK))
    played.model_calls("deploy")

    played.reply(Answered(False, reason="Not on a Friday."))

    assert contents(played) == ['deploy was skipped by the user. Reason: "Not on a Friday."']
    assert played.wanted(CallModel)


def test_a_remembered_permission_applies_to_the_rest_of_the_turn() -> None:
    played = Played(settings(ASK))
    first, second = played.model_calls("deploy", "deploy")
    assert len(played.wanted(PromptUser)) == 1

    played.answer(True, remember=True)

    assert [run.call.event for run in played.wanted(RunTool)] == [first, second]
    assert [a.answered_by.by for a in played.recorded(Approval) if a.answered_by] == [
        "user",
        "cached",
    ]


def test_an_edited_call_runs_with_the_edited_arguments() -> None:
    played = Played(settings(ASK))
    played.model_calls("deploy", arguments={"env": "production"})

    played.reply(Edited({"env": "staging"}))

    assert played.run.call.arguments == {"env": "staging"}


def test_detached_a_call_that_needs_approval_is_refused() -> None:
    played = Played(settings(ASK, attached=False))
    played.model_calls("deploy")

    assert contents(played) == [
        "deploy was not run: nobody is here to allow it. Do not retry this tool call in this turn."
    ]


def test_deferred_a_call_waits_for_its_approval_and_then_runs() -> None:
    defer = ToolPolicy(source=DEPLOY, detached=DetachedPolicies(run="defer"))
    played = Played(settings(defer, attached=False))
    (call,) = played.model_calls("deploy")
    assert played.wanted(SuspendTurn)
    (waiting,) = played.recorded(Approval)

    resumed = Played(settings(defer), played.events)
    assert resumed.prompt.id == waiting.id
    resumed.answer(True)

    assert resumed.run.call.event == call
    assert [a.state for a in resumed.recorded(Approval)] == ["waiting", "approved"]
    assert {a.id for a in resumed.recorded(Approval)} == {waiting.id}


def test_an_approved_call_runs_again_after_a_crash_without_asking() -> None:
    played = Played(settings(ASK))
    played.model_calls("deploy")
    played.answer(True)

    resumed = Played(settings(ASK), played.events)

    assert resumed.run.answers == {}
    assert not resumed.wanted(PromptUser)


def test_a_result_is_recorded_before_its_approval_and_delivered_without_running_again() -> None:
    played = Played(settings(DELIVER))
    (call,) = played.model_calls("deploy")
    played.succeeds(call, "the log")
    (waiting,) = played.recorded(Approval)
    assert (waiting.state, waiting.content, waiting.is_error) == ("waiting", "the log", False)

    resumed = Played(settings(DELIVER), played.events)
    assert not resumed.wanted(RunTool)
    resumed.answer(True)

    assert contents(resumed) == ["the log"]


def test_a_withheld_result_is_an_error() -> None:
    played = Played(settings(DELIVER))
    (call,) = played.model_calls("deploy")
    played.succeeds(call, "the log")

    played.answer(False)

    assert contents(played) == ["The result of deploy was withheld by the user."]


def test_detached_a_result_that_needs_approval_is_withheld_with_the_right_message() -> None:
    """The tool has run. If the message said otherwise, the model might call it again."""
    played = Played(
        settings(replace(DELIVER, detached=DetachedPolicies(deliver="deny")), attached=False)
    )
    (call,) = played.model_calls("deploy")
    played.succeeds(call, "the log")

    assert contents(played) == ["The result of deploy was withheld by the user."]


def test_answers_without_a_reviewer_are_not_sent_and_the_model_reads_why() -> None:
    """The person who answered has left before the review."""
    played = Played(
        settings(replace(DELIVER, result="unattended", detached=DetachedPolicies(deliver="deny")))
    )
    (call,) = played.model_calls("deploy")
    played.asks(call, CONFIRM, REGION, review=True)
    played.answer(True)
    played.answer("eu-1")
    played.reply(Unavailable())

    (content,) = contents(played)
    assert content.startswith(
        "deploy cannot run because no interactive terminal is available. Do not retry this tool"
        " call in this turn;"
    )


def test_enter_alone_never_approves() -> None:
    """A permission prompt has no default."""
    from msgspec import UNSET

    played = Played(settings(ASK))
    played.model_calls("deploy")

    assert played.prompt.prompt.question.default is UNSET


CONTROLS = [chr(code) for code in (*range(0x20), *range(0x7F, 0xA0)) if chr(code) not in "\n\t"]
PROGRAM = ToolPolicy(source=DEPLOY, is_program=True)


@pytest.mark.parametrize("character", CONTROLS, ids=lambda one: f"U+{ord(one):04X}")
@pytest.mark.parametrize(
    "policy", [PROGRAM, replace(PROGRAM, run="unattended")], ids=["asked", "unattended"]
)
def test_a_control_character_in_arguments_is_refused_without_asking(
    character: str, policy: ToolPolicy
) -> None:
    played = Played(settings(policy))
    played.model_calls("deploy", arguments={"env": {"names": ["a", f"stag{character}ing"]}})

    code = f"U+{ord(character):04X}"
    assert not played.wanted(PromptUser)
    assert not played.wanted(RunTool)
    (said,) = contents(played)
    assert said.startswith(
        f"deploy was not run: /env/names/1 contains the control character {code}. Send the call"
        " again"
    )


def test_a_control_character_in_the_name_of_an_argument_is_found() -> None:
    played = Played(settings(PROGRAM))
    played.model_calls("deploy", arguments={"e\x1bnv": 1})

    assert "/ contains the control character U+001B" in contents(played)[0]


def test_line_breaks_and_tabs_are_allowed_in_arguments() -> None:
    played = Played(settings(PROGRAM))
    played.model_calls("deploy", arguments={"message": "one\n\ttwo"})

    assert played.prompt.prompt.kind == "run"


def test_an_edit_cannot_add_a_control_character() -> None:
    played = Played(settings(PROGRAM))
    played.model_calls("deploy", arguments={"env": "staging"})

    played.reply(Edited({"env": "\x1b[2J"}))

    assert not played.wanted(RunTool)
    assert "/env contains the control character U+001B" in str(played.prompt.prompt.error)


# Rules about arguments
# --------------------------------------------------------------------------------------------------


def ruled(*rules: dict[str, Any], **fields: Any) -> ToolPolicy:
    """Return the policy of a tool with the rules of one file."""
    read = read_run_rules(rules)
    places = tuple(f"config.toml:{number}" for number in range(1, len(read) + 1))
    return ToolPolicy(source=DEPLOY, rules=(RunRules(read, places),), **fields)


STAGING = {"when": {"env": "staging"}, "run": "unattended", "reason": "Nobody is hurt."}
PRODUCTION = {"when": {"env": "production"}, "run": "ask", "reason": "Customers are there."}
NEVER = {"when": {"env": "old*"}, "run": "skip", "reason": "It is gone."}


def test_a_rule_allows_a_call_and_is_recorded_with_its_location() -> None:
    played = Played(settings(ruled(STAGING, run="skip")))
    (call,) = played.model_calls("deploy", arguments={"env": "staging"})
    assert played.run.call.event == call
    (approval,) = played.recorded(Approval)
    assert (approval.state, approval.answered_by, approval.reason) == (
        "approved",
        AnsweredBy("configuration", origin="config.toml:1"),
        "Nobody is hurt.",
    )
    assert approval.arguments_sha256


def test_a_rule_refuses_a_call_and_the_model_reads_why() -> None:
    played = Played(settings(ruled(NEVER, run="unattended")))
    played.model_calls("deploy", arguments={"env": "old-1"})
    assert contents(played) == [
        (
            'deploy was not run: a rule of the configuration does not allow this call. Reason: "It is'
            ' gone."'
        )
    ]
    (approval,) = played.recorded(Approval)
    assert (approval.state, approval.answered_by) == (
        "skipped",
        AnsweredBy("configuration", origin="config.toml:1"),
    )


def test_a_rule_requires_approval_and_the_prompt_shows_why() -> None:
    played = Played(settings(ruled(PRODUCTION, run="unattended")))
    (call,) = played.model_calls("deploy", arguments={"env": "production"})
    assert played.prompt.prompt.question.context == "Customers are there."
    played.answer(True)
    assert played.run.call.event == call
    assert [(a.state, a.rule) for a in played.recorded(Approval)] == [
        ("waiting", "config.toml:1"),
        ("approved", "config.toml:1"),
    ]


def test_without_a_matching_rule_only_the_edit_mark_differs() -> None:
    plain, with_rules = Played(settings(ASK)), Played(settings(ruled(STAGING, NEVER)))
    for played in (plain, with_rules):
        played.model_calls("deploy", arguments={"env": "other"})
        played.answer(True)
    marked = [
        replace(event, any_arguments=False) if isinstance(event, Approval) else event
        for event in plain.events
    ]
    assert list(map(encode_event, marked)) == list(map(encode_event, with_rules.events))
    assert [(a.state, a.any_arguments) for a in plain.recorded(Approval)] == [
        ("waiting", True),
        ("approved", False),
    ]


def asked_for(played: Played, *environments: str) -> list[str]:
    """Let the model call the tool once per environment.

    Returns who decided each call, for calls that are decided.
    """
    before = len(played.events)
    played.step(
        ModelAnswered(
            tuple(
                ToolCallRequest(id=f"call_{env}", name="deploy", arguments={"env": env})
                for env in environments
            )
        )
    )
    return [
        a.answered_by.by
        for a in played.events[before:]
        if isinstance(a, Approval) and a.answered_by
    ]


def test_a_remembered_permission_ranks_between_asking_and_allowing_rules() -> None:
    played = Played(settings(ruled(STAGING, PRODUCTION, NEVER)))
    asked_for(played, "test")
    played.answer(True, remember=True)
    played.succeeds(played.run.call.event)
    assert asked_for(played, "test", "staging", "production", "old") == [
        "cached",
        "cached",
        "configuration",
    ]
    assert played.prompt.prompt.arguments == {"env": "production"}
    played.answer(True, remember=True)
    for run in [effect.call for effect in played.last if isinstance(effect, RunTool)]:
        played.succeeds(run.event)
    assert [a.answered_by.by for a in played.recorded(Approval) if a.answered_by][-1] == "user"


def test_a_permission_remembered_under_a_rule_applies_to_that_rule_even_after_a_crash() -> None:
    policy = ruled(PRODUCTION, {"when": {"env": "prod*"}, "run": "ask"})
    played = Played(settings(policy))
    asked_for(played, "production")
    played.answer(True, remember=True)
    played.succeeds(played.run.call.event)
    again = Played(settings(policy), played.events)
    assert asked_for(again, "production", "prod-2") == ["cached"]
    assert again.prompt.prompt.arguments == {"env": "prod-2"}


def test_a_remembered_no_is_not_asked_again() -> None:
    played = Played(settings(ruled(STAGING, PRODUCTION)))
    asked_for(played, "test")
    played.answer(False, remember=True)
    assert asked_for(played, "production", "staging") == ["cached", "cached"]


def test_an_edit_cannot_become_a_call_that_a_rule_refuses() -> None:
    played = Played(settings(ruled(NEVER)))
    played.model_calls("deploy", arguments={"env": "staging"})
    played.reply(Edited({"env": "old"}))
    assert (
        played.prompt.prompt.error
        == "A rule does not allow such a call (config.toml:1): It is gone."
    )


def test_a_call_allowed_by_a_rule_runs_again_after_a_crash_without_another_record() -> None:
    policy = ruled(STAGING)
    played = Played(settings(policy))
    played.model_calls("deploy", arguments={"env": "staging"})
    again = Played(settings(policy), played.events)
    assert len(again.recorded(Approval)) == 1
    assert again.run


def test_a_new_rule_decides_about_a_waiting_call() -> None:
    for rule, state in ((STAGING, "approved"), ({"run": "skip"}, "skipped")):
        deferred = settings(ruled(detached=DetachedPolicies(run="defer")), attached=False)
        played = Played(deferred)
        played.model_calls("deploy", arguments={"env": "staging"})
        again = Played(settings(ruled(rule), attached=False), played.events)
        waiting, decided = again.recorded(Approval)
        assert (waiting.state, decided.state, decided.id) == ("waiting", state, waiting.id)
