"""Programs in a process of their own; and how long they are."""

from __future__ import annotations

import ast
import io
import os
import subprocess
import tokenize
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

import httpx

from support.documents import ROOT
from support.warm_commands import Command, Running, killed, run_warm

PROGRAMS = ROOT / "examples" / "programs"
SAME_ELSEWHERE = ROOT / "benchmarks" / "programs"
"""The same programs on other frameworks: `rows_langgraph.py` is `rows.py`."""

_SERVE = Path(__file__).with_name("serve_program.py")
ALONE = [word for name in ("anyio", "inline_snapshot", "langsmith_plugin", "schemathesis", "xdist") for word in ("-p", f"no:{name}")]
"""How pytest loads nothing of what other packages bring for tests of their own users: that takes seconds."""

_LAYOUT = {tokenize.COMMENT, tokenize.NL, tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT, tokenize.ENDMARKER}


def play(program: Path, directory: Path, *arguments: str, typed: str = "") -> subprocess.CompletedProcess[str]:
    """Run a program to its end in a directory; a warning is an error."""
    ran = run_warm(_command(program, directory, *arguments), typed.encode())
    return subprocess.CompletedProcess(ran.args, ran.returncode, ran.stdout.decode(), ran.stderr.decode())


@contextmanager
def running(program: Path, directory: Path, *arguments: str) -> Generator[Running]:
    """Run a program meanwhile; it is killed with the block."""
    with killed(Running(_command(program, directory, *arguments))) as process:
        yield process


@contextmanager
def served_by(program: Path, directory: Path) -> Generator[httpx.Client]:
    """Run a service in a process of its own, which is killed with the block; yield a client of it."""
    with killed(Running(Command([], directory, os.environ, speaks=True, program=_SERVE, served=program))) as served:
        port = served.stdout.readline()
        assert port, served.stderr.read()
        with httpx.Client(base_url=f"http://127.0.0.1:{int(port)}", timeout=60, trust_env=False) as client:
            yield client


def _command(program: Path, directory: Path, *arguments: str) -> Command:
    return Command(arguments, directory, os.environ, speaks=True, program=program)


def code_lines(path: Path) -> int:
    """Count the lines with code of a module: neither empty ones, nor comments, nor docstrings."""
    text = path.read_text(encoding="utf-8")
    lines = {
        line
        for token in tokenize.generate_tokens(io.StringIO(text).readline)
        if token.type not in _LAYOUT
        for line in range(token.start[0], token.end[0] + 1)
    }
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef) and ast.get_docstring(node) is not None:
            lines -= set(range(node.body[0].lineno, (node.body[0].end_lineno or 0) + 1))
    return len(lines)
