"""A process that a tool started is recognized, even if it tries to hide.

The user's own processes are not recognized as a tool's.
"""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
from pathlib import Path

import pytest

from midturn.security.process_ancestry import VARIABLE, ancestors, process, tool_above
from midturn.tools.process import ProcessSpec, run_process

LOOK = (
    "import os; from midturn.security.process_ancestry import tool_above;"
    " print(tool_above(os.environ))"
)
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
open(sys.argv[1], "w").close()
"""

linux = pytest.mark.skipif(
    not sys.platform.startswith("linux"), reason="the kernel hands no mark on"
)


def output_of_tool_script(script: str, **environment: str) -> str:
    """Run a script of a tool that inspects its process, and return its output.

    `$PYTHON` is the interpreter, and `$LOOK` is the program that inspects.
    """
    command = ProcessSpec(
        argv=("/bin/sh", "-c", script),
        cwd="/",
        environment={
            "PATH": os.environ["PATH"],
            "PYTHON": sys.executable,
            "LOOK": LOOK,
            "FORK": DOUBLE_FORK,
            **environment,
        },
        timeout=120,
    )
    finished = asyncio.run(run_process(command))
    return (finished.stdout + finished.stderr).decode().strip()


def test_an_unmarked_process_is_not_a_tools_process() -> None:
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
        'env -i "$PYTHON" -c "$FORK" "$DONE"; while [ ! -e "$DONE" ]; do sleep 0.05; done',
        'ulimit -w 0 2>/dev/null || ulimit -x 0; env -i "$PYTHON" -c "$LOOK"',
        'ulimit -c unlimited 2>/dev/null; env -i "$PYTHON" -c "$LOOK"',
    ],
    ids=["plainly", "env -i", "setsid", "double fork", "a lower limit", "other limits"],
)
def test_the_kernel_mark_survives_an_empty_environment(script: str, tmp_path: Path) -> None:
    assert (
        output_of_tool_script(script, DONE=str(tmp_path / "done"))
        == "it was started by a tool or an agent"
    )


@linux
def test_a_new_session_of_a_running_turn_is_a_tools_process() -> None:
    """The test does not rely on the other marks.

    Root may raise the limit again, and a process can clear its environment.
    """
    turn = (
        "import subprocess, sys; from midturn.security.process_ancestry import harden_process;"
        f" harden_process();[subprocess.run([sys.executable, '-c', {LOOK!r}],"
        " start_new_session=new, env={}) for new in (False, True)]"
    )
    printed = subprocess.run(
        [sys.executable, "-c", turn], capture_output=True, text=True, check=True
    ).stdout

    assert printed.splitlines() == ["None", "it descends from a running turn"]


@linux
def test_ancestors_are_identified_by_pid_and_start_time() -> None:
    parent = next(ancestors())

    assert parent.pid == os.getppid()
    assert parent == process(os.getppid())
    assert process(2**30) is None
