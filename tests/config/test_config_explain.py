"""`config explain`: the effective value of a key and the places that set it."""

from __future__ import annotations

import pytest

from midturn.config.edit import explain, get, show
from midturn.errors import ConfigError
from support.workspaces import Workspace


def test_explain_lists_every_setting_with_its_line_effective_first(workspace: Workspace) -> None:
    workspace.user("\n[limits]\ncycles = 7\n")
    workspace.workspace("limits.cycles = 8\nlimits.form = 99\n")
    workspace.trust()

    (found,) = explain(workspace.load("limits.cycles=9"), "limits.cycles")

    assert (found.key, found.value) == ("limits.cycles", 9)
    assert [(setting.layer, setting.value) for setting in found.settings] == [
        ("--cfg", 9),
        ("workspace", 8),
        ("user", 7),
        ("built-in", 50),
    ]
    assert found.settings[1].place == ".midturn/config.toml:1"
    assert found.settings[2].place.endswith("config.toml:3")


def test_explain_lists_a_tools_own_entry_before_the_star(workspace: Workspace) -> None:
    workspace.user("conversation.tools.deploy.run = 'skip'\n")

    (found,) = explain(
        workspace.load("conversation.tools.*.run=edit"), "conversation.tools.deploy.run"
    )

    assert [(setting.key, setting.value) for setting in found.settings] == [
        ("conversation.tools.deploy.run", "skip"),
        ("conversation.tools.'*'.run", "edit"),
        ("conversation.tools.'*'.run", "ask"),
    ]


def test_a_table_is_explained_key_by_key(workspace: Workspace) -> None:
    workspace.user("conversation.tools.deploy.detached = 'deny'\n")

    found = explain(workspace.load(), "conversation.tools.deploy.detached")

    assert {one.key.rpartition(".")[2]: one.value for one in found} == {
        "run": "deny",
        "deliver": "deny",
        "tool": "deny",
    }
    assert all(one.settings[0].key == "conversation.tools.deploy.detached" for one in found)


def test_explain_reports_an_unset_key(workspace: Workspace) -> None:
    (found,) = explain(workspace.load(), "assistant.model.id")

    assert (found.value, found.settings) == (None, ())
    assert "PROVIDER/NAME" in found.help


def test_get_returns_the_effective_value_for_a_tool(workspace: Workspace) -> None:
    workspace.user("conversation.tools.'*' = { run = 'edit', questions.'*'.target = 'assistant' }")
    loaded = workspace.load()

    assert get(loaded, "conversation.tools.deploy.run") == "edit"
    assert get(loaded, "conversation.tools.fs_read_file.run") == "unattended"
    assert get(loaded, "conversation.tools.deploy.questions.any.target") == "assistant"
    assert get(loaded, "conversation.tools.deploy.detached.run") == "deny"
    assert get(loaded, "assistant.request") == {"cache": "short", "max_retries": 4}


@pytest.mark.parametrize(
    ("key", "message"),
    [
        ("assistant.modl", "unknown key `assistant.modl`. Did you mean `model`?"),
        ("assistant.name.x", "`assistant.name` is a value, not a table"),
        ("assistant.model.id", "`assistant.model.id` has no value."),
        ("a b", "`a b` is not a valid key"),
    ],
)
def test_a_key_without_a_value_is_an_error(workspace: Workspace, key: str, message: str) -> None:
    with pytest.raises(ConfigError) as error:
        get(workspace.load(), key)
    assert message in str(error.value)


@pytest.mark.parametrize(
    ("written", "shown"),
    [
        ("'user'", "user"),
        ("'assistant'", "assistant"),
        ("{ escalation = true }", "assistant_with_escalation"),
        ("{ model.id = 'a/b', escalation = true }", {"model": {"id": "a/b"}, "escalation": True}),
    ],
)
def test_target_is_shown_as_toml(workspace: Workspace, written: str, shown: object) -> None:
    workspace.user(f"conversation.tools.t.questions.q.target = {written}")

    assert get(workspace.load(), "conversation.tools.t.questions.q") == {"target": shown}


def test_show_hides_what_is_private(workspace: Workspace) -> None:
    workspace.user(
        "[providers.mcp.m]\nurl = 'http://h'\nheaders = { Authorization = 'Bearer s3cret'"
        " }\nenvironment = { K = 's3cret', P = true }"
    )
    loaded = workspace.load()

    assert "s3cret" not in str(show(loaded))
    assert get(loaded, "providers.mcp.m") == {
        "url": "http://h",
        "headers": {"Authorization": "(hidden)"},
        "environment": {"K": "(hidden)", "P": True},
    }
    assert get(loaded, "providers.mcp.m.headers.Authorization") == "Bearer s3cret"


def test_show_has_the_effective_configuration_of_each_tool(workspace: Workspace) -> None:
    shown = show(workspace.load())

    assert shown["limits"]["cycles"] == 50  # type: ignore[index, call-overload]
    assert shown["conversation"]["tools"]["ask_user"]["detached"]["run"] == "deny"  # type: ignore[index, call-overload]


def test_shorthand_for_a_table_is_explained_as_written(workspace: Workspace) -> None:
    workspace.user("conversation.tools.deploy.questions.confirm.target = 'assistant'\n")
    key = "conversation.tools.deploy.questions.confirm.target"

    (found,) = explain(workspace.load(f"{key}=assistant_with_escalation"), key)

    assert found.value == "assistant_with_escalation"
    assert [setting.value for setting in found.settings] == [
        "assistant_with_escalation",
        "assistant",
    ]
