"""Other processes of ours: a few lines of Python, run by the interpreter of the tests."""

from __future__ import annotations

import subprocess
import sys


def python(code: str, *arguments: object) -> subprocess.Popen[str]:
    """Start `code`; `arguments` are its `sys.argv[1:]`, what it prints can be read line by line."""
    command = [sys.executable, "-c", code, *map(str, arguments)]
    return subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def output(process: subprocess.Popen[str]) -> str:
    """Wait for the end and return what was printed; fail with what went wrong."""
    printed, errors = process.communicate(timeout=60)
    assert process.returncode == 0, errors
    return printed


def kill(process: subprocess.Popen[str]) -> str:
    """Kill the process and return what it had printed that nobody has read."""
    process.kill()
    assert process.stdout
    printed = process.stdout.read()  # not `communicate`: it would miss what `line` has read ahead
    process.communicate()
    return printed


def line(process: subprocess.Popen[str]) -> str:
    """Wait for the next line, without its newline."""
    assert process.stdout
    return process.stdout.readline().rstrip("\n")
