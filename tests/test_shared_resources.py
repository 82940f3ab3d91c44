"""Resources that tests share are closed before the interpreter exits, so that the run ends."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

TESTS = Path(__file__).parent
SHARING = """
from concurrent.futures import ThreadPoolExecutor
from threading import Event
from support.shared_resources import SESSION_RESOURCES

def test_it():
    closed = Event()
    ThreadPoolExecutor().submit(closed.wait)  # the interpreter waits for it when it ends
    SESSION_RESOURCES.callback(closed.set)

def test_another():
    pass
"""


@pytest.mark.parametrize("forks", ["0", "2"])
def test_what_tests_share_is_closed_before_the_interpreter_waits_for_threads(
    forks: str, tmp_path: Path
) -> None:
    (tmp_path / "test_sharing.py").write_text(SHARING)
    inside = [
        "--rootdir",
        str(tmp_path),
        "--confcutdir",
        str(tmp_path),
    ]  # without these, pytest scans the directories of all other tests
    options = [
        *inside,
        "-q",
        "-c",
        str(TESTS.parent / "pyproject.toml"),
        "-p",
        "no:cacheprovider",
        "-p",
        "support.forked",
        "--forks",
        forks,
    ]
    command = [
        sys.executable,
        "-m",
        "pytest",
        *options,
        "-p",
        "no:xdist",
        str(tmp_path / "test_sharing.py"),
    ]
    run = subprocess.run(
        command, check=False, capture_output=True, text=True, timeout=120, cwd=tmp_path
    )
    assert "2 passed" in run.stdout, run.stdout + run.stderr
