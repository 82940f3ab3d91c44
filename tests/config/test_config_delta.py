"""What flags set for a conversation is recorded, and holds again when it is resumed."""

from __future__ import annotations

import json
from typing import cast

import pytest

from midturn.config.assign import Assignment, static_answer
from midturn.config.load import Loaded
from midturn.core.enabling import Toggle
from midturn.core.json_value import Json
from midturn.core.routing.policy import Words
from support.workspaces import Workspace

MODEL = Assignment("assistant.model.id", "a/b", "--model")


def recorded(workspace: Workspace, loaded: Loaded) -> Json:
    """The delta as it comes back from disk."""
    return cast("Json", json.loads(json.dumps(loaded.given.to_record(workspace.state))))


def test_without_flags_nothing_is_recorded(workspace: Workspace) -> None:
    workspace.user("assistant.name = 'x'")

    loaded = workspace.load(environment={"MIDTURN_CFG_LIMITS__CYCLES": "3"})

    assert loaded.given.to_record(workspace.state) is None
    assert not workspace.state.exists()


def test_a_resumed_turn_works_under_the_recorded_flags(workspace: Workspace) -> None:
    (workspace.root / "ci.toml").write_text(
        "[conversation.tools.deploy]\ncommand = 'x'\nrun = 'unattended'\nquestions.region.target = { model.id = 'scripted:s.json' }\n",
    )
    before = workspace.load(
        "ci.toml",
        "conversation.tools.*.detached=defer",
        flags=[MODEL, static_answer("deploy.confirm=yes")],
        toggles=[Toggle(False), Toggle(True, "deploy")],
    )

    after = workspace.load(recorded=[recorded(workspace, before)])

    assert after.settings == before.settings
    assert after.settings.tools["deploy"].policy.question("confirm").origin == "--answer"
    assert after.settings.toggles == (Toggle(False), Toggle(True, "deploy"))
    assert not after.ignored
    assert after.given.to_record(workspace.state) is None


def test_flags_of_the_resuming_command_come_over_the_recorded_ones(workspace: Workspace) -> None:
    first = workspace.load("limits.cycles=5", "limits.form=5", flags=[MODEL], toggles=[Toggle(True)])
    second = workspace.load("limits.form=6", recorded=[recorded(workspace, first)], toggles=[Toggle(False)])
    third = workspace.load("assistant.model.id=e/f", recorded=[recorded(workspace, first), recorded(workspace, second)])

    assert (third.settings.limits.cycles, third.settings.limits.form) == (5, 6)
    assert third.settings.assistant.model.id == "e/f"
    assert third.settings.toggles == (Toggle(True), Toggle(False))


def test_recorded_flags_come_over_files_and_the_environment(workspace: Workspace) -> None:
    delta = recorded(workspace, workspace.load(flags=[MODEL]))
    workspace.user("assistant.model.id = 'file/one'")

    loaded = workspace.load(recorded=[delta], environment={"MIDTURN_CFG_ASSISTANT__MODEL__ID": "variable/one"})

    assert loaded.settings.assistant.model.id == "a/b"


@pytest.mark.parametrize("change", ["seal", "value", "unsealed"])
def test_a_delta_that_this_user_did_not_set_weakens_nothing(workspace: Workspace, change: str) -> None:
    """A cloned repository may bring an open turn along."""
    flags = [MODEL, Assignment("conversation.tools.deploy.command", "evil", "--cfg")]
    delta = cast("dict[str, Json]", recorded(workspace, workspace.load(flags=flags)))
    if change == "seal":
        delta["seal"] = "0" * 64
    elif change == "value":
        cast("list[dict[str, Json]]", delta["flags"])[1]["value"] = "worse"
    else:
        del delta["seal"]

    loaded = workspace.load(recorded=[delta])

    assert "deploy" not in loaded.settings.tools
    assert loaded.settings.assistant.model.id is None
    (ignored,) = loaded.ignored
    assert "not known to be yours, so `assistant.model.id`, `conversation.tools.deploy.command` have no effect" in ignored


def test_a_delta_that_this_user_did_not_set_switches_no_tool_on(workspace: Workspace) -> None:
    delta = cast("dict[str, Json]", recorded(workspace, workspace.load(toggles=[Toggle(True, "deploy"), Toggle(False, "other")])))
    del delta["seal"]

    assert workspace.load(recorded=[delta]).settings.toggles == (Toggle(False, "other"),)


