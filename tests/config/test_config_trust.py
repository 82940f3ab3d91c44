"""The configuration of a cloned repository weakens nothing and runs nothing until the user has
approved the file.
"""

from __future__ import annotations

import hashlib
import os
import stat

import pytest

from midturn.config.approvals import Approvals, FileSubject
from midturn.config.keys import KEYS, Branch, Leaf, Node
from midturn.config.trust import RULES
from midturn.errors import ConfigError
from support.workspaces import Workspace

DEPLOY = "[conversation.tools.deploy]\ncommand = ['./deploy']\nsummary = 'Deploys.'\n"


@pytest.mark.parametrize(
    ("text", "key"),
    [
        ("conversation.tools.deploy.command = 'x'", "conversation.tools.deploy.command"),
        (
            "conversation.tools.fs_create_file.run = 'unattended'",
            "conversation.tools.fs_create_file.run",
        ),
        ("conversation.tools.t.shell = true", "conversation.tools.t.shell"),
        ("conversation.tools.t.protocol = 'outcome'", "conversation.tools.t.protocol"),
        ("conversation.tools.t.environment = ['LD_PRELOAD']", "conversation.tools.t.environment"),
        (
            "conversation.tools.t.environment.LD_PRELOAD = './x.so'",
            "conversation.tools.t.environment.LD_PRELOAD",
        ),
        ("conversation.tools.t.cwd = '/'", "conversation.tools.t.cwd"),
        ("conversation.tools.t.network = true", "conversation.tools.t.network"),
        ("conversation.tools.'*'.run = 'unattended'", "conversation.tools.'*'.run"),
        ("conversation.tools.'*'.detached = 'auto'", "conversation.tools.'*'.detached"),
        ("conversation.tools.t.detached.run = 'defaults'", "conversation.tools.t.detached.run"),
        ("conversation.tools.t.detached.run = 'defer'", "conversation.tools.t.detached.run"),
        ("conversation.tools.t.hidden = true", "conversation.tools.t.hidden"),
        ("conversation.tools.t.style = 'full'", "conversation.tools.t.style"),
        ("conversation.tools.t.summary = 'Safe.'", "conversation.tools.t.summary"),
        (
            "conversation.tools.t.parameters.x.type = 'string'",
            "conversation.tools.t.parameters.x.type",
        ),
        (
            "conversation.tools.t.questions.q.target = 'user'",
            "conversation.tools.t.questions.q.target",
        ),
        (
            f"conversation.tools.t.questions.q.prompt_label = '{'x' * 65}'",
            "conversation.tools.t.questions.q.prompt_label",
        ),
        (
            "conversation.inquiry.assistant.model.id = 'a/b'",
            "conversation.inquiry.assistant.model.id",
        ),
        (
            "conversation.inquiry.assistant.system_prompt = 'Approve.'",
            "conversation.inquiry.assistant.system_prompt",
        ),
        ("assistant.model.id = 'scripted:play.json'", "assistant.model.id"),
        ("assistant.model.id = 'a/b'", "assistant.model.id"),
        (
            "assistant.model.parameters.extra_headers.Authorization = 'x'",
            "assistant.model.parameters.extra_headers",
        ),
        (
            "assistant.model.parameters.extra_body = { store = true }",
            "assistant.model.parameters.extra_body",
        ),
        (
            "assistant.model.parameters.openai_previous_response_id = 'x'",
            "assistant.model.parameters.openai_previous_response_id",
        ),
        ("assistant.system_prompt = 'Obey.'", "assistant.system_prompt"),
        ("assistant.tool_choice = 'required'", "assistant.tool_choice"),
        ("assistant.request.max_retries = 100", "assistant.request.max_retries"),
        ("limits.cycles = 100_000", "limits.cycles"),
        ("prompt.bell = false", "prompt.bell"),
        (
            "conversation.tools.t.questions.q.answer = false",
            "conversation.tools.t.questions.q.answer",
        ),
        (
            "conversation.tools.t.questions.'*'.exclusive = false",
            "conversation.tools.t.questions.'*'.exclusive",
        ),
        (
            "conversation.tools.t.questions.q.target = 'assistant'",
            "conversation.tools.t.questions.q.target",
        ),
        (
            "conversation.tools.t.questions.q.target.model.id = 'a/b'",
            "conversation.tools.t.questions.q.target.model.id",
        ),
        (
            "conversation.tools.describe_tools.enable = false",
            "conversation.tools.describe_tools.enable",
        ),
        ("notify.command = 'x'", "notify.command"),
        ("providers.mcp.m = { url = 'http://h' }", "providers.mcp.m.url"),
        ("providers.llm.openai.base_url = 'http://h'", "providers.llm.openai.base_url"),
        ("providers.llm.openai.api_key_env = 'AWS_SECRET'", "providers.llm.openai.api_key_env"),
        ("web.secrets = true", "web.secrets"),
        ("prompt.settle_ms = 0", "prompt.settle_ms"),
    ],
)
def test_weakening_value_has_no_effect_until_approved(
    workspace: Workspace, text: str, key: str
) -> None:
    untouched = workspace.load().settings
    workspace.workspace(f"{text}\n")

    loaded = workspace.load()

    assert "deploy" not in loaded.settings.tools
    assert loaded.settings == untouched
    assert key in [enabled.key for enabled in loaded.files[0].enables]
    (ignored,) = loaded.ignored
    assert ignored.startswith(".midturn/config.toml is not trusted, so `")
    assert f"`{key}`" in ignored

    workspace.trust()
    assert not workspace.load().ignored
    assert workspace.load().settings != untouched
    assert workspace.load().files[0].approved


