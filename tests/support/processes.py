"""Runs lines of Python in another process: with the interpreter of the tests, or in a fork of a
process that has loaded everything.
"""

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
    """Start `code`. `arguments` are its `sys.argv[1:]`; its output can be read line by line."""
    command = [sys.executable, "-c", code, *map(str, arguments)]
    return subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )


class Forked(Running):
    """A process that runs `code` without start-up time, for tests that do not test start-up. It
    is used like `python(code)`.

    Imports of midturn are already loaded. With `uses_network`, libraries for servers and
    providers are loaded too.
    """

    stdin: TextIO

    def __init__(self, code: str, *arguments: object, uses_network: bool = False) -> None:
        feed = self._start(
            Command([code, *map(str, arguments)], Path.cwd(), os.environ, uses_network, _CODE)
        )
        self.stdin = os.fdopen(feed, "w", encoding="utf-8")

    def communicate(self, timeout: float | None = None) -> tuple[str, str]:
        """Close its input, wait for its end, and return its unread output."""
        with suppress(BrokenPipeError):  # it has ended
            self.stdin.close()
        return super().communicate(timeout)


PythonProcess: TypeAlias = subprocess.Popen[str] | Forked
"""Running lines of Python, started or forked."""


def output(process: PythonProcess) -> str:
    """Wait for the end and return the output; fail with stderr if the process failed."""
    printed, errors = process.communicate(timeout=120)
    assert process.returncode == 0, errors
    return printed


def kill(process: PythonProcess) -> str:
    """Kill the process and return its unread output."""
    process.kill()
    assert process.stdout
    printed = process.stdout.read()  # not `communicate`, which would miss what `line` has buffered
    process.communicate()
    return printed


def line(process: PythonProcess) -> str:
    """Wait for the next line; return it without its newline."""
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


class KillableProgram:
    """A program that is started and killed repeatedly, each time in a fork of one process that
    has run `imports`.
    """

    def __init__(self, imports: str, code: str) -> None:
        self._forks = python(f"{imports}{_FORKS}{code}")
        self._pid = 0

    def begin(self, *arguments: object) -> str:
        """Start the program; `arguments` are its `sys.argv[1:]`. Return its first line of
        output.
        """
        assert self._forks.stdin
        self._forks.stdin.write(json.dumps([*map(str, arguments)]) + "\n")
        self._forks.stdin.flush()
        self._pid = int(line(self._forks))
        return line(self._forks)

    def kill(self) -> list[str]:
        """Kill the program and return its remaining lines of output."""
        os.kill(self._pid, signal.SIGKILL)
        return [*iter(lambda: line(self._forks), "gone")]

    def end(self) -> None:
        """End the process that forks."""
        assert output(self._forks) == ""
