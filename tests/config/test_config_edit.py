"""`config set` changes one value and keeps comments, order and all other values."""

from __future__ import annotations

import hashlib
import tomllib
from pathlib import Path

import pytest
from hypothesis import given, settings as hypothesis_settings, strategies as st

from midturn.config.edit import SetValue, add_rule, keep_trust, remove_rule, set_value
from midturn.config.tree import key_lines
from midturn.errors import ConfigError
from support.workspaces import Workspace

TEXT = """\
# Ours.
[assistant]   # the main one
name = "x"  # keep
model = { id = "a/b" }

[conversation.tools.deploy]
command = [
    "./deploy",  # in the repository
]
detached = "deny"
questions.confirm.target = "assistant_with_escalation"

[limits]
"""


def edited(workspace: Workspace, key: str, words: str) -> str:
    workspace.workspace(TEXT)
    set_value(workspace.file, "config.toml", key, words)
    return workspace.file.read_text()


@pytest.mark.parametrize(
    ("key", "words", "old", "new"),
    [
        ("assistant.name", "Ada", 'name = "x"  # keep', 'name = "Ada"  # keep'),
        ("assistant.model.id", "c/d", 'model = { id = "a/b" }', 'model = { id = "c/d" }'),
        ("limits.cycles", "9", "[limits]\n", "[limits]\ncycles = 9\n"),
        (
            "conversation.tools.deploy.command",
            '["x"]',
            'command = [\n    "./deploy",  # in the repository\n]',
            'command = ["x"]',
        ),
        ("conversation.tools.deploy.detached", "defer", 'detached = "deny"', 'detached = "defer"'),
    ],
)
def test_one_value_changes_in_place(
    workspace: Workspace, key: str, words: str, old: str, new: str
) -> None:
    assert edited(workspace, key, words) == TEXT.replace(old, new)


@pytest.mark.parametrize(
    ("key", "words"),
    [
        ("assistant.model.parameters.temperature", "0.5"),
        ("assistant.request.cache", "off"),
        ("conversation.tools.'*'.run", "skip"),
        ("conversation.tools.*.questions.'*'.answer", "{ a = [1, 2] }"),
        ("conversation.tools.deploy.questions.region.answer", "eu-1"),
        ("prompt.bell", "false"),
    ],
)
def test_new_tables_are_added_and_comments_are_kept(
    workspace: Workspace, key: str, words: str
) -> None:
    after = edited(workspace, key, words)

    for comment in ("# Ours.", "# the main one", "# keep", "# in the repository"):
        assert comment in after
    workspace.trust()
    assert workspace.load()


def test_shorthand_is_expanded_when_one_field_is_set(workspace: Workspace) -> None:
    detached = tomllib.loads(edited(workspace, "conversation.tools.deploy.detached.tool", "auto"))[
        "conversation"
    ]["tools"]["deploy"]["detached"]
    target = tomllib.loads(
        edited(workspace, "conversation.tools.deploy.questions.confirm.target.model.id", "a/b")
    )
    words = edited(workspace, "conversation.tools.deploy.questions.confirm.target", "user")

    assert detached == {"run": "deny", "deliver": "deny", "tool": "auto"}
    confirm = target["conversation"]["tools"]["deploy"]["questions"]["confirm"]
    assert confirm == {"target": {"escalation": True, "model": {"id": "a/b"}}}
    assert 'target = "user"' in words


def test_a_file_that_is_not_there_is_made(workspace: Workspace) -> None:
    file = workspace.user_file.parent / "new" / "config.toml"

    assert set_value(file, "config.toml", "assistant.model.id", "a/b") == SetValue(
        "a/b", hashlib.sha256(file.read_bytes()).hexdigest()
    )
    assert tomllib.loads(file.read_text()) == {"assistant": {"model": {"id": "a/b"}}}
    assert file.stat().st_mode & 0o777 == 0o600


def test_the_mode_of_a_file_stays(workspace: Workspace) -> None:
    workspace.workspace("")
    workspace.file.chmod(0o644)

    set_value(workspace.file, "config.toml", "assistant.name", "x")

    assert workspace.file.stat().st_mode & 0o777 == 0o644


@pytest.mark.parametrize(
    ("key", "words", "message"),
    [
        ("assistant.nme", "x", "config set: unknown key `assistant.nme`. Did you mean `name`?"),
        ("limits.cycles", "many", 'expected a whole number of at least 1, not "many"'),
        (
            "a b",
            "x",
            "` is not a valid key; expected a dotted key such as `conversation.tools.'*'.run`",
        ),
        (
            "conversation.tools.ask_user.run",
            "[",
            'expected "ask", "unattended", "edit" or "skip", not "["',
        ),
    ],
)
def test_wrong_key_or_value_does_not_change_the_file(
    workspace: Workspace, key: str, words: str, message: str
) -> None:
    workspace.workspace(TEXT)

    with pytest.raises(ConfigError) as error:
        set_value(workspace.file, "config.toml", key, words)

    assert message in str(error.value)
    assert workspace.file.read_text() == TEXT


@pytest.mark.parametrize("text", ["broken =\n", "[assistant\n", "a = 1\na = 2\n"])
def test_invalid_toml_file_is_not_changed(workspace: Workspace, text: str) -> None:
    workspace.workspace(text)

    with pytest.raises(ConfigError, match=r"config\.toml:\d: not valid TOML"):
        set_value(workspace.file, "config.toml", "assistant.name", "x")
    assert workspace.file.read_text() == text