@pytest.mark.parametrize(
    "text",
    [
        "assistant.model.parameters = { temperature = 0, max_tokens = 5, stop_sequences = ['x'] }",
        "conversation.tools.t = { run = 'skip', result = 'ask', detached = 'deny' }",
        "conversation.tools.t.questions.q = { exclusive = true, prompt_label = 'x' }",
        "conversation.tools.t.detached.tool = 'defaults'",
        "conversation.tools.t.timeout = 5",
        "conversation.tools.fs_read_file.enable = false",
        "conversation.tools.t.result = 'unattended'",
        "limits.cycles = 5",
        "prompt = { settle_ms = 300, mode = 'plain' }",
        "",
    ],
)
def test_harmless_value_needs_no_approval(workspace: Workspace, text: str) -> None:
    workspace.workspace(text)

    loaded = workspace.load()

    assert not loaded.ignored
    assert not [file for file in loaded.files if file.notice]
    assert not workspace.state.exists()


def test_workspace_cannot_undo_the_users_restrictions(workspace: Workspace) -> None:
    workspace.user(
        "[conversation.tools]\nt.enable = { state = false, allow_toggle = 'never' }\n'*'.result ="
        " 'ask'\n"
    )
    workspace.workspace("[conversation.tools]\nt.enable = true\nt.result = 'unattended'\n")

    loaded = workspace.load()

    assert loaded.settings.tool("t").enable.state is False
    assert loaded.settings.tool("t").policy.result == "ask"
    assert len(loaded.files[0].enables) == 2


def test_other_values_of_an_untrusted_file_apply(workspace: Workspace) -> None:
    workspace.workspace(
        "assistant.name = 'Ours'\nconversation.tools.t.questions.q = { answer = 1, prompt_label ="
        " 'Kept' }\n"
    )

    settings = workspace.load().settings

    assert settings.assistant.name == "Ours"
    assert settings.tool("t").policy.question("q").prompt_label == "Kept"


def test_tool_with_an_unapproved_command_is_missing_without_error(workspace: Workspace) -> None:
    workspace.workspace(
        DEPLOY
        + "source = 'local'\n[providers.llm.l]\nkind = 'openai-compatible'\nbase_url = 'http://h'\n"
    )

    settings = workspace.load().settings

    assert "deploy" not in settings.tools
    assert "l" not in settings.llm


def test_a_workspace_does_not_replace_the_command_of_the_users_own_tool(
    workspace: Workspace,
) -> None:
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
    """A relative command is a different program in another directory."""
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
    assert workspace.load().files[0].subject.sha256 == digest
    assert not workspace.state.exists()


def test_a_variable_that_is_no_hash_is_an_error(workspace: Workspace) -> None:
    with pytest.raises(ConfigError, match="MIDTURN_TRUST: `yes` is not a SHA-256 hash"):
        workspace.load(environment={"MIDTURN_TRUST": "yes"})


def test_approvals_are_private_files_outside_the_workspace(workspace: Workspace) -> None:
    workspace.workspace(DEPLOY)
    workspace.trust()

    (record,) = (workspace.state / "trust").iterdir()
    assert stat.S_IMODE(record.stat().st_mode) == 0o600
    assert stat.S_IMODE(record.parent.stat().st_mode) == 0o700


def test_record_writable_by_others_or_linked_is_ignored(workspace: Workspace) -> None:
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

    with pytest.raises(ConfigError, match=": cannot write the approval:"):
        Approvals.of(workspace.state, {}).approve(
            FileSubject(path=workspace.file, root=workspace.root, sha256="0" * 64)
        )


def test_a_workspace_reached_by_a_link_is_the_same_workspace(workspace: Workspace) -> None:
    workspace.workspace(DEPLOY)
    workspace.trust()
    link = workspace.root.parent / "link"
    link.symlink_to(workspace.root)
    workspace.root = link

    assert not workspace.load().ignored


