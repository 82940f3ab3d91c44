"""The user's own files are recognized by any path."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path, PurePosixPath

import pytest

import midturn as mt
from midturn.config.places import read_document
from midturn.tools.fs.beneath import Beneath
from midturn.tools.returned import Rejected

OWN = (
    ".config/midturn/config.toml",
    ".local/state/midturn/trust/x",
    ".local/share/midturn/conversations/x",
    "dotfiles/midturn/config.toml",
)


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A home directory that is a link, with configuration linked by a dotfile manager."""
    real = tmp_path / "real"
    (real / "dotfiles" / "midturn").mkdir(parents=True)
    (real / ".config").mkdir()
    (real / ".config" / "midturn").symlink_to(real / "dotfiles" / "midturn")
    home = tmp_path / "home"
    home.symlink_to(real)
    for name in ("CONFIG", "STATE", "DATA"):
        monkeypatch.delenv(f"XDG_{name}_HOME", raising=False)
    monkeypatch.setenv("HOME", str(home))
    return home


@pytest.mark.parametrize("path", OWN)
@pytest.mark.parametrize("reached", ["as it is called", "as it is"])
def test_file_tools_do_not_create_the_users_own_files(home: Path, path: str, reached: str) -> None:
    root = home if reached == "as it is called" else home.resolve()

    with (
        Beneath(root) as beneath,
        pytest.raises(Rejected),
        beneath.made_parent(PurePosixPath(path)),
    ):
        pass
    assert not (home / path).exists()


def test_a_file_with_a_different_name_elsewhere_is_not_read(tmp_path: Path) -> None:
    root = tmp_path / "work"
    root.mkdir()
    (tmp_path / "secret").write_text("secret")
    os.link(tmp_path / "secret", root / "harmless.txt")

    with Beneath(root) as beneath, pytest.raises(Rejected, match="a hard link"):
        beneath.read(PurePosixPath("harmless.txt"))


WORKTREE = (
    "git init -q main && git -C main -c user.name=a -c user.email=a@b commit -q --allow-empty -m x"
    " && git -C main worktree add -q ../tree"
)


def refuses(root: Path, path: str) -> None:
    """Check that a file tool refuses to create a file there."""
    before = (root / path).exists()
    with (
        Beneath(root) as beneath,
        pytest.raises(Rejected, match="do not write there"),
        beneath.made_parent(PurePosixPath(path)),
    ):
        pass
    assert (root / path).exists() == before


def test_a_store_in_the_workspace_is_not_writable_by_any_path(tmp_path: Path) -> None:
    (tmp_path / "work").mkdir()
    (tmp_path / "work" / "link").symlink_to("chats")
    mt.open_store(tmp_path / "work" / "chats").new_sync()

    for path in ("chats/1/answers/e1.json", "chats/new/events.jsonl", "link/1/answers/e1.json"):
        refuses(tmp_path / "work", path)


def test_a_file_given_with_cfg_is_not_written(tmp_path: Path) -> None:
    (tmp_path / "mine.toml").write_text("")
    read_document(tmp_path / "mine.toml", "mine.toml", follow=True)

    refuses(tmp_path, "mine.toml")


def test_a_store_around_the_workspace_does_not_protect_the_whole_workspace(tmp_path: Path) -> None:
    mt.open_store(tmp_path).new_sync()
    (tmp_path / "work").mkdir()

    with Beneath(tmp_path / "work") as beneath, beneath.parent(PurePosixPath("new.txt")):
        pass


@pytest.mark.parametrize(
    ("prepare", "path"),
    [
        ("git init -q . && git config core.hooksPath tools/hooks", "tools/hooks/pre-commit"),
        ("git init -q --separate-git-dir=repository .", "repository/hooks/pre-commit"),
        ("git init -q --separate-git-dir=repository .", "repository/config"),
        (
            WORKTREE,
            "tree/.git",
        ),
        (
            WORKTREE,
            "main/.git/hooks/post-checkout",
        ),
        ("git init -q sub && git -C sub config core.hooksPath hooks", "sub/hooks/pre-push"),
    ],
)
def test_git_files_are_not_writable_under_any_name(tmp_path: Path, prepare: str, path: str) -> None:
    subprocess.run(
        ["/bin/sh", "-ec", prepare],
        cwd=tmp_path,
        check=True,
        env={"PATH": os.environ["PATH"], "HOME": str(tmp_path)},
    )

    refuses(tmp_path, path)
