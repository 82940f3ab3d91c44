"""Other processes cannot read the memory of the command, and it leaves no core dump."""

from __future__ import annotations

import subprocess
import sys

import pytest

LOOK = (
    "import os; from midturn.security.process_ancestry import State, harden_process; before ="
    " State(); harden_process(); after = State();print(before.dumpable, after.dumpable,"
    " after.leaves_core, open('/proc/self/stat').read().split()[1])"
)

linux = pytest.mark.skipif(
    not sys.platform.startswith("linux"), reason="other systems have no such switch"
)


@linux
def test_the_process_is_not_dumpable_and_writes_no_core() -> None:
    printed = subprocess.run(
        [sys.executable, "-c", LOOK], capture_output=True, text=True, check=True
    ).stdout

    assert printed.split() == ["True", "False", "False", "(midturn-agent)"]


@linux
def test_child_processes_are_dumpable_as_usual() -> None:
    script = (
        "import subprocess, sys; from midturn.security.process_ancestry import harden_process;"
        " harden_process();subprocess.run([sys.executable, '-c', 'from"
        " midturn.security.process_ancestry import State; print(State().dumpable)'])"
    )

    assert (
        subprocess.run(
            [sys.executable, "-c", script], capture_output=True, text=True, check=True
        ).stdout
        == "True\n"
    )


def test_as_a_library_midturn_does_not_change_the_process() -> None:
    script = (
        "from midturn.security.process_ancestry import State; before = vars(State()); import"
        " midturn; midturn.Agent; midturn.tool;print(vars(State()) == before)"
    )

    assert (
        subprocess.run(
            [sys.executable, "-c", script], capture_output=True, text=True, check=True
        ).stdout
        == "True\n"
    )
