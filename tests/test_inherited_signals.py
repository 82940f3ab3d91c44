"""Processes that tests start receive signals, even if the test run itself ignores them."""

from __future__ import annotations

import subprocess
import sys

import pytest

from support.processes import output, python

FINE = "test_started_process_does_not_ignore_signals"


def test_started_process_does_not_ignore_signals() -> None:
    code = (
        "import signal; print([s.name for s in signal.Signals if signal.getsignal(s) is"
        " signal.SIG_IGN])"
    )
    ignored = output(python(code))
    assert [
        name for name in ("SIGHUP", "SIGINT", "SIGQUIT", "SIGTERM", "SIGTSTP") if name in ignored
    ] == []


@pytest.mark.parametrize("ignored", ["HUP", "INT QUIT", "HUP INT QUIT TERM TSTP"])
def test_ignored_signals_of_the_shell_are_not_inherited(ignored: str) -> None:
    again = [
        sys.executable,
        "-m",
        "pytest",
        "-q",
        "-n",
        "0",
        "-p",
        "no:cacheprovider",
        f"{__file__}::{FINE}",
    ]
    started = ["sh", "-c", f"trap '' {ignored}; exec \"$@\"", "sh", *again]
    run = subprocess.run(started, check=False, capture_output=True, text=True, timeout=120)
    assert run.returncode == 0, run.stdout
