"""A cloned repository's configuration weakens nothing and runs nothing before its user approved the file."""

from __future__ import annotations

import hashlib
import os
import stat

import pytest

from midturn.config.approvals import Approvals
from midturn.errors import ConfigError
from support.workspaces import Workspace

DEPLOY = "[conversation.tools.deploy]\ncommand = ['./deploy']\nsummary = 'Deploys.'\n"


@pytest.mark.parametrize(
    ("text", "key"),
    [
        ("conversation.tools.deploy.command = 'x'", "conversation.tools.deploy.command"),
        ("conversation.tools.fs_create_file.run = 'unattended'", "conversation.tools.fs_create_file.run"),
        ("conversation.tools.t.shell = true", "conversation.tools.t.shell"),
        ("conversation.tools.t.protocol = 'outcome'", "conversation.tools.t.protocol"),
        ("conversation.tools.t.environment = ['LD_PRELOAD']", "conversation.tools.t.environment"),
        ("conversation.tools.t.environment.LD_PRELOAD = './x.so'", "conversation.tools.t.environment.LD_PRELOAD"),
        ("conversation.tools.t.cwd = '/'", "conversation.tools.t.cwd"),
        ("conversation.tools.t.network = true", "conversation.tools.t.network"),
        ("conversation.tools.'*'.run = 'unattended'", "conversation.tools.'*'.run"),
        ("conversation.tools.'*'.detached = 'auto'", "conversation.tools.'*'.detached"),
        ("conversation.tools.t.detached.tool = 'defaults'", "conversation.tools.t.detached.tool"),
        ("conversation.tools.t.questions.q.answer = false", "conversation.tools.t.questions.q.answer"),
        ("conversation.tools.t.questions.'*'.exclusive = false", "conversation.tools.t.questions.'*'.exclusive"),
        ("conversation.tools.t.questions.q.target = 'assistant'", "conversation.tools.t.questions.q.target"),
        ("conversation.tools.t.questions.q.target.model.id = 'a/b'", "conversation.tools.t.questions.q.target.model.id"),
        ("conversation.tools.describe_tools.enable = false", "conversation.tools.describe_tools.enable"),
        ("notify.command = 'x'", "notify.command"),
        ("providers.mcp.m = { url = 'http://h' }", "providers.mcp.m.url"),
        ("providers.llm.openai.base_url = 'http://h'", "providers.llm.openai.base_url"),
        ("providers.llm.openai.api_key_env = 'AWS_SECRET'", "providers.llm.openai.api_key_env"),
        ("web.secrets = true", "web.secrets"),
        ("prompt.settle_ms = 0", "prompt.settle_ms"),
    ],
)
def test_what_weakens_a_guarantee_has_no_effect_until_it_is_approved(workspace: Workspace, text: str, key: str) -> None:
    untouched = workspace.load().settings
    workspace.workspace(f"{text}\n")

    loaded = workspace.load()

    assert "deploy" not in loaded.settings.tools
    assert loaded.settings == untouched
    assert key in [enabled.key for enabled in loaded.files[0].enables]
    (ignored,) = loaded.ignored
    assert ignored.startswith(".midturn/config.toml is not trusted, so `")
    assert f"`{key}`" in ignored
    assert "`midturn trust`" in ignored

    workspace.trust()
    assert not workspace.load().ignored
    assert workspace.load().settings != untouched
    assert workspace.load().files[0].approved


@pytest.mark.parametrize(
    "text",
    [
        "assistant.model.id = 'a/b'",
        "conversation.tools.t = { run = 'skip', result = 'ask', detached = 'deny' }",
        "conversation.tools.t.questions.q = { target = 'user', exclusive = true, prompt_label = 'x' }",
        "conversation.tools.fs_read_file.enable = false",
        "conversation.tools.t.result = 'unattended'",
        "limits.cycles = 5",
        "prompt = { settle_ms = 300, bell = false }",
        "",
    ],
)
def test_what_weakens_nothing_needs_no_approval(workspace: Workspace, text: str) -> None:
    workspace.workspace(text)

    loaded = workspace.load()

    assert not loaded.ignored
    assert not loaded.files
    assert not workspace.state.exists()


def test_the_users_own_lock_and_caution_are_not_undone_by_a_workspace(workspace: Workspace) -> None:
    workspace.user("[conversation.tools]\nt.enable = { state = false, allow_toggle = 'never' }\n'*'.result = 'ask'\n")
    workspace.workspace("[conversation.tools]\nt.enable = true\nt.result = 'unattended'\n")

    loaded = workspace.load()

    assert loaded.settings.tool("t").enable.state is False
    assert loaded.settings.tool("t").policy.result == "ask"
    assert len(loaded.files[0].enables) == 2


def test_the_rest_of_an_untrusted_file_holds(workspace: Workspace) -> None:
    workspace.workspace("assistant.name = 'Ours'\nconversation.tools.t.questions.q = { answer = 1, prompt_label = 'Kept' }\n")

    settings = workspace.load().settings

    assert settings.assistant.name == "Ours"
    assert settings.tool("t").policy.question("q").prompt_label == "Kept"


