"""A process that a test starts hears the signals that are sent to it, wherever the tests were started from."""

from __future__ import annotations

import subprocess
import sys

import pytest

from support.processes import output, python

FINE = "test_a_process_of_a_test_ignores_no_signal_that_is_sent_to_it"


def test_a_process_of_a_test_ignores_no_signal_that_is_sent_to_it() -> None:
    code = "import signal; print([s.name for s in signal.Signals if signal.getsignal(s) is signal.SIG_IGN])"
    ignored = output(python(code))
    assert [name for name in ("SIGHUP", "SIGINT", "SIGQUIT", "SIGTERM", "SIGTSTP") if name in ignored] == []


@pytest.mark.parametrize("ignored", ["HUP", "INT QUIT", "HUP INT QUIT TERM TSTP"])
def test_tests_started_from_a_shell_that_ignores_signals_do_not_pass_that_on(ignored: str) -> None:
    again = [sys.executable, "-m", "pytest", "-q", "-n", "0", "-p", "no:cacheprovider", f"{__file__}::{FINE}"]
    started = ["sh", "-c", f"trap '' {ignored}; exec \"$@\"", "sh", *again]
    run = subprocess.run(started, check=False, capture_output=True, text=True, timeout=60)
    assert run.returncode == 0, run.stdout
