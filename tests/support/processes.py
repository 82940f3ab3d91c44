"""Other processes of ours: a few lines of Python, run by the interpreter of the tests, or in a fork of what has loaded everything."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from contextlib import suppress
from pathlib import Path
from typing import TextIO, TypeAlias

from support.warm_commands import Command, Running

_CODE = Path(__file__).with_name("run_code.py")


def python(code: str, *arguments: object) -> subprocess.Popen[str]:
    """Start `code`; `arguments` are its `sys.argv[1:]`, what it prints can be read line by line."""
    command = [sys.executable, "-c", code, *map(str, arguments)]
    return subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


class Forked(Running):
    """A process that runs `code` and needs no start, for tests whose subject is none; it is used as `python(code)` is.

    What `code` imports of midturn is loaded, and of anything else where it `speaks` with servers or providers.
    """

    stdin: TextIO  # pyright: ignore[reportIncompatibleVariableOverride]  it can be written to

    def __init__(self, code: str, *arguments: object, speaks: bool = False) -> None:
        feed = self._start(Command([code, *map(str, arguments)], Path.cwd(), os.environ, speaks, _CODE))
        self.stdin = os.fdopen(feed, "w", encoding="utf-8")

    def communicate(self, timeout: float | None = None) -> tuple[str, str]:
        """Close what it reads, wait for its end, and return what it printed and nobody has read."""
        with suppress(BrokenPipeError):  # it has ended
            self.stdin.close()
        return super().communicate(timeout)


PythonProcess: TypeAlias = subprocess.Popen[str] | Forked
"""A few lines of Python that run, started or forked."""


def output(process: PythonProcess) -> str:
    """Wait for the end and return what was printed; fail with what went wrong."""
    printed, errors = process.communicate(timeout=60)
    assert process.returncode == 0, errors
    return printed


def kill(process: PythonProcess) -> str:
    """Kill the process and return what it had printed that nobody has read."""
    process.kill()
    assert process.stdout
    printed = process.stdout.read()  # not `communicate`: it would miss what `line` has read ahead
    process.communicate()
    return printed


def line(process: PythonProcess) -> str:
    """Wait for the next line, without its newline."""
    assert process.stdout
    return process.stdout.readline().rstrip("\n")


_FORKS = """
import json, os, sys
for arguments in sys.stdin:
    child = os.fork()
    if child == 0:
        sys.argv[1:] = json.loads(arguments)
        print(os.getpid(), flush=True)
        break
    os.waitpid(child, 0)
    print("gone", flush=True)
else:
    sys.exit()
"""


class Killed:
    """A program that is begun and killed over and over, each time in a fork of one process that has run its `imports`."""

    def __init__(self, imports: str, code: str) -> None:
        self._forks = python(f"{imports}{_FORKS}{code}")
        self._pid = 0

    def begin(self, *arguments: object) -> str:
        """Begin once more; `arguments` are its `sys.argv[1:]`. Return the first line that it prints."""
        assert self._forks.stdin
        self._forks.stdin.write(json.dumps([*map(str, arguments)]) + "\n")
        self._forks.stdin.flush()
        self._pid = int(line(self._forks))
        return line(self._forks)

    def kill(self) -> list[str]:
        """Kill it and return the lines that it had printed besides."""
        os.kill(self._pid, signal.SIGKILL)
        return [*iter(lambda: line(self._forks), "gone")]

    def end(self) -> None:
        """End the process that forks."""
        assert output(self._forks) == ""
