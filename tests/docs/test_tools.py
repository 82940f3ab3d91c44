"""The scripts in `tools/` run."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Iterator

import pytest

from support.documents import ROOT


@pytest.mark.long
def test_path_of_an_answer_is_traced() -> None:
    """From the key on a pseudo terminal to the next model request.

    The walk in ARCHITECTURE is an ordered extract of the trace.
    """
    command = [sys.executable, str(ROOT / "tools" / "trace_turn.py"), "--walk"]
    said = subprocess.run(command, capture_output=True, text=True, check=True, timeout=120).stdout

    for name in ("the answer on disk", "the result on disk", "the next model request"):
        assert f"from the key to {name}: " in said

    passed = iter(said.splitlines())
    assert [call for call in walk() if call not in passed] == []


def walk() -> Iterator[str]:
    """Yield the functions that ARCHITECTURE names on the path of an answer, formatted as the
    script prints them.
    """
    told = (
        (ROOT / "ARCHITECTURE.md")
        .read_text(encoding="utf-8")
        .split("## One answer", 1)[1]
        .split("\n## ")[0]
    )
    file = ""
    for heads in re.findall(r"^\d+\. (.*?):\s", told, re.MULTILINE):
        for name in re.findall(r"`([\w./]+)`", heads):
            if name.endswith(".py"):
                file = name
            else:
                yield f"{file} {name}"
