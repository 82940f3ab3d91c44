"""Processes as they are told apart: one that has ended does not live, whoever has taken note of that."""

from __future__ import annotations

import os
import subprocess
import sys

from midturn.store.processes import lives, mark


def test_a_process_that_nobody_has_taken_note_of_has_ended_all_the_same() -> None:
    """An agent that never waits for the hooks that it has killed leaves them in the table of processes."""
    child = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    assert child.stdin
    marked = mark(child.pid)
    assert lives(marked)

    child.stdin.close()
    os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOWAIT)  # it has ended, and is still in the table

    assert not lives(marked)
    child.wait()
    assert not lives(marked)
