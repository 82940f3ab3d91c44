"""`midturn config`: show, explain and change values."""

from __future__ import annotations

import tomllib

import pytest

from support.cli import CommandLine


def test_show_prints_every_value_as_toml_that_can_be_read_back(midturn: CommandLine) -> None:
    midturn.configure(
        '[assistant]\nname = "Ada \\u001b[31m"\n[conversation.tools.deploy]\ncommand = ["x", "y"]\n'
    )

    shown = midturn.ok("config", "show").stdout
    values = midturn.ok("config", "show", "--json").json

    assert "limits.cycles = 50\n" in shown
    assert 'conversation.tools.deploy.command = ["x", "y"]\n' in shown
    assert "conversation.tools.'*'.run = \"ask\"\n" in shown
    assert values["assistant"]["name"] == "Ada \x1b[31m"
    assert tomllib.loads(shown)["conversation"]["tools"]["fs_read_file"]["run"] == "unattended"


def test_get_prints_a_string_as_it_is_and_a_table_line_by_line(midturn: CommandLine) -> None:
    assert midturn.ok("config", "get", "assistant.name").stdout == "Midturn\n"
    assert midturn.ok("config", "get", "limits.cycles").stdout == "50\n"
    assert midturn.ok("config", "get", "limits.cycles", "--json").json == 50
    assert 'run = "ask"\n' in midturn.ok("config", "get", "conversation.tools.*").stdout


def test_explain_names_every_place_that_sets_a_key_in_order(midturn: CommandLine) -> None:
    midturn.configure("[limits]\ncycles = 20\n")
    midturn.workspace_file("# mine\n[limits]\ncycles = 10\n")

    shown = midturn.ok("config", "explain", "limits.cycles", MIDTURN_CFG_LIMITS__CYCLES="5").stdout

    assert shown.splitlines()[0] == "limits.cycles = 5"
    assert shown.splitlines()[2:] == [
        "  set by environment, MIDTURN_CFG_LIMITS__CYCLES",
        "  overrides workspace, .midturn/config.toml:3: 10",
        "  overrides user, ~/config/midturn/config.toml:2: 20",
        "  overrides built-in: 50",
    ]


def test_set_reports_values_without_effect(midturn: CommandLine) -> None:
    midturn.workspace_file(
        "".join(f"[conversation.tools.tool_{number}]\ncommand = ['x']\n" for number in range(9))
    )

    said = midturn.ok("config", "set", "assistant.name", "Ada").stderr

    assert said.endswith("\nTo review and approve it: `midturn trust`\n")
    assert "U+000A" not in said


def test_explain_breaks_its_rows_between_words(midturn: CommandLine) -> None:
    with midturn.on_a_terminal("config", "explain", "prompt.settle_ms", size=(40, 20)) as terminal:
        assert terminal.wait_for_end() == 0
        rows = terminal.rows

    assert rows[1:4] == [
        "  milliseconds for which a new prompt",
        "    ignores keys, so that keys typed for",
        "    something else do not answer it",
    ]


def test_explain_as_json(midturn: CommandLine) -> None:
    explained = midturn.ok("config", "explain", "--json", "limits.cycles").json

    assert [(one["key"], one["value"], one["settings"][0]["layer"]) for one in explained] == [
        ("limits.cycles", 50, "built-in")
    ]


def test_set_writes_the_workspaces_file_and_keeps_comments(midturn: CommandLine) -> None:
    file = midturn.workspace_file("# mine\n[limits]\ncycles = 10  # enough\n")

    midturn.ok("config", "set", "limits.cycles", "12")

    assert file.read_text() == "# mine\n[limits]\ncycles = 12  # enough\n"
    assert midturn.ok("config", "get", "limits.cycles").stdout == "12\n"