def test_another_users_seal_is_not_ours(workspace: Workspace) -> None:
    delta = recorded(workspace, workspace.load("conversation.tools.t.run=unattended"))
    (workspace.state / "seal-key").unlink()

    assert workspace.load(recorded=[delta]).ignored
    recorded(workspace, workspace.load("limits.form=1"))  # makes a key of its own
    assert workspace.load(recorded=[delta]).ignored


def test_without_a_place_for_the_key_flags_are_recorded_unsealed(workspace: Workspace) -> None:
    workspace.state.write_text("in the way")

    delta = recorded(workspace, workspace.load("conversation.tools.t.run=unattended", "limits.form=7"))
    loaded = workspace.load(recorded=[delta])

    assert loaded.settings.limits.form == 7
    assert loaded.settings.tool("t").policy.run == "ask"
    assert loaded.ignored


@pytest.mark.parametrize("delta", [None, 3, [], {"assistant": {"name": "jp"}}, {"inherit": False}, {"flags": [{"key": 1}]}, {"cfg": "x"}])
def test_deltas_of_other_programs_are_passed_over(workspace: Workspace, delta: Json) -> None:
    assert workspace.load(recorded=[delta]).settings == workspace.load().settings


def test_a_relative_script_is_recorded_with_its_directory_and_other_values_without(workspace: Workspace) -> None:
    delta = cast("dict[str, list[dict[str, Json]]]", recorded(workspace, workspace.load("assistant.model.id=scripted:s", "limits.form=1")))

    assert [one.get("base") for one in delta["cfg"]] == [str(workspace.root), None]


SECRETIVE = (
    "conversation.tools.deploy.questions.token.answer='hunter2'",
    "providers.mcp.x={ url = 'http://127.0.0.1:1/', headers = { Authorization = 'hunter2' } }",
    "conversation.tools.deploy.environment={ TOKEN = 'hunter2' }",
)


def test_answers_and_private_values_are_recorded_closed_and_hold_again(workspace: Workspace) -> None:
    """Which of them is a secret is known only when its question is asked."""
    (workspace.root / "ci.toml").write_text("conversation.tools.deploy.questions.'*'.answer = { pin = 'hunter2' }\n")
    before = workspace.load("ci.toml", *SECRETIVE, flags=[MODEL, static_answer("deploy.passphrase=hunter2")])

    record = recorded(workspace, before)

    assert "hunter2" not in json.dumps(record)
    assert "a/b" in json.dumps(record)
    after = workspace.load(recorded=[record])
    assert after.settings == before.settings
    assert after.settings.tools["deploy"].policy.question("passphrase").answer == Words("hunter2")
    assert after.settings.mcp["x"].headers == {"Authorization": "hunter2"}


def test_the_same_value_is_closed_differently_each_time(workspace: Workspace) -> None:
    loaded = workspace.load(flags=[static_answer("deploy.confirm=yes")])

    assert recorded(workspace, loaded) != recorded(workspace, loaded)


def test_somebody_elses_closed_values_have_no_effect_and_are_named(workspace: Workspace) -> None:
    record = recorded(workspace, workspace.load(*SECRETIVE, flags=[static_answer("deploy.confirm=yes")]))
    (workspace.state / "seal-key").unlink()

    after = workspace.load(recorded=[record])

    assert "`conversation.tools.deploy.questions.confirm.answer`" in after.ignored[0]
    assert "confirm" not in after.settings.tools["deploy"].policy.questions


def test_without_a_place_for_the_key_such_values_are_not_recorded(workspace: Workspace) -> None:
    loaded = workspace.load(*SECRETIVE, flags=[MODEL, static_answer("deploy.confirm=hunter2")])
    workspace.state.parent.mkdir(exist_ok=True)
    workspace.state.write_text("a file, not a directory")

    record = json.dumps(recorded(workspace, loaded))

    assert "hunter2" not in record
    assert "a/b" in record


def test_closed_values_that_were_changed_are_not_opened(workspace: Workspace) -> None:
    record = cast("dict[str, list[dict[str, object]]]", recorded(workspace, workspace.load(flags=[static_answer("deploy.confirm=yes")])))
    record["flags"][0]["value"] = {"sealed": "AAAA"}

    after = workspace.load(recorded=[cast("Json", record)])

    (said,) = after.ignored
    assert "`conversation.tools.deploy.questions.confirm.answer` has no effect. Give them again." in said