def test_a_tool_whose_command_waits_for_approval_is_absent_and_no_error(workspace: Workspace) -> None:
    workspace.workspace(DEPLOY + "source = 'local'\n[providers.llm.l]\nkind = 'openai-compatible'\nbase_url = 'http://h'\n")

    settings = workspace.load().settings

    assert "deploy" not in settings.tools
    assert "l" not in settings.llm


def test_a_workspace_does_not_replace_the_command_of_the_users_own_tool(workspace: Workspace) -> None:
    workspace.user("conversation.tools.deploy.command = 'mine'")
    workspace.workspace(DEPLOY)

    assert workspace.load().settings.tools["deploy"].command == ("mine",)


def test_a_changed_file_is_untrusted_again(workspace: Workspace) -> None:
    workspace.workspace(DEPLOY)
    workspace.trust()
    workspace.workspace(DEPLOY + "# changed\n")

    assert workspace.load().ignored


def test_only_the_newest_approval_of_a_file_counts(workspace: Workspace) -> None:
    workspace.workspace(DEPLOY)
    workspace.trust()
    workspace.workspace(DEPLOY + "shell = true\n")
    workspace.trust()
    workspace.workspace(DEPLOY)

    assert workspace.load().ignored


def test_each_file_is_approved_on_its_own_and_named_with_its_lines(workspace: Workspace) -> None:
    workspace.workspace(DEPLOY)
    workspace.trust()
    workspace.extra("10.toml", "\n[notify]\ncommand = 'evil --now'\n")

    loaded = workspace.load()

    assert "deploy" in loaded.settings.tools
    assert [file.approved for file in loaded.files] == [True, False]
    (enabled,) = loaded.files[1].enables
    assert enabled.place == ".midturn/config.d/10.toml:3"
    assert (enabled.value, enabled.why) == ('"evil --now"', "runs a program")


def test_the_same_content_elsewhere_is_not_approved(workspace: Workspace) -> None:
    """A relative command is another program in another directory."""
    workspace.workspace(DEPLOY)
    workspace.trust()
    workspace.root.rename(workspace.root.parent / "moved")
    workspace.root = workspace.root.parent / "moved"

    assert workspace.load().ignored


def test_a_variable_trusts_a_file_by_its_hash(workspace: Workspace) -> None:
    workspace.workspace(DEPLOY)
    digest = hashlib.sha256(workspace.file.read_bytes()).hexdigest()

    assert not workspace.load(environment={"MIDTURN_TRUST": digest.upper()}).ignored
    assert not workspace.load(environment={"MIDTURN_TRUST": f"{'0' * 64}, {digest}"}).ignored
    assert workspace.load(environment={"MIDTURN_TRUST": "0" * 64}).ignored
    assert workspace.load().files[0].sha256 == digest
    assert not workspace.state.exists()


def test_a_variable_that_is_no_hash_is_an_error(workspace: Workspace) -> None:
    with pytest.raises(ConfigError, match="MIDTURN_TRUST: `yes` is no SHA-256 hash"):
        workspace.load(environment={"MIDTURN_TRUST": "yes"})


def test_approvals_are_private_files_outside_the_workspace(workspace: Workspace) -> None:
    workspace.workspace(DEPLOY)
    workspace.trust()

    (record,) = (workspace.state / "trust").iterdir()
    assert stat.S_IMODE(record.stat().st_mode) == 0o600
    assert stat.S_IMODE(record.parent.stat().st_mode) == 0o700


def test_a_record_that_others_may_write_or_a_link_counts_as_none(workspace: Workspace) -> None:
    workspace.workspace(DEPLOY)
    workspace.trust()
    (record,) = (workspace.state / "trust").iterdir()

    record.chmod(0o666)
    assert workspace.load().ignored
    record.chmod(0o600)
    assert not workspace.load().ignored
    content = record.rename(record.with_suffix(".real"))
    record.symlink_to(content)
    assert workspace.load().ignored


def test_an_approval_that_cannot_be_written_is_an_error(workspace: Workspace) -> None:
    workspace.state.write_text("in the way")

    with pytest.raises(ConfigError, match="the approval cannot be written"):
        Approvals.of(workspace.state, {}).approve(workspace.file, "0" * 64)


def test_a_workspace_reached_by_a_link_is_the_same_workspace(workspace: Workspace) -> None:
    workspace.workspace(DEPLOY)
    workspace.trust()
    link = workspace.root.parent / "link"
    link.symlink_to(workspace.root)
    workspace.root = link

    assert not workspace.load().ignored


def test_names_that_are_no_text_do_not_stop_anything(workspace: Workspace) -> None:
    name = os.fsdecode(b"10-\xff.toml")
    workspace.extra(name, "notify.command = 'x'")

    assert workspace.load().ignored
    workspace.trust()
    assert not workspace.load().ignored
