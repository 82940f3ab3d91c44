"""`make attacks`: runs the tests that SECURITY.md points to; prints for each promise how many attacks were tried, and how many worked."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

ROOT = Path(__file__).parents[1]
_ROW = re.compile(r"^\| (?P<promise>[^|]+) \| (?P<tests>`tests/[^|]+) \|$", re.MULTILINE)


def main() -> int:
    """Print one line a promise; the status is 1 if an attack worked."""
    broken = 0
    for row in _ROW.finditer((ROOT / "SECURITY.md").read_text(encoding="utf-8")):
        files = re.findall(r"`([^`]+)`", row["tests"])
        done = subprocess.run(
            [sys.executable, "-m", "pytest", "-q", "-n", "0", *files],
            capture_output=True,
            text=True,
            cwd=ROOT,
            check=False,
            env=os.environ | ({"MIDTURN_REAL": "1"} if _can_be_tried(files) else {}),
        )
        counted = {word: int(number) for number, word in re.findall(r"(\d+) (passed|failed|skipped|errors?)", done.stdout)}
        worked = sum(number for word, number in counted.items() if word not in {"passed", "skipped"})
        broken += worked
        sys.stdout.write(
            f"{worked:4} of {counted.get('passed', 0) + worked:5} worked, {counted.get('skipped', 0):3} not tried: {row['promise']}\n"
        )
    return 1 if broken else 0


def _can_be_tried(files: Sequence[str]) -> bool:
    """Say whether tests that need a program find it here."""
    needed = {"browser": "chromium", "sandbox": "bwrap"}
    return any(word in file and shutil.which(program) for file in files for word, program in needed.items())


if __name__ == "__main__":
    raise SystemExit(main())
