"""A process that a tool started is known again, whatever it does to hide; its user's own are not taken for one."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys

import pytest

from midturn.security.process_ancestry import VARIABLE, ancestors, process, tool_above
from midturn.tools.process import Program, run_process

LOOK = "import os; from midturn.security.process_ancestry import tool_above; print(tool_above(os.environ))"
DOUBLE_FORK = f"""
import os, subprocess, sys, time
if os.fork():
    sys.exit()
os.setsid()
if os.fork():
    os._exit(0)
while os.getppid() not in (1, {os.getppid()}) and time.monotonic() < 9e9:
    parent = os.getppid()
    time.sleep(0.01)
    if parent == os.getppid():
        break
subprocess.run(["/usr/bin/env", "-i", sys.executable, "-c", {LOOK!r}])
"""

linux = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="the kernel hands no mark on")


def said_by(script: str, **environment: str) -> str:
    """Return what a tool's script prints that looks at itself; `$PYTHON` is ours, `$LOOK` looks."""
    command = Program(
        argv=("/bin/sh", "-c", script),
        cwd="/",
        environment={"PATH": os.environ["PATH"], "PYTHON": sys.executable, "LOOK": LOOK, "FORK": DOUBLE_FORK, **environment},
        timeout=20,
    )
    finished = asyncio.run(run_process(command))
    return (finished.stdout + finished.stderr).decode().strip()


def test_a_process_of_nobodys_is_no_tools() -> None:
    assert tool_above({}) is None


def test_a_variable_marks_a_tools_process() -> None:
    assert tool_above({VARIABLE: "deploy"}) == "it was started by `deploy`"


@linux
@pytest.mark.parametrize(
    "script",
    [
        '"$PYTHON" -c "$LOOK"',
        'env -i "$PYTHON" -c "$LOOK"',
        'setsid -w env -i "$PYTHON" -c "$LOOK"',
        'env -i "$PYTHON" -c "$FORK"; sleep 1',
        'ulimit -w 0 2>/dev/null || ulimit -x 0; env -i "$PYTHON" -c "$LOOK"',
        'ulimit -c unlimited 2>/dev/null; env -i "$PYTHON" -c "$LOOK"',
    ],
    ids=["plainly", "env -i", "setsid", "double fork", "a lower limit", "other limits"],
)
def test_the_kernels_mark_survives(script: str) -> None:
    assert said_by(script) == "it was started by a tool or an agent"


@linux
def test_who_left_the_session_of_a_running_turn_is_a_tool_and_who_stays_in_it_is_not() -> None:
    """Without the other marks: root may raise the limit again, and anybody may empty an environment."""
    turn = (
        "import subprocess, sys; from midturn.security.process_ancestry import keep_to_itself; keep_to_itself();"
        f"[subprocess.run([sys.executable, '-c', {LOOK!r}], start_new_session=new, env={{}}) for new in (False, True)]"
    )
    printed = subprocess.run([sys.executable, "-c", turn], capture_output=True, text=True, check=True).stdout

    assert printed.splitlines() == ["None", "it descends from a turn that is running"]


@linux
def test_ancestors_are_known_by_their_number_and_their_start() -> None:
    parent = next(ancestors())

    assert parent.pid == os.getppid()
    assert parent == process(os.getppid())
    assert process(2**30) is None
