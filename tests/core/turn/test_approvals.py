"""May a call run, may its result be delivered."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from midturn.question.reply import Answered, Edited, Unavailable
from midturn.record.events import Approval, ToolCallResponse
from midturn.routing.policy import DetachedPolicies, ToolPolicy
from midturn.turn.effects import CallModel, PromptUser, RunTool, SuspendTurn
from support.turns import CONFIRM, DEPLOY, REGION, Played, settings

ASK = ToolPolicy(source=DEPLOY)
DELIVER = ToolPolicy(source=DEPLOY, run="unattended", result="ask")


def contents(played: Played) -> list[str]:
    """Return what the model reads."""
    return [response.content for response in played.recorded(ToolCallResponse)]


def test_a_call_runs_when_a_person_lets_it() -> None:
    played = Played(settings(ASK))
    (call,) = played.model_calls("deploy", arguments={"env": "staging"})
    assert played.prompt.prompt.kind == "run"

    played.answer(True)

    assert played.run.call.event == call
    waiting, approval = played.recorded(Approval)
    assert (waiting.id, waiting.state, waiting.kind) == ("call_1.__run__.1", "waiting", "run")
    assert (approval.id, approval.state, approval.kind) == ("call_1.__run__.1", "approved", "run")
    assert approval.arguments_sha256


def test_a_skipped_call_tells_the_model_why() -> None:
    played = Played(settings(ASK))
    played.model_calls("deploy")

    played.reply(Answered(False, reason="Not on a Friday."))

    assert contents(played) == ['deploy was skipped by the user. Reason: "Not on a Friday."']
    assert played.wanted(CallModel)


def test_a_remembered_permission_decides_for_the_rest_of_the_turn() -> None:
    played = Played(settings(ASK))
    first, second = played.model_calls("deploy", "deploy")
    assert len(played.wanted(PromptUser)) == 1

    played.answer(True, remember=True)

    assert [run.call.event for run in played.wanted(RunTool)] == [first, second]
    assert [a.answered_by.by for a in played.recorded(Approval) if a.answered_by] == ["user", "cached"]


def test_edited_arguments_are_what_runs() -> None:
    played = Played(settings(ASK))
    played.model_calls("deploy", arguments={"env": "production"})

    played.reply(Edited({"env": "staging"}))

    assert played.run.call.arguments == {"env": "staging"}


def test_detached_a_call_that_must_be_approved_is_refused() -> None:
    played = Played(settings(ASK, attached=False))
    played.model_calls("deploy")

    assert contents(played) == ["deploy was not run: nobody is here to allow it. Do not retry this tool call in this turn."]


def test_deferred_a_call_waits_for_its_approval_and_runs_after_it() -> None:
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


def test_an_approved_call_runs_again_unasked_after_a_crash() -> None:
    played = Played(settings(ASK))
    played.model_calls("deploy")
    played.answer(True)

    resumed = Played(settings(ASK), played.events)

    assert resumed.run.answers == {}
    assert not resumed.wanted(PromptUser)


def test_a_result_is_recorded_before_it_is_looked_at_and_delivered_without_running_again() -> None:
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


def test_detached_a_result_that_must_be_approved_is_withheld_and_the_tool_is_not_called_switched_off() -> None:
    """It has run: who reads that it did not might have it done again."""
    played = Played(settings(replace(DELIVER, detached=DetachedPolicies(deliver="deny")), attached=False))
    (call,) = played.model_calls("deploy")
    played.succeeds(call, "the log")

    assert contents(played) == ["The result of deploy was withheld by the user."]


def test_answers_that_nobody_is_there_to_review_are_not_sent_and_the_model_reads_why() -> None:
    """Whoever answered is gone at the review."""
    played = Played(settings(replace(DELIVER, result="unattended", detached=DetachedPolicies(deliver="deny"))))
    (call,) = played.model_calls("deploy")
    played.asks(call, CONFIRM, REGION, review=True)
    played.answer(True)
    played.answer("eu-1")
    played.reply(Unavailable())

    (content,) = contents(played)
    assert content.startswith("deploy cannot run because no interactive terminal is available. Do not retry this tool call in this turn;")


def test_enter_alone_never_approves() -> None:
    """A permission prompt has no default."""
    from msgspec import UNSET

    played = Played(settings(ASK))
    played.model_calls("deploy")

    assert played.prompt.prompt.question.default is UNSET


CONTROLS = [chr(code) for code in (*range(0x20), *range(0x7F, 0xA0)) if chr(code) not in "\n\t"]
PROGRAM = ToolPolicy(source=DEPLOY, is_program=True)


@pytest.mark.parametrize("character", CONTROLS, ids=lambda one: f"U+{ord(one):04X}")
@pytest.mark.parametrize("policy", [PROGRAM, replace(PROGRAM, run="unattended")], ids=["asked", "unattended"])
def test_a_program_is_given_no_control_character_and_nobody_is_asked(character: str, policy: ToolPolicy) -> None:
    played = Played(settings(policy))
    played.model_calls("deploy", arguments={"env": {"names": ["a", f"stag{character}ing"]}})

    code = f"U+{ord(character):04X}"
    assert not played.wanted(PromptUser)
    assert not played.wanted(RunTool)
    (said,) = contents(played)
    assert said.startswith(f"deploy was not run: /env/names/1 has the control character {code}. Send the call again")


def test_a_control_character_in_the_name_of_an_argument_is_found() -> None:
    played = Played(settings(PROGRAM))
    played.model_calls("deploy", arguments={"e\x1bnv": 1})

    assert "/ has the control character U+001B" in contents(played)[0]


def test_lines_and_tabs_are_asked_about() -> None:
    played = Played(settings(PROGRAM))
    played.model_calls("deploy", arguments={"message": "one\n\ttwo"})

    assert played.prompt.prompt.kind == "run"


def test_nobody_edits_a_control_character_in() -> None:
    played = Played(settings(PROGRAM))
    played.model_calls("deploy", arguments={"env": "staging"})

    played.reply(Edited({"env": "\x1b[2J"}))

    assert not played.wanted(RunTool)
    assert "/env has the control character U+001B" in str(played.prompt.prompt.error)
