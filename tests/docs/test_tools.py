"""The scripts beside the code run."""

from __future__ import annotations

import subprocess
import sys

from support.documents import ROOT


def test_the_way_of_an_answer_can_be_traced() -> None:
    """On a real terminal, from the key to the next model request."""
    command = [sys.executable, str(ROOT / "tools" / "trace_turn.py")]
    said = subprocess.run(command, capture_output=True, text=True, check=True, timeout=60).stdout

    for name in ("the answer on disk", "the result on disk", "the next model request"):
        assert f"from the key to {name}: " in said
