"""Configuration flags are recorded with a conversation and apply again when it is resumed."""

from __future__ import annotations

import json
from typing import cast

import pytest

from midturn.config.assign import Assignment, static_answer, unreadable
from midturn.config.load import Loaded
from midturn.config.settings import Toggle
from midturn.question.json_value import Json
from midturn.routing.policy import Words
from support.workspaces import Workspace

MODEL = Assignment("assistant.model.id", "a/b", "--model")


def recorded(loaded: Loaded) -> Json:
    """Return the configuration delta as read from disk."""
    return cast("Json", json.loads(json.dumps(loaded.given.to_record())))


def test_without_flags_nothing_is_recorded(workspace: Workspace) -> None:
    workspace.user("assistant.name = 'x'")

    loaded = workspace.load(environment={"MIDTURN_CFG_LIMITS__CYCLES": "3"})

    assert loaded.given.to_record() is None
    assert not workspace.state.exists()


def test_resumed_turn_uses_the_recorded_flags(workspace: Workspace) -> None:
    (workspace.root / "ci.toml").write_text(
        "[conversation.tools.deploy]\ncommand = 'x'\nrun = 'unattended'\nquestions.region.target ="
        " { model.id = 'scripted:s.json' }\n",
    )
    before = workspace.load(
        "ci.toml",
        "conversation.tools.*.detached=defer",
        flags=[MODEL, static_answer("deploy.confirm=yes")],
        toggles=[Toggle(False), Toggle(True, "deploy")],
    )

    after = workspace.load(recorded=[recorded(before)])

    assert after.settings == before.settings
    assert after.settings.tools["deploy"].policy.question("confirm").origin == "--answer"
    assert after.settings.toggles == (Toggle(False), Toggle(True, "deploy"))
    assert not after.ignored
    assert after.given.to_record() is None


def test_flags_of_the_resuming_command_override_recorded_ones(workspace: Workspace) -> None:
    first = workspace.load(
        "limits.cycles=5", "limits.form=5", flags=[MODEL], toggles=[Toggle(True)]
    )
    second = workspace.load("limits.form=6", recorded=[recorded(first)], toggles=[Toggle(False)])
    third = workspace.load("assistant.model.id=e/f", recorded=[recorded(first), recorded(second)])

    assert (third.settings.limits.cycles, third.settings.limits.form) == (5, 6)
    assert third.settings.assistant.model.id == "e/f"
    assert third.settings.toggles == (Toggle(True), Toggle(False))


def test_recorded_flags_override_files_and_environment(workspace: Workspace) -> None:
    delta = recorded(workspace.load(flags=[MODEL]))
    workspace.user("assistant.model.id = 'file/one'")

    loaded = workspace.load(
        recorded=[delta], environment={"MIDTURN_CFG_ASSISTANT__MODEL__ID": "variable/one"}
    )

    assert loaded.settings.assistant.model.id == "a/b"


@pytest.mark.parametrize("seal", ["0" * 64, ""])
def test_signed_flags_of_an_earlier_version_are_read(workspace: Workspace, seal: str) -> None:
    """A process that can write to the user's own store acts as the user."""
    delta = cast(
        "dict[str, Json]",
        recorded(workspace.load("conversation.tools.t.run=unattended", flags=[MODEL])),
    )
    delta["seal"] = seal

    loaded = workspace.load(recorded=[delta])

    assert loaded.settings.assistant.model.id == "a/b"
    assert loaded.settings.tool("t").policy.run == "unattended"
    assert not loaded.ignored


def test_encrypted_flags_of_an_earlier_version_are_skipped_and_reported(
    workspace: Workspace,
) -> None:
    delta = cast(
        "dict[str, Json]",
        recorded(workspace.load(flags=[MODEL, static_answer("deploy.confirm=yes")])),
    )
    cast("list[dict[str, Json]]", delta["flags"])[1]["value"] = {"sealed": "AAAA"}
    assert not unreadable([delta]), "an answer may look like that"
    delta["seal"] = "0" * 64

    loaded = workspace.load(recorded=[delta])

    assert loaded.settings.assistant.model.id == "a/b"
    assert not loaded.settings.tool("deploy").policy.questions
    assert unreadable([delta])
    assert unreadable([{"assistant": {"name": "jp"}}])


@pytest.mark.parametrize(
    "delta",
    [
        None,
        3,
        [],
        {"assistant": {"name": "jp"}},
        {"inherit": False},
        {"flags": [{"key": 1}]},
        {"cfg": "x"},
    ],
)
def test_deltas_of_other_programs_are_ignored(workspace: Workspace, delta: Json) -> None:
    assert workspace.load(recorded=[delta]).settings == workspace.load().settings


def test_relative_script_is_recorded_with_its_directory(workspace: Workspace) -> None:
    delta = cast(
        "dict[str, list[dict[str, Json]]]",
        recorded(workspace.load("assistant.model.id=scripted:s", "limits.form=1")),
    )

    assert [one.get("base") for one in delta["cfg"]] == [str(workspace.root), None]


def test_answers_and_private_values_apply_again(workspace: Workspace) -> None:
    """They are recorded unencrypted: secrets do not belong on a command line."""
    before = workspace.load(
        "providers.mcp.x={ url = 'http://127.0.0.1:1/', headers = { Authorization = 'Basic' } }",
        "conversation.tools.deploy.environment={ STAGE = 'eu' }",
        flags=[MODEL, static_answer("deploy.passphrase=fine")],
    )

    after = workspace.load(recorded=[recorded(before)])

    assert after.settings == before.settings
    assert after.settings.tools["deploy"].policy.question("passphrase").answer == Words("fine")
    assert after.settings.mcp["x"].headers == {"Authorization": "Basic"}
