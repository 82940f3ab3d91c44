"""Processes as they are told apart: one that has ended does not live, whoever has taken note of that."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys

import msgspec
import pytest

from midturn.events.open_question import ProcessMark
from midturn.stores.lock import is_found, lives, mark

MARKED = """
import msgspec, os, sys
from midturn.stores.lock import mark
print(msgspec.json.encode(mark(os.getpid())).decode(), flush=True)
sys.stdin.read()
"""
UNSHARE = ("unshare", *([] if os.geteuid() == 0 else ["--map-root-user"]), "--pid", "--mount-proc", "--fork")
CAN_UNSHARE = shutil.which("unshare") is not None and subprocess.run([*UNSHARE, "true"], capture_output=True, check=False).returncode == 0


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


@pytest.mark.skipif(not CAN_UNSHARE, reason="no namespace of processes can be made here")
def test_a_process_in_another_container_counts_as_one_that_waits() -> None:
    """Its number is no process here, or another one; what it asked may still be taken up by the next that asks the same."""
    command = [*UNSHARE, sys.executable, "-c", MARKED]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as asker:
        assert asker.stdout
        marked = msgspec.json.decode(asker.stdout.readline(), type=ProcessMark)
        is_said_to_wait = lives(marked), is_found(marked)
        asker.communicate("")

    assert marked.pid == 1
    assert marked.boot == mark(os.getpid()).boot
    assert is_said_to_wait == (True, False)


def test_a_mark_without_a_namespace_is_looked_up_here() -> None:
    """Earlier versions wrote none."""
    here = mark(os.getpid())

    assert lives(ProcessMark(here.pid, here.started, here.boot))
    assert not lives(ProcessMark(here.pid, "1", here.boot))
