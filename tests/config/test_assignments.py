"""Single values: `--cfg KEY=VALUE`, `--answer`, `MIDTURN_CFG_…`."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given, strategies as st

from midturn.config.assign import environment_values, key_value, parse_key, static_answer, typed
from midturn.config.tree import dotted
from midturn.errors import ConfigError
from midturn.question.json_value import Json
from midturn.routing.policy import Words
from support.workspaces import Workspace


@given(st.lists(st.text(st.characters(codec="utf-8"), max_size=8), min_size=1, max_size=4))
def test_a_written_key_is_read_back(names: list[str]) -> None:
    assert parse_key(dotted(tuple(names)), "here") == tuple(names)


@pytest.mark.parametrize(
    "text", ["", "a..b", "a.", ".a", "a b", "a=b", 'a."\\q"', "a.'b", "a\nb", "#"]
)
def test_invalid_key_is_an_error(text: str) -> None:
    with pytest.raises(
        ConfigError,
        match=(
            "` is not a valid key; expected a dotted key such as"
            " `conversation\\.tools\\.'\\*'\\.run`"
        ),
    ):
        parse_key(text, "here")


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("true", True),
        ("3", 3),
        ("0.5", 0.5),
        ('"quoted"', "quoted"),
        ("eu-1", "eu-1"),
        ("", ""),
        ('["a", 2]', ["a", 2]),
        ("{ a = 1 }", {"a": 1}),
        ("2024-01-01", "2024-01-01"),
        ("1\nother = 2", "1\nother = 2"),
        ("it's", "it's"),
        ("[", "["),
    ],
)
def test_a_value_is_toml_or_else_a_string(text: str, value: Json) -> None:
    assert typed(("conversation", "tools", "t", "questions", "q", "answer"), text) == value


def test_a_key_that_takes_text_gets_text() -> None:
    assert typed(("assistant", "name"), "42") == "42"
    assert typed(("assistant", "name"), '"42"') == "42"
    assert typed(("assistant", "model", "parameters", "top_k"), "42") == 42


def test_value_without_a_key_names_a_file() -> None:
    assert key_value("./odd=name.toml", "--cfg") is None
    assert key_value("ci.toml", "--cfg") is None
    found = key_value("conversation.tools.*.run=skip", "--cfg")
    assert found is not None
    assert (found.key, found.value) == ("conversation.tools.'*'.run", "skip")


def test_variable_names_are_uppercase_keys() -> None:
    found = environment_values(
        {
            "MIDTURN_CFG_ASSISTANT__MODEL__ID": "a/b",
            "MIDTURN_CFG_CONVERSATION__TOOLS__fs_Read__RUN": "skip",
            "HOME": "/",
        }
    )

    assert [(one.key, one.value, one.origin) for one in found] == [
        ("assistant.model.id", "a/b", "MIDTURN_CFG_ASSISTANT__MODEL__ID"),
        ("conversation.tools.fs_Read.run", "skip", "MIDTURN_CFG_CONVERSATION__TOOLS__fs_Read__RUN"),
    ]


def test_a_variable_that_names_no_key_is_an_error(workspace: Workspace) -> None:
    with pytest.raises(
        ConfigError,
        match=r"MIDTURN_CFG_ASSISTANT__NAM: unknown key `assistant\.nam`\. Did you mean `name`\?",
    ):
        workspace.load(environment={"MIDTURN_CFG_ASSISTANT__NAM": "x", "MIDTURN_CFGX": "y"})


@pytest.mark.parametrize(
    "variable",
    ["MIDTURN_CFG_", "MIDTURN_CFG_A__\udcff", 'MIDTURN_CFG_A__"', "MIDTURN_CFG_A__\x1b[31m"],
)
def test_malformed_variables_are_errors(workspace: Workspace, variable: str) -> None:
    with pytest.raises(ConfigError):
        workspace.load(environment={variable: "1"})


def test_a_value_that_is_not_unicode_is_an_error(workspace: Workspace) -> None:
    with pytest.raises(ConfigError, match="expected a string of UTF-8 text"):
        workspace.load(environment={"MIDTURN_CFG_ASSISTANT__NAME": "\udcff"})


def test_answer_keeps_its_text_and_source(workspace: Workspace) -> None:
    """The question's type decides later whether `true` is a boolean or a text."""
    settings = workspace.load(
        flags=[static_answer("deploy.confirm=true"), static_answer("deploy.*=a=b\nc")]
    ).settings

    questions = settings.tool("deploy").policy
    assert (questions.question("confirm").answer, questions.question("confirm").origin) == (
        Words("true"),
        "--answer",
    )
    assert questions.question("other").answer == Words("a=b\nc")


@pytest.mark.parametrize(
    "text", ["deploy", "deploy.confirm", "deploy=yes", ".confirm=yes", "a b.c=1"]
)
def test_an_answer_without_tool_question_and_value_is_an_error(text: str) -> None:
    with pytest.raises(
        ConfigError, match=r"expected TOOL\.QUESTION=VALUE, for example deploy\.confirm=yes"
    ):
        static_answer(text)


def test_file_given_by_flag_is_trusted_and_has_line_numbers(workspace: Workspace) -> None:
    file = workspace.root / "ci.toml"
    file.write_text("[conversation.tools.t]\ncommand = 'x'\nrun = 'unattended'\n")

    loaded = workspace.load("ci.toml")
    assert loaded.settings.tools["t"].command == ("x",)
    assert not loaded.ignored

    file.write_text("[conversation.tools.t]\ncomand = 'x'\n")
    with pytest.raises(
        ConfigError,
        match=(
            r"ci\.toml:2: unknown key `conversation\.tools\.t\.comand`\. Did you mean `command`\?"
        ),
    ):
        workspace.load("ci.toml")


def test_script_path_is_relative_to_its_configuration(workspace: Workspace, tmp_path: Path) -> None:
    for directory in (workspace.file.parent, workspace.root, tmp_path / "flags"):
        directory.mkdir(exist_ok=True)
        (directory / "talk.json").write_text("{}")
    (tmp_path / "flags" / "own.toml").write_text("assistant.model.id = 'scripted:talk.json'")
    workspace.workspace("assistant.model.id = 'scripted:talk.json'")
    workspace.trust()

    assert (
        workspace.load().settings.assistant.model.id
        == f"scripted:{workspace.file.parent.resolve()}/talk.json"
    )
    assert (
        workspace.load("assistant.model.id=scripted:talk.json").settings.assistant.model.id
        == f"scripted:{workspace.root}/talk.json"
    )
    assert (
        workspace.load(str(tmp_path / "flags" / "own.toml")).settings.assistant.model.id
        == f"scripted:{tmp_path}/flags/talk.json"
    )

    (workspace.file.parent / "talk.json").unlink()
    assert (
        workspace.load().settings.assistant.model.id
        == f"scripted:{workspace.root.resolve()}/talk.json"
    )
