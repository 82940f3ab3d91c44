"""A directory with `.midturn/`."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from midturn.errors import StoreError
from midturn.store.file_store import FileStore
from midturn.store.workspace import Workspace
from support.stored import finished, keep


def shared_first(workspace: Workspace, data: Path) -> FileStore:
    """Return all conversations; new ones are made in the workspace."""
    return FileStore(workspace.conversations, workspace.local_conversations(data))


def local_first(workspace: Workspace, data: Path) -> FileStore:
    """Return all conversations; new ones are made in the user's data directory."""
    return FileStore(workspace.local_conversations(data), workspace.conversations)


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


def test_there_may_be_none(tmp_path: Path) -> None:
    (tmp_path / ".midturn").touch()

    found = Workspace.find(tmp_path)

    assert found is None or found.root != tmp_path


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give files away")
def test_one_that_a_stranger_put_into_a_shared_directory_does_not_count(tmp_path: Path) -> None:
    shared = tmp_path / "shared"
    (shared / ".midturn").mkdir(parents=True)
    os.chown(shared / ".midturn", 12_345, 12_345)
    assert (found := Workspace.find(shared)) is None or found.root != shared

    os.chown(shared, 12_345, 12_345)
    assert (found := Workspace.find(shared)) is not None
    assert found.root == shared


def test_making_one_twice_keeps_what_is_there(tmp_path: Path) -> None:
    workspace = Workspace.make(tmp_path)
    (workspace.home / ".gitignore").write_text("mine")

    Workspace.make(tmp_path)

    assert (workspace.home / ".gitignore").read_text() == "mine"


def test_only_configuration_is_committed_until_the_user_says_otherwise(tmp_path: Path) -> None:
    workspace = Workspace.make(tmp_path)
    keep(shared_first(workspace, tmp_path.parent / "data"), finished())
    workspace.set_current("17")
    (workspace.home / "config.d").mkdir()
    (workspace.home / "config.d" / "a.toml").touch()
    (workspace.home / "config.toml").touch()

    def added() -> set[str]:
        subprocess.run(["git", "add", "-A"], cwd=tmp_path, check=True)
        return set(subprocess.run(["git", "ls-files"], cwd=tmp_path, check=True, capture_output=True, text=True).stdout.split())

    subprocess.run(["git", "init", "-q"], cwd=tmp_path, check=True)
    assert added() == {".midturn/.gitignore", ".midturn/config.toml", ".midturn/config.d/a.toml"}

    with (workspace.home / ".gitignore").open("a") as file:
        file.writelines(f"{line[4:]}\n" for line in (workspace.home / ".gitignore").read_text().splitlines() if line.startswith("#   "))
    shared = {Path(name).name for name in added() if "/conversations/" in name}
    assert shared == {"events.jsonl", "metadata.json"}


def test_the_chosen_conversation_is_the_current_one_else_the_newest(tmp_path: Path) -> None:
    workspace = Workspace.make(tmp_path)
    store = shared_first(workspace, tmp_path / "data")
    assert workspace.current(store.files) is None
    first, second = keep(store, finished("a")), keep(store, finished("b"))

    assert workspace.current(store.files) == second
    workspace.set_current(first)
    assert workspace.current(store.files) == first
    store.remove_sync(first)
    assert workspace.current(store.files) == second
    (workspace.home / "current").write_text("../../etc")
    assert workspace.current(store.files) == second


def test_current_is_one_id(tmp_path: Path) -> None:
    workspace = Workspace.make(tmp_path)

    with pytest.raises(StoreError, match="digits only"):
        workspace.set_current("../x")
    workspace.set_current("17")

    assert (workspace.home / "current").read_text() == "17\n"
    assert sorted(path.name for path in workspace.home.iterdir()) == [".gitignore", "current"]


def test_local_conversations_live_apart_and_are_seen_with_the_others(tmp_path: Path) -> None:
    workspace, data = Workspace.make(tmp_path / "project"), tmp_path / "data"
    shared = keep(shared_first(workspace, data), finished("a"))
    local = keep(local_first(workspace, data), finished("b"))

    assert shared_first(workspace, data).ids_sync() == local_first(workspace, data).ids_sync() == [shared, local]
    assert shared_first(workspace, data).files.path(shared).is_relative_to(workspace.conversations)
    assert shared_first(workspace, data).files.path(local).is_relative_to(data)
    assert Workspace(tmp_path / "other" / "project").local_conversations(data) != workspace.local_conversations(data)


def test_conversations_that_others_may_have_written_are_refused(tmp_path: Path) -> None:
    workspace = Workspace.make(tmp_path)
    folder = tmp_path / ".midturn" / "conversations"
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
