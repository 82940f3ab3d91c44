"""What is the user's own is found however it is reached."""

from __future__ import annotations

import os
from pathlib import Path, PurePosixPath

import pytest

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
    """A home that is a link, with its configuration in the hands of a dotfile manager."""
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
def test_a_file_tool_writes_none_of_it_though_it_be_absent(home: Path, path: str, reached: str) -> None:
    root = home if reached == "as it is called" else home.resolve()

    with Beneath(root) as beneath, pytest.raises(Rejected), beneath.parent(PurePosixPath(path), make=True):
        pass
    assert not (home / path).exists()


def test_a_file_with_another_name_elsewhere_is_not_read(tmp_path: Path) -> None:
    root = tmp_path / "work"
    root.mkdir()
    (tmp_path / "secret").write_text("secret")
    os.link(tmp_path / "secret", root / "harmless.txt")

    with Beneath(root) as beneath, pytest.raises(Rejected, match="a hard link"):
        beneath.read(PurePosixPath("harmless.txt"))
