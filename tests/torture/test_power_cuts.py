"""A short run of power cuts. `tools/task power-cuts` cuts the power at every point of a run."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

HERE = Path(__file__).resolve().parent


@pytest.mark.long
@pytest.mark.skipif(sys.platform != "linux", reason="the recorder of file changes needs Linux")
@pytest.mark.skipif(shutil.which("cc") is None, reason="there is no C compiler")
def test_power_cuts_lose_nothing_that_was_acknowledged() -> None:
    """The checks run in a process of their own, because they open many stores."""
    command = [sys.executable, str(HERE / "power_cut.py"), "--points", "60", "--continued", "4"]
    ended = subprocess.run(
        [*command, "--conversations", "4"], capture_output=True, check=False, text=True
    )
    assert ended.returncode == 0, ended.stdout + ended.stderr
    counts = {name: int(count) for name, count in re.findall(r"(\w+) (\d+)", ended.stdout)}
    assert counts["points"] == 60
    assert counts["acknowledged"] > 100
    assert counts["answers"] > 20
    assert counts["overlapping"] > 20
    assert counts["continued"] > 5
