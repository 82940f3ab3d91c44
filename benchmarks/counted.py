"""Counters instead of timers: syncs, opened files, calls of our functions, import statements,
imported modules.
"""

from __future__ import annotations

import builtins
import os
import subprocess
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from types import FrameType
from typing import Any, Self

import midturn as mt

HOME = str(Path(mt.__file__).parent)
_COLUMNS = 3  # columns of a line of `-X importtime`
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
"""Counter names by the name of the function in `os`."""


class Disk:
    """Counts disk calls by replacing the functions in `os`."""

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
    """Counts calls of our functions in this thread.

    Comprehensions are ignored, because newer Pythons inline them.
    """

    def __init__(self) -> None:
        self.count = 0

    def __enter__(self) -> Self:
        sys.setprofile(self._seen)
        return self

    def __exit__(self, *_: object) -> None:
        sys.setprofile(None)

    def _seen(self, frame: FrameType, event: str, _: object) -> None:
        code = frame.f_code
        if (
            event == "call"
            and code.co_filename.startswith(HOME)
            and not code.co_name.startswith("<")
        ):
            self.count += 1


class Imports:
    """Counts executed import statements.

    Each takes at least 2 µs, even if the module is already loaded.
    """

    def __init__(self) -> None:
        self.count = 0
        self._real = builtins.__import__

    def __enter__(self) -> Self:
        builtins.__import__ = self._counting
        return self

    def __exit__(self, *_: object) -> None:
        builtins.__import__ = self._real

    def _counting(self, *given: Any, **named: Any) -> Any:
        self.count += 1
        return self._real(*given, **named)


def modules(
    program: str,
    *arguments: str,
    environment: Mapping[str, str] | None = None,
    cwd: Path | None = None,
    given: str = "",
) -> set[str]:
    """Return the modules that a Python program imports beyond those of Python's own start-up.

    `given` is its stdin.
    """

    def imported(program: str, *arguments: str) -> set[str]:
        command = [sys.executable, "-X", "importtime", "-c", program, *arguments]
        ended = subprocess.run(
            command,
            input=given,
            capture_output=True,
            env=environment,
            cwd=cwd,
            check=False,
            text=True,
        )
        rows = [
            row.split("|") for row in ended.stderr.splitlines() if row.startswith("import time:")
        ]
        return {
            row[-1].strip()
            for row in rows
            if len(row) == _COLUMNS and "imported package" not in row[-1]
        }

    return imported(program, *arguments) - imported("pass")
