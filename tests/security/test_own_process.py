"""The command line's process shows nobody its memory, and leaves no core."""

from __future__ import annotations

import subprocess
import sys

import pytest

LOOK = (
    "import os; from midturn.security.process_ancestry import State, keep_to_itself; before = State(); keep_to_itself(); after = State();"
    "print(before.dumpable, after.dumpable, after.leaves_core, open('/proc/self/stat').read().split()[1])"
)

linux = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="other systems have no such switch")


@linux
def test_it_is_neither_dumpable_nor_a_source_of_cores() -> None:
    printed = subprocess.run([sys.executable, "-c", LOOK], capture_output=True, text=True, check=True).stdout

    assert printed.split() == ["True", "False", "False", "(midturn-agent)"]


@linux
def test_what_it_starts_is_as_dumpable_as_anything() -> None:
    script = (
        "import subprocess, sys; from midturn.security.process_ancestry import keep_to_itself; keep_to_itself();"
        "subprocess.run([sys.executable, '-c', 'from midturn.security.process_ancestry import State; print(State().dumpable)'])"
    )

    assert subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True).stdout == "True\n"


def test_a_library_changes_nothing_in_its_program() -> None:
    script = (
        "from midturn.security.process_ancestry import State; before = vars(State()); import midturn; midturn.Agent; midturn.tool;"
        "print(vars(State()) == before)"
    )

    assert subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True).stdout == "True\n"
