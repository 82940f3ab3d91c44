"""Workspaces: directories with `.midturn/`."""

from __future__ import annotations

import os
import shutil
import stat
import subprocess
from pathlib import Path

import pytest

from midturn.errors import ConfigError, StoreError
from midturn.stores.opening import FileStore, open_store
from midturn.stores.workspace import (
    Workspace,
    check_outside,
    choose,
    chosen,
    formerly,
    known_workspaces,
    move,
    own_conversations,
)
from support.places import workspace_store
from support.stored import finished, keep


@pytest.fixture(autouse=True)
def data(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return the user's data directory."""
    found = tmp_path_factory.mktemp("data")
    monkeypatch.setenv("XDG_DATA_HOME", str(found))
    return found


def store_of(workspace: Workspace) -> FileStore:
    return FileStore(workspace.conversations, found=workspace.found)


def test_a_workspace_is_found_from_anywhere_below_it(tmp_path: Path) -> None:
    made = Workspace.make(tmp_path)
    below = tmp_path / "a" / "b"
    below.mkdir(parents=True)

    found = Workspace.find(below)

    assert found is not None
    assert found.root == made.root == tmp_path


def test_the_nearest_one_counts(tmp_path: Path) -> None:
    Workspace.make(tmp_path)
    inner = Workspace.make(tmp_path / "inner")

    found = Workspace.find(inner.root)

    assert found is not None
    assert found.root == inner.root


def test_no_workspace_is_found(tmp_path: Path) -> None:
    (tmp_path / ".midturn").touch()

    found = Workspace.find(tmp_path)

    assert found is None or found.root != tmp_path


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give files away")
def test_workspace_of_another_user_in_a_shared_directory_is_ignored(tmp_path: Path) -> None:
    shared = tmp_path / "shared"
    (shared / ".midturn").mkdir(parents=True)
    os.chown(shared / ".midturn", 12_345, 12_345)
    assert (found := Workspace.find(shared)) is None or found.root != shared

    os.chown(shared, 12_345, 12_345)
    assert (found := Workspace.find(shared)) is not None
    assert found.root == shared


def test_creating_a_workspace_twice_keeps_its_files(tmp_path: Path) -> None:
    workspace = Workspace.make(tmp_path)
    (workspace.home / ".gitignore").write_text("mine")

    Workspace.make(tmp_path)

    assert (workspace.home / ".gitignore").read_text() == "mine"


def test_only_configuration_is_not_ignored_by_git(tmp_path: Path) -> None:
    workspace = Workspace.make(tmp_path)
    keep(store_of(workspace), finished())
    (workspace.home / "config.d").mkdir()
    (workspace.home / "config.d" / "a.toml").touch()
    (workspace.home / "config.toml").touch()
    (workspace.home / "conversations").mkdir()
    (workspace.home / "conversations" / "of-an-older-version").touch()

    subprocess.run(["git", "init", "-q"], cwd=tmp_path, check=True)
    subprocess.run(["git", "add", "-A"], cwd=tmp_path, check=True)
    added = subprocess.run(
        ["git", "ls-files"], cwd=tmp_path, check=True, capture_output=True, text=True
    ).stdout.split()
    assert set(added) == {".midturn/.gitignore", ".midturn/config.toml", ".midturn/config.d/a.toml"}


def test_conversations_are_in_a_data_directory_per_workspace(tmp_path: Path, data: Path) -> None:
    workspace = Workspace.make(tmp_path / "my project")
    assert list(data.iterdir()) == [], "nothing is made before there is a conversation"

    made = keep(store_of(workspace), finished("a"))

    folder = workspace_store(workspace.root, data)
    assert workspace.conversations == folder
    assert folder.name.startswith("my-project-")
    assert [path.name.partition("-")[0] for path in folder.glob("[0-9]*")] == [made]
    assert [
        stat.S_IMODE(path.stat().st_mode) for path in (folder, folder.parent, folder.parent.parent)
    ] == [0o700] * 3
    assert not (workspace.home / "conversations").exists()
    assert own_conversations() == data / "midturn" / "conversations"


def test_real_path_identifies_the_workspace(tmp_path: Path) -> None:
    workspace = Workspace.make(tmp_path / "here")
    (tmp_path / "link").symlink_to(tmp_path / "here")
    keep(store_of(workspace), finished("a"))
    shutil.copytree(tmp_path / "here", tmp_path / "copy")

    assert Workspace(tmp_path / "link").conversations == workspace.conversations
    assert store_of(Workspace(tmp_path / "copy")).ids_sync() == [], "a copy begins anew"
    assert formerly(tmp_path / "copy") is None


def test_removed_workspace_directory_is_still_listed(tmp_path: Path) -> None:
    for name in ("b", "a\udcff", "c"):
        keep(store_of(Workspace.make(tmp_path / name)), finished(name))
    shutil.rmtree(tmp_path / "c")
    (Workspace(tmp_path / "b").conversations.parent / "no-workspace").mkdir()

    known = known_workspaces()

    assert [(one.root.name, one.is_there) for one in known] == [
        ("a\udcff", True),
        ("b", True),
        ("c", False),
    ]
    assert [one.folder for one in known] == [Workspace(one.root).conversations for one in known]


def test_renamed_directory_is_reported_and_not_adopted(tmp_path: Path) -> None:
    made = keep(store_of(Workspace.make(tmp_path / "old")), finished("a"))
    (tmp_path / "old").rename(tmp_path / "new")
    new = Workspace(tmp_path / "new")

    former = formerly(new.root)
    assert former is not None
    assert (former.root, former.is_there) == (tmp_path / "old", False)
    assert store_of(new).ids_sync() == []

    assert move(former, new.root) == new.conversations
    assert store_of(new).ids_sync() == [made]
    assert [one.root for one in known_workspaces()] == [new.root]
    assert formerly(new.root) is None


def test_moving_conversations_overwrites_nothing(tmp_path: Path) -> None:
    for name in ("old", "new"):
        keep(store_of(Workspace.make(tmp_path / name)), finished(name))
    (old,) = [one for one in known_workspaces() if one.root.name == "old"]

    with pytest.raises(
        StoreError, match=r"has conversations of its own.*`midturn conversation import"
    ):
        move(old, tmp_path / "new")


def test_unwritable_data_directory_is_an_error(tmp_path: Path, data: Path) -> None:
    workspace = Workspace.make(tmp_path)
    (data / "midturn").touch()

    with pytest.raises(ConfigError, match=r"cannot be kept in .*`conversation\.store`"):
        keep(store_of(workspace), finished())
    assert not (workspace.home / "conversations").exists()


def test_store_in_the_workspace_is_refused_except_user_data(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "link").symlink_to(tmp_path / "work")
    (tmp_path / "work").mkdir()
    for folder in (
        tmp_path / "work" / "a",
        tmp_path / "work",
        tmp_path / "link" / "a",
        tmp_path / "x" / ".." / "work",
    ):
        with pytest.raises(ConfigError, match=r"`--store`: .* is in the workspace"):
            check_outside(folder, tmp_path / "work", "--store")
    check_outside(tmp_path / "workshop", tmp_path / "work", "--store")
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "work" / "data"))
    check_outside(
        tmp_path / "work" / "data" / "midturn" / "conversations", tmp_path / "work", "--store"
    )


