"""Ctrl-Z stops the whole job in any state."""

from __future__ import annotations

import os
import signal
import subprocess
import sys

import pytest

STARTING = """
import os, subprocess
from midturn.terminal.device import Device, Restored

_, terminal = os.openpty()
with Restored(Device(terminal, os.ttyname(terminal))):
    while True:
        print("starting", flush=True)
        subprocess.run(["/bin/true"], check=True)
"""


@pytest.mark.timeout(600)
def test_ctrl_z_stops_a_job_that_is_starting_a_program() -> None:
    with subprocess.Popen(
        [sys.executable, "-c", STARTING], stdout=subprocess.PIPE, process_group=0, text=True
    ) as job:
        try:
            assert job.stdout is not None
            for _ in range(200):
                assert job.stdout.readline() == "starting\n"
                os.killpg(job.pid, signal.SIGTSTP)
                _, status = os.waitpid(job.pid, os.WUNTRACED)
                assert os.WIFSTOPPED(status)
                os.killpg(job.pid, signal.SIGCONT)
        finally:
            os.killpg(job.pid, signal.SIGKILL)