def test_undecodable_file_names_are_accepted(workspace: Workspace) -> None:
    name = os.fsdecode(b"10-\xff.toml")
    workspace.extra(name, "notify.command = 'x'")

    assert workspace.load().ignored
    workspace.trust()
    assert not workspace.load().ignored


@pytest.mark.parametrize(
    ("own", "theirs"),
    [
        ("conversation.tools.t.result = 'skip'", "conversation.tools.t.result = 'ask'"),
        ("conversation.tools.t.run = 'skip'", "conversation.tools.t.run = 'ask'"),
        ("conversation.tools.'*'.run = 'skip'", "conversation.tools.t.run = 'ask'"),
        ("conversation.tools.'*'.run = 'skip'", "conversation.tools.t.run = 'edit'"),
        ("conversation.tools.t.run = 'ask'", "conversation.tools.t.run = 'edit'"),
        ("conversation.tools.t.detached = 'deny'", "conversation.tools.t.detached = 'defer'"),
        ("conversation.tools.t.timeout = 5", "conversation.tools.t.timeout = 6"),
        ("conversation.tools.t.enable = false", "conversation.tools.t.enable = true"),
        (
            "conversation.tools.t.questions.q.exclusive = true",
            "conversation.tools.t.questions.q.exclusive = false",
        ),
        (
            "conversation.tools.t.questions.q.exclusive = true",
            "conversation.tools.t.questions.'*'.exclusive = false",
        ),
        ("limits.repeats = 2", "limits.repeats = 3"),
        ("limits.seconds = 2", "limits.seconds = 3"),
    ],
)
def test_users_settings_are_never_loosened(workspace: Workspace, own: str, theirs: str) -> None:
    workspace.user(f"{own}\n")
    before = workspace.load().settings
    workspace.workspace(f"{theirs}\n")

    loaded = workspace.load()

    assert loaded.settings == before
    assert loaded.ignored


@pytest.mark.parametrize(
    ("own", "theirs"),
    [
        ("conversation.tools.t.run = 'unattended'", "conversation.tools.t.run = 'ask'"),
        ("conversation.tools.'*'.run = 'unattended'", "conversation.tools.t.run = 'skip'"),
        ("conversation.tools.'*'.detached = 'auto'", "conversation.tools.'*'.detached = 'defer'"),
        ("conversation.tools.t.timeout = 5", "conversation.tools.t.timeout = 4"),
        ("limits.seconds = 2", "limits.seconds = 1"),
        (
            "conversation.tools.t.questions.q.exclusive = false",
            "conversation.tools.t.questions.q.exclusive = true",
        ),
    ],
)
def test_users_settings_may_be_tightened(workspace: Workspace, own: str, theirs: str) -> None:
    workspace.user(f"{own}\n")
    before = workspace.load().settings
    workspace.workspace(f"{theirs}\n")

    loaded = workspace.load()

    assert loaded.settings != before
    assert not loaded.ignored


def test_file_entry_for_one_tool_does_not_loosen_a_flag_for_all(workspace: Workspace) -> None:
    """A tool's own entry has precedence over that of `'*'`.

    A clone must not use this to protect its own tool from the user's flags.
    """
    workspace.user("conversation.tools.'*'.run = 'unattended'\n")
    workspace.workspace("conversation.tools.deploy = { run = 'ask', timeout = 50 }\n")
    strict = "conversation.tools.'*'.run='skip'"

    assert (
        workspace.load(strict, "conversation.tools.'*'.timeout=5")
        .settings.tool("deploy")
        .policy.run
        == "skip"
    )
    assert (
        workspace.load(strict, "conversation.tools.'*'.timeout=5").settings.tool("deploy").timeout
        == 5
    )
    assert (
        workspace.load(strict, "conversation.tools.deploy.run='unattended'")
        .settings.tool("deploy")
        .policy.run
        == "unattended"
    )
    assert workspace.load("conversation.tools.'*'.timeout=99").settings.tool("deploy").timeout == 50


@pytest.mark.parametrize(
    ("own", "theirs"),
    [
        ("'*'.run = 'skip'\nt.run = 'unattended'", "t.run = 'ask'"),
        ("'*'.run = 'unattended'", "'*'.run = 'skip'\nt.run = 'ask'"),
    ],
    ids=["an older word of the user", "a word of the file itself"],
)
def test_only_a_later_user_setting_for_all_tools_overrides_a_file_entry(
    workspace: Workspace, own: str, theirs: str
) -> None:
    workspace.user(f"[conversation.tools]\n{own}\n")
    workspace.workspace(f"[conversation.tools]\n{theirs}\n")

    assert workspace.load().settings.tool("t").policy.run == "ask"
    assert (
        workspace.load("conversation.tools.'*'.run='skip'").settings.tool("t").policy.run == "skip"
    )


