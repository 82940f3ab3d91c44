"""A prompt in a window of tmux: another terminal than the emulator of the tests, with a history and rows that it reflows."""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from support.pty_session import ASK_ONCE, of_tests

needs_tmux = pytest.mark.skipif(shutil.which("tmux") is None, reason="needs tmux: install it (`apt-get install tmux`) to run this")

_STILL = 0.4
"""Seconds without a change: longer than a prompt waits for the size of its window to rest."""


class Tmux:
    """A server of tmux of its own, with one window in which a prompt is asked."""

    def __init__(self, directory: Path) -> None:
        self._socket = directory / "tmux"

    def __call__(self, *arguments: str) -> str:
        """Run a command of tmux; return what it prints."""
        command = ["tmux", "-S", str(self._socket), "-f", "/dev/null", *arguments]
        return subprocess.run(
            command, check=True, capture_output=True, text=True, timeout=30, env={**os.environ, "LC_ALL": "C.UTF-8"}
        ).stdout

    def ask(self, name: str, result: Path, *, size: tuple[int, int] = (80, 30), before: str = "true") -> None:
        """Ask a prompt in a new window, behind what a command of a shell prints `before`."""
        given = {key: value for key, value in of_tests({"SETTLE": "0"}).items() if key in {"PYTHONPATH", "SETTLE", "LC_ALL", "HOME"}}
        words = [*(f"{key}={value}" for key, value in given.items()), sys.executable, str(ASK_ONCE), name, str(result)]
        columns, rows = map(str, size)
        self("new-session", "-d", "-x", columns, "-y", rows, f"{before}; env {shlex.join(words)}; sleep 60")

    def wait_for(self, text: str) -> None:
        """Wait until a text is on the screen."""
        self.wait_until(lambda: text in self.screen, text)

    def wait_until(self, arrived: Callable[[], bool], what: str) -> None:
        """Wait for anything else."""
        until = time.monotonic() + 30
        while not arrived():
            assert time.monotonic() < until, f"no {what}; the screen:\n{self.screen}"
            time.sleep(0.05)

    @property
    def screen(self) -> str:
        """What the window shows."""
        return self("capture-pane", "-p")

    @property
    def history(self) -> list[str]:
        """The rows of the screen, and those that have scrolled out of it."""
        return self("capture-pane", "-p", "-S", "-", "-E", "-").rstrip("\n").split("\n")

    def resize(self, columns: int, rows: int) -> None:
        """Change the size of the window."""
        self("resize-window", "-x", str(columns), "-y", str(rows))

    def rest(self) -> None:
        """Wait until nothing has been drawn for a moment."""
        before, since = self.history, time.monotonic()
        while time.monotonic() - since < _STILL:
            time.sleep(0.05)
            if (now := self.history) != before:
                before, since = now, time.monotonic()
