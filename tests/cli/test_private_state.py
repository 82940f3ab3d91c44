"""Private files of the page, the chat and the log."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from midturn.cli.chat_line import history_file
from midturn.cli.serve_options import announce, open_code_socket, own_name


@pytest.fixture(autouse=True)
def _no_umask() -> Iterator[None]:
    before = os.umask(0)
    yield
    os.umask(before)


def a_name(_: Path) -> None:
    own_name(7478, new=False)


def a_door(_: Path) -> None:
    announce(7478, "http://127.0.0.1:7478/")
    open_code_socket(7478, lambda: "")[0].close()


def a_server(_: Path) -> None:
    announce(7478, "http://127.0.0.1:7478/")


def a_record(_: Path) -> None:
    script = (
        "import logging; from midturn.cli.log import start_log; start_log({});"
        " logging.getLogger('midturn').error('x')"
    )
    subprocess.run([sys.executable, "-c", script], check=True)


@pytest.mark.parametrize("kept", [a_name, a_door, a_server, history_file, a_record])
def test_state_and_created_parent_directories_are_private(
    kept: Callable[[Path], object], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))

    kept(tmp_path)

    made = list(tmp_path.rglob("*"))
    assert any(path.is_file() for path in made)
    assert {path.stat().st_mode & 0o777 for path in made if path.is_dir()} == {0o700}
    assert {path.stat().st_mode & 0o777 for path in made if not path.is_dir()} == {0o600}
