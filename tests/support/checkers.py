"""Type checkers: what they have compiled or read of other packages is kept for the next time, beside what pytest keeps."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest


def checked(command: Sequence[str], directory: Path, cache: pytest.Cache) -> subprocess.CompletedProcess[str]:
    """Run `mypy` or `pyright` (with its options) in a directory."""
    kept = {"NODE_COMPILE_CACHE": str(cache.mkdir("node")), "MYPY_CACHE_DIR": str(cache.mkdir("mypy"))}
    return subprocess.run(
        [sys.executable, "-m", *command],
        cwd=directory,
        env={**os.environ, **kept},
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
