"""Missing files and special files (links, pipes, directories) give clear errors, and reading
never hangs.
"""

from __future__ import annotations

import os

import pytest

from midturn.errors import ConfigError
from support.workspaces import Workspace


def problem(workspace: Workspace) -> str:
    with pytest.raises(ConfigError) as error:
        workspace.load()
    return str(error.value)


def test_without_any_file_there_are_the_defaults(workspace: Workspace) -> None:
    settings = workspace.load().settings

    assert settings.assistant.name == "Midturn"
    assert settings.limits.cycles == 50
    assert settings.assistant.model.id is None


def test_a_symbolic_link_in_a_workspace_is_refused(workspace: Workspace) -> None:
    workspace.user("assistant.name = 'x'")
    workspace.file.symlink_to(workspace.user_file)

    assert (
        problem(workspace)
        == ".midturn/config.toml: is a symbolic link; a workspace must contain the file itself"
    )


def test_a_linked_directory_of_files_is_refused(workspace: Workspace) -> None:
    (workspace.file.parent / "config.d").symlink_to(workspace.user_file.parent)

    assert (
        problem(workspace)
        == ".midturn/config.d: is a symbolic link; a workspace must contain the directory itself"
    )


def test_the_users_own_file_may_be_a_link(workspace: Workspace) -> None:
    dotfiles = workspace.state.parent / "dotfiles.toml"
    dotfiles.write_text("assistant.name = 'linked'")
    workspace.user_file.symlink_to(dotfiles)

    assert workspace.load().settings.assistant.name == "linked"


def test_a_pipe_is_refused_at_once(workspace: Workspace) -> None:
    os.mkfifo(workspace.file)

    assert problem(workspace) == ".midturn/config.toml: not a regular file"


def test_a_directory_is_refused(workspace: Workspace) -> None:
    workspace.file.mkdir()

    assert problem(workspace).startswith(".midturn/config.toml: ")


def test_text_that_is_not_utf_8_is_named_with_its_line(workspace: Workspace) -> None:
    workspace.file.write_bytes(b"[assistant]\nname = '\xff'\n")

    assert problem(workspace) == ".midturn/config.toml:2: not UTF-8 text; save the file as UTF-8"


def test_a_huge_file_is_refused(workspace: Workspace) -> None:
    workspace.file.write_bytes(b"#" * (1024 * 1024 + 1))

    assert (
        problem(workspace)
        == ".midturn/config.toml: larger than 1024 KiB, the limit for configuration files"
    )


def test_deep_nesting_is_an_error(workspace: Workspace) -> None:
    workspace.workspace("conversation.tools.t.questions.q.answer = " + "[" * 5000 + "]" * 5000)

    assert problem(workspace).startswith(".midturn/config.toml: nested too deep")


def test_huge_number_is_an_error(workspace: Workspace) -> None:
    workspace.workspace("conversation.tools.t.questions.q.answer = " + "9" * 5000)
    assert problem(workspace) == ".midturn/config.toml: a number has too many digits"

    workspace.workspace("limits.seconds = " + "9" * 400)
    assert "`limits.seconds`: expected a number of at least 0, not 999" in problem(workspace)


@pytest.mark.skipif(os.geteuid() == 0, reason="root reads everything")
def test_unreadable_file_is_an_error(workspace: Workspace) -> None:
    workspace.workspace("")
    workspace.file.chmod(0)

    assert problem(workspace) == ".midturn/config.toml: cannot be read: Permission denied"


def test_extra_files_are_read_in_the_order_of_their_names_over_the_main_one(
    workspace: Workspace,
) -> None:
    workspace.workspace(
        "assistant.name = 'main'\nassistant.tool_choice = 'none'\nlimits.cycles = 1"
    )
    workspace.extra("20.toml", "assistant.name = 'twenty'")
    workspace.extra("10.toml", "assistant.name = 'ten'\nassistant.tool_choice = 'required'")
    workspace.extra(".hidden.toml", "assistant.name = 'editor'")
    workspace.extra("30.txt", "not toml at all")
    workspace.trust()

    settings = workspace.load().settings

    assert (settings.assistant.name, settings.assistant.tool_choice, settings.limits.cycles) == (
        "twenty",
        "required",
        1,
    )
