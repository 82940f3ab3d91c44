"""Shows a prompt in a tmux window: a second terminal emulator, with scrollback and reflow."""

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

from support.pty_session import ASK_ONCE, terminal_environment

needs_tmux = pytest.mark.skipif(
    shutil.which("tmux") is None,
    reason="needs tmux: install it (`apt-get install tmux`) to run this",
)

_IDLE_SECONDS = 0.4
"""Seconds without a change after which the window counts as idle: longer than a prompt waits
after a resize.
"""


class Tmux:
    """A private tmux server with one window, in which a prompt is shown."""

    def __init__(self, directory: Path) -> None:
        self._socket = directory / "tmux"

    def __call__(self, *arguments: str) -> str:
        """Run a tmux command; return its output."""
        command = ["tmux", "-S", str(self._socket), "-f", "/dev/null", *arguments]
        return subprocess.run(
            command,
            check=True,
            capture_output=True,
            text=True,
            timeout=120,
            env={**os.environ, "LC_ALL": "C.UTF-8"},
        ).stdout

    def ask(
        self, name: str, result: Path, *, size: tuple[int, int] = (80, 30), before: str = "true"
    ) -> None:
        """Show a prompt in a new window, after the output of the shell command `before`."""
        given = {
            key: value
            for key, value in terminal_environment({"SETTLE": "0"}).items()
            if key in {"PYTHONPATH", "SETTLE", "LC_ALL", "HOME"}
        }
        words = [
            *(f"{key}={value}" for key, value in given.items()),
            sys.executable,
            str(ASK_ONCE),
            name,
            str(result),
        ]
        columns, rows = map(str, size)
        self(
            "new-session",
            "-d",
            "-x",
            columns,
            "-y",
            rows,
            f"{before}; env {shlex.join(words)}; sleep 60",
        )

    def wait_for(self, text: str) -> None:
        """Wait until a text is on the screen."""
        self.wait_until(lambda: text in self.screen, text)

    def wait_until(self, arrived: Callable[[], bool], what: str) -> None:
        """Wait until `arrived` returns true."""
        until = time.monotonic() + 120
        while not arrived():
            assert time.monotonic() < until, f"no {what}; the screen:\n{self.screen}"
            time.sleep(0.05)

    @property
    def screen(self) -> str:
        """The visible screen."""
        return self("capture-pane", "-p")

    @property
    def history(self) -> list[str]:
        """The rows of the scrollback and the screen."""
        return self("capture-pane", "-p", "-S", "-", "-E", "-").rstrip("\n").split("\n")

    def resize(self, columns: int, rows: int) -> None:
        self("resize-window", "-x", str(columns), "-y", str(rows))

    def wait_until_idle(self) -> None:
        """Wait until nothing has been drawn for a while in which the window's processes were
        idle.
        """
        before, since = self.history, time.monotonic()
        window = int(self("display-message", "-p", "#{pane_pid}"))
        while time.monotonic() - since < _IDLE_SECONDS:
            time.sleep(0.05)
            if (now := self.history) != before or not _is_idle(window):
                before, since = now, time.monotonic()


def _is_idle(pid: int) -> bool:
    """Return whether a process and all its children are sleeping. A process delayed by a busy
    machine is ready to run, not sleeping.
    """
    process = Path(f"/proc/{pid}")
    try:
        state = (process / "stat").read_text().rpartition(")")[2].split()[0]
        children = (process / "task" / str(pid) / "children").read_text().split()
    except OSError:  # it has ended, or the system has no /proc
        return True
    return state not in "RD" and all(_is_idle(int(child)) for child in children)
