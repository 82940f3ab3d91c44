"""Checks whether a process is alive. A zombie counts as ended."""

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
UNSHARE = (
    "unshare",
    *([] if os.geteuid() == 0 else ["--map-root-user"]),
    "--pid",
    "--mount-proc",
    "--fork",
)
CAN_UNSHARE = (
    shutil.which("unshare") is not None
    and subprocess.run([*UNSHARE, "true"], capture_output=True, check=False).returncode == 0
)


def test_zombie_process_counts_as_ended() -> None:
    """An agent that kills its hooks without waiting for them leaves zombies in the process
    table.
    """
    child = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    assert child.stdin
    marked = mark(child.pid)
    assert lives(marked)

    child.stdin.close()
    # it has ended but is still in the process table
    os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOWAIT)

    assert not lives(marked)
    child.wait()
    assert not lives(marked)


@pytest.mark.skipif(not CAN_UNSHARE, reason="no namespace of processes can be made here")
def test_process_in_another_container_counts_as_waiting() -> None:
    """Its PID is unknown here or belongs to another process.

    The next hook that asks the same may still continue its question.
    """
    command = [*UNSHARE, sys.executable, "-c", MARKED]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as asker:
        assert asker.stdout
        marked = msgspec.json.decode(asker.stdout.readline(), type=ProcessMark)
        is_said_to_wait = lives(marked), is_found(marked)
        asker.communicate("")

    assert marked.pid == 1
    assert marked.boot == mark(os.getpid()).boot
    assert is_said_to_wait == (True, False)


def test_process_record_without_a_namespace_is_checked_locally() -> None:
    """Earlier versions recorded no namespace."""
    here = mark(os.getpid())

    assert lives(ProcessMark(here.pid, here.started, here.boot))
    assert not lives(ProcessMark(here.pid, "1", here.boot))