def test_program_can_trust_a_store_in_a_workspace(tmp_path: Path) -> None:
    Workspace.make(tmp_path)
    with pytest.raises(ConfigError, match="is in the workspace"):
        open_store(tmp_path / "var" / "conversations")
    assert open_store(tmp_path / "var" / "conversations", trusted=True).ids_sync() == []


def test_chosen_conversation_is_one_id(tmp_path: Path) -> None:
    assert chosen(tmp_path) is None
    with pytest.raises(StoreError, match="digits only"):
        choose(tmp_path, "../x")
    choose(tmp_path, "17")

    assert (tmp_path / "current").read_text() == "17\n"
    assert chosen(tmp_path) == "17"
    (tmp_path / "current").write_text("../../etc")
    assert chosen(tmp_path) is None


def test_conversations_writable_by_others_are_refused(tmp_path: Path, data: Path) -> None:
    workspace = Workspace.make(tmp_path)
    folder = workspace_store(tmp_path, data)
    folder.parent.mkdir(parents=True)
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    folder.symlink_to(elsewhere)
    with pytest.raises(StoreError, match="is a symbolic link"):
        _ = workspace.conversations
    folder.unlink()
    folder.mkdir()
    folder.chmod(0o777)
    with pytest.raises(StoreError, match="Everybody may write in"):
        _ = workspace.conversations
    folder.chmod(0o775)
    assert workspace.conversations == folder
    if os.geteuid() == 0:
        os.chown(folder, 65_534, 65_534)
        with pytest.raises(StoreError, match="belongs to another user"):
            _ = workspace.conversations