def test_value_set_by_the_user_needs_no_approval(midturn: CommandLine) -> None:
    midturn.ok("config", "set", "conversation.tools.fs_delete_file.run", "unattended")

    assert (
        midturn.ok("config", "get", "conversation.tools.fs_delete_file.run").stdout
        == "unattended\n"
    )


def test_setting_a_value_approves_nothing_that_waits_for_approval(midturn: CommandLine) -> None:
    midturn.workspace_file('[conversation.tools.evil]\ncommand = ["evil"]\n')

    finished = midturn.ok("config", "set", "assistant.name", "Ada")

    assert "is not trusted" in finished.stderr
    assert midturn.run("query", "--dry-run", "hi").status == 2


def test_set_for_the_user_makes_the_file(midturn: CommandLine) -> None:
    midturn.ok("config", "set", "--user", "assistant.model.id", "anthropic/claude-sonnet-5-5")

    assert tomllib.loads(midturn.config.read_text()) == {
        "assistant": {"model": {"id": "anthropic/claude-sonnet-5-5"}}
    }


def test_set_reports_a_value_that_is_overridden(midturn: CommandLine) -> None:
    finished = midturn.ok("config", "set", "limits.cycles", "12", MIDTURN_CFG_LIMITS__CYCLES="5")

    assert (
        "the value has no effect here, because MIDTURN_CFG_LIMITS__CYCLES overrides it."
        in finished.stderr
    )


def test_set_repairs_an_invalid_file(midturn: CommandLine) -> None:
    file = midturn.workspace_file("[limits]\ncycles = -1\n")
    assert midturn.run("config", "get", "limits.cycles").status == 2

    midturn.ok("config", "set", "limits.cycles", "3")

    assert file.read_text() == "[limits]\ncycles = 3\n"


def test_a_variable_in_a_header_is_not_shown(midturn: CommandLine) -> None:
    midturn.configure(
        '[providers.mcp.x]\nurl = "http://127.0.0.1:1/"\nheaders = { Authorization = "Bearer'
        ' sk-secret" }\n'
    )

    assert "sk-secret" not in midturn.ok("config", "show").stdout
    assert "sk-secret" not in midturn.ok("config", "get", "providers.mcp.x").stdout
    assert "sk-secret" not in midturn.ok("config", "explain", "providers.mcp.x").stdout


def test_outside_of_a_workspace_the_users_own_values_are_shown(midturn: CommandLine) -> None:
    (midturn.root / ".midturn").rmdir()
    midturn.configure("[limits]\ncycles = 20\n")

    assert midturn.ok("config", "get", "limits.cycles").stdout == "20\n"
    assert midturn.run("config", "set", "limits.cycles", "3").status == 2


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("assistant.model.id", "5"),
        ("assistant.model.id", "inherit"),
        ("assistant.model", '{ id = "sonnet" }'),
        ("conversation.tools.deploy.questions.confirm.target.model.id", "haiku/"),
    ],
)
def test_set_refuses_an_invalid_model(midturn: CommandLine, key: str, value: str) -> None:
    refused = midturn.run("config", "set", key, value)

    assert refused.status == 2
    assert "is not a model id. Write `<provider>/<model>`" in " ".join(refused.stderr.split())
    assert not (midturn.root / ".midturn" / "config.toml").exists()


def test_set_accepts_a_model_of_a_missing_provider_with_a_warning(midturn: CommandLine) -> None:
    said = midturn.ok("config", "set", "assistant.model.id", "local/m").stderr
    midturn.ok("config", "set", "conversation.inquiry.assistant.model.id", "inherit")

    assert "Unknown provider `local`." in said


def test_doctor_fails_for_an_unusable_model(midturn: CommandLine) -> None:
    midturn.configure('[assistant]\nmodel.id = "5"\n')

    report = midturn.run("doctor", "--json")

    (model,) = [one for one in report.json if one["what"] == "model"]
    assert (report.status, model["works"]) == (1, False)
    assert model["said"].startswith("`5` is not a model id.")
