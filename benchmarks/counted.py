"""What can be counted instead of timed: syncs, files opened, calls of our own functions, modules imported."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from types import FrameType
from typing import Self

import midturn as mt

HOME = str(Path(mt.__file__).parent)
_COLUMNS = 3  # of a line of `-X importtime`
_COUNTED = {
    "fdatasync": "syncs",
    "fsync": "syncs",
    "open": "opened",
    "listdir": "listed",
    "scandir": "listed",
    "stat": "looked",
    "lstat": "looked",
    "fstat": "looked",
    "access": "looked",
    "readlink": "looked",
}
"""What is counted, by the name of the function in `os`."""


class Disk:
    """Counts what the disk is asked for, while it stands in place of the real calls."""

    def __init__(self) -> None:
        self.syncs = 0
        self.opened = 0
        self.listed = 0
        self.looked = 0
        self._real = {name: getattr(os, name) for name in _COUNTED}

    def __enter__(self) -> Self:
        for name, what in _COUNTED.items():
            setattr(os, name, self._counting(self._real[name], what))
        return self

    def __exit__(self, *_: object) -> None:
        for name, real in self._real.items():
            setattr(os, name, real)

    def _counting(self, real: Callable[..., object], what: str) -> Callable[..., object]:
        def counting(*given: object, **named: object) -> object:
            setattr(self, what, getattr(self, what) + 1)
            return real(*given, **named)

        return counting


class Calls:
    """Counts how often functions of ours are entered, in this thread. Comprehensions are left out: newer Pythons have no calls for them."""

    def __init__(self) -> None:
        self.count = 0

    def __enter__(self) -> Self:
        sys.setprofile(self._seen)
        return self

    def __exit__(self, *_: object) -> None:
        sys.setprofile(None)

    def _seen(self, frame: FrameType, event: str, _: object) -> None:
        code = frame.f_code
        if event == "call" and code.co_filename.startswith(HOME) and not code.co_name.startswith("<"):
            self.count += 1


def modules(program: str, *arguments: str, environment: Mapping[str, str] | None = None, cwd: Path | None = None) -> set[str]:
    """Return what a Python program imports beyond what Python itself needs to start."""
    return _imported(program, arguments, environment, cwd) - _imported("pass", (), environment, cwd)


def _imported(program: str, arguments: tuple[str, ...], environment: Mapping[str, str] | None, cwd: Path | None) -> set[str]:
    command = [sys.executable, "-X", "importtime", "-c", program, *arguments]
    ended = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, env=environment, cwd=cwd, check=False, text=True)
    rows = [row.split("|") for row in ended.stderr.splitlines() if row.startswith("import time:")]
    return {row[-1].strip() for row in rows if len(row) == _COLUMNS and "imported package" not in row[-1]}