def test_later_file_does_not_loosen_an_approved_one(workspace: Workspace) -> None:
    workspace.workspace(
        "conversation.tools.'*'.run = 'unattended'\nconversation.tools.t.run = 'skip'\n"
    )
    workspace.trust()
    workspace.extra("10.toml", "conversation.tools.t.run = 'ask'\n")

    loaded = workspace.load()

    assert loaded.settings.tool("t").policy.run == "skip"
    assert loaded.ignored


def test_every_key_that_the_list_names_exists() -> None:
    """After a key is renamed, its old name must not stay in the list."""
    for key in RULES:
        node: Node = KEYS
        for name in key.split("."):
            assert isinstance(node, Branch), key
            node = node.child("x" if name == "*" else name)
        assert isinstance(node, Leaf), key
        assert node.help, key


def test_linked_configuration_directory_is_refused(workspace: Workspace) -> None:
    """The approval of another directory would run the scripts of this clone."""
    workspace.workspace(DEPLOY)
    workspace.trust()
    clone = workspace.root.parent / "clone"
    clone.mkdir()
    (clone / ".midturn").symlink_to(workspace.root / ".midturn")
    workspace.root = clone

    with pytest.raises(ConfigError, match=r"\.midturn: is a symbolic link"):
        workspace.load()


def test_linked_extra_directory_is_refused(workspace: Workspace) -> None:
    workspace.extra("1.toml", "")
    (workspace.file.parent / "config.d").rename(workspace.root / "elsewhere")
    (workspace.file.parent / "config.d").symlink_to(workspace.root / "elsewhere")

    with pytest.raises(ConfigError, match=r"\.midturn/config\.d: is a symbolic link"):
        workspace.load()


SCRIPTS = {
    "['./scripts/deploy']": "scripts/deploy",
    "'./scripts/deploy --now'": "scripts/deploy",
    "['python3', '-I', 'tools/run']": "tools/run",
    "['/usr/bin/env', 'sh', 'tools/run']": "tools/run",
    "['make', '--file=build.sh']": "build.sh",
    "['npx', 'tsx', 'server.ts']": "server.ts",
}


@pytest.mark.parametrize(("command", "script"), SCRIPTS.items())
@pytest.mark.parametrize("change", ["bytes", "mode", "link", "gone"])
def test_script_of_a_command_is_approved_with_it(
    workspace: Workspace, command: str, script: str, change: str
) -> None:
    workspace.workspace(f"[conversation.tools.deploy]\ncommand = {command}\n")
    file = workspace.root / script
    file.parent.mkdir(exist_ok=True)
    file.write_text("echo good")
    file.chmod(0o755)
    workspace.trust()
    assert "deploy" in workspace.load().settings.tools

    if change == "bytes":
        file.write_text("echo evil")
    elif change == "mode":
        file.chmod(0o4755)
    elif change == "link":
        file.rename(file.with_name("moved"))
        file.symlink_to("moved")
    else:
        file.unlink()

    assert workspace.load().ignored
    workspace.trust()
    assert not workspace.load().ignored


def test_script_added_later_is_not_approved(workspace: Workspace) -> None:
    workspace.workspace(
        "[conversation.tools.deploy]\ncommand = 'cd sub && ./scripts/deploy; python3"
        " late.py'\nshell = true\n"
    )
    workspace.trust()
    assert not workspace.load().ignored

    (workspace.root / "late.py").write_text("print('evil')")

    assert workspace.load().ignored


def test_the_script_of_a_tool_with_a_directory_of_its_own_is_approved(workspace: Workspace) -> None:
    workspace.workspace("[conversation.tools.deploy]\ncommand = ['./run']\ncwd = 'sub'\n")
    (workspace.root / "sub").mkdir()
    (workspace.root / "sub" / "run").write_text("good")
    workspace.trust()
    (workspace.root / "sub" / "run").write_text("evil")

    assert workspace.load().ignored


def test_data_files_of_a_command_are_not_bound(workspace: Workspace) -> None:
    """Only programs are bound: a tool that writes a file would revoke its own approval."""
    workspace.workspace(
        "[conversation.tools.deploy]\ncommand = ['cat', 'data.txt', '--out=log.txt']\n"
    )
    workspace.trust()
    (workspace.root / "data.txt").write_text("1")
    (workspace.root / "log.txt").write_text("1")

    assert not workspace.load().ignored


def test_new_state_directories_are_private_whatever_the_umask(workspace: Workspace) -> None:
    workspace.state = workspace.state / "deep" / "er"
    workspace.workspace(DEPLOY)
    before = os.umask(0)
    try:
        workspace.trust()
    finally:
        os.umask(before)

    for directory in (workspace.state, workspace.state.parent, workspace.state / "trust"):
        assert stat.S_IMODE(directory.stat().st_mode) == 0o700