def test_a_link_is_refused(workspace: Workspace, tmp_path: Path) -> None:
    (tmp_path / "elsewhere.toml").write_text("")
    workspace.file.symlink_to(tmp_path / "elsewhere.toml")

    with pytest.raises(ConfigError, match="a symbolic link"):
        set_value(workspace.file, "config.toml", "assistant.name", "x")


def test_the_users_own_edit_keeps_a_file_trusted(workspace: Workspace) -> None:
    before = workspace.load()
    edited = set_value(workspace.file, "config.toml", "conversation.tools.deploy.command", "x")

    assert keep_trust(before, workspace.load(), edited, workspace.approvals)
    assert "deploy" in workspace.load().settings.tools


def test_edit_does_not_approve_foreign_changes(workspace: Workspace) -> None:
    workspace.workspace("notify.command = 'evil'\n")
    before = workspace.load()
    edited = set_value(workspace.file, "config.toml", "assistant.name", "x")

    assert not keep_trust(before, workspace.load(), edited, workspace.approvals)
    assert workspace.load().ignored


def test_foreign_change_right_after_an_edit_is_not_approved(workspace: Workspace) -> None:
    before = workspace.load()
    edited = set_value(workspace.file, "config.toml", "conversation.tools.deploy.command", "x")
    workspace.workspace("notify.command = 'evil'\n")

    assert not keep_trust(before, workspace.load(), edited, workspace.approvals)
    assert workspace.load().ignored


_KEYS = [
    "assistant.name",
    "assistant.model.id",
    "limits.cycles",
    "conversation.tools.a.run",
    "conversation.tools.*.detached.run",
    "conversation.tools.a.questions.q.target.model.id",
    "conversation.tools.b.detached",
    "providers.llm.x.kind",
]
_VALUES = {
    "assistant.name": "n",
    "limits.cycles": "3",
    "conversation.tools.a.run": "skip",
    "conversation.tools.*.detached.run": "deny",
    "conversation.tools.b.detached": "deny",
    "providers.llm.x.kind": "openai",
}


@hypothesis_settings(deadline=None)
@given(st.lists(st.sampled_from(_KEYS), max_size=8))
def test_edits_in_any_order_give_the_same_keys(
    tmp_path_factory: pytest.TempPathFactory, keys: list[str]
) -> None:
    file = tmp_path_factory.mktemp("edits") / "config.toml"
    file.write_text("# first\n")

    for key in keys:
        set_value(file, "config.toml", key, _VALUES.get(key, "a/b"))

    text = file.read_text()
    assert text.startswith("# first\n")
    written = {".".join(path) for path in key_lines(text)}
    assert all(key in written for key in keys)


RULE = {"when": {"cmd": "git status"}, "run": "unattended"}
OTHER = {"when": {"cmd": "git log"}, "run": "ask"}
SHELL = ("conversation", "tools", "shell", "rules")


@pytest.mark.parametrize(
    "text",
    [
        "",
        "# Mine.\n[limits]\nshown = 9  # enough\n",
        "[conversation.tools.shell]\nrun = 'ask'  # always\n",
        "[[conversation.tools.shell.rules]]  # one\nwhen.cmd = 'ls'\nrun = 'ask'\n",
        "[conversation.tools.shell]\nrules = [{ when = { cmd = 'ls' }, run = 'ask' }]\n",
        "conversation.tools.shell = { run = 'ask' }\n",
    ],
)
def test_a_rule_is_added_at_the_end_and_removed_again_and_nothing_else_changes(
    text: str, workspace: Workspace
) -> None:
    workspace.workspace(text)
    before = (
        tomllib.loads(text)
        .get("conversation", {})
        .get("tools", {})
        .get("shell", {})
        .get("rules", [])
    )
    for rule in (RULE, OTHER):
        add_rule(workspace.file, "config.toml", SHELL, rule)
    written = workspace.file.read_text()
    assert tomllib.loads(written)["conversation"]["tools"]["shell"]["rules"] == [
        *before,
        RULE,
        OTHER,
    ]
    assert [line for line in text.splitlines() if "#" in line and line not in written] == []
    remove_rule(workspace.file, "config.toml", SHELL, len(before) + 1)
    assert tomllib.loads(workspace.file.read_text())["conversation"]["tools"]["shell"]["rules"] == [
        *before,
        OTHER,
    ]
    with pytest.raises(ConfigError, match="has no rule 7"):
        remove_rule(workspace.file, "config.toml", SHELL, 7)
    for _ in range(len(before) + 1):
        remove_rule(workspace.file, "config.toml", SHELL, 1)
    assert "rules" not in tomllib.loads(workspace.file.read_text()).get("conversation", {}).get(
        "tools", {}
    ).get("shell", {})


def test_invalid_rule_is_not_written(workspace: Workspace) -> None:
    workspace.workspace(TEXT)
    with pytest.raises(ConfigError, match="a rule has `run`"):
        add_rule(
            workspace.file, "config.toml", SHELL, {"when": {"cmd": "ls"}, "runs": "unattended"}
        )
    assert workspace.file.read_text() == TEXT
