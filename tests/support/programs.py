"""Runs example programs in separate processes, and counts their lines."""

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
from support.warm_commands import Command, Running, kill_at_exit, run_warm

PROGRAMS = ROOT / "examples" / "programs"
OTHER_FRAMEWORKS = ROOT / "benchmarks" / "programs"
"""The same programs written with other frameworks: `rows_langgraph.py` corresponds to `rows.py`."""

_SERVE = Path(__file__).with_name("serve_program.py")
NO_PYTEST_PLUGINS = [
    word
    for name in ("anyio", "inline_snapshot", "langsmith_plugin", "schemathesis", "xdist")
    for word in ("-p", f"no:{name}")
]
"""pytest options that disable plug-ins of other packages, which take seconds to load."""

_LAYOUT = {
    tokenize.COMMENT,
    tokenize.NL,
    tokenize.NEWLINE,
    tokenize.INDENT,
    tokenize.DEDENT,
    tokenize.ENDMARKER,
}


def play(
    program: Path, directory: Path, *arguments: str, typed: str = ""
) -> subprocess.CompletedProcess[str]:
    """Run a program to its end in a directory. Warnings are errors."""
    ran = run_warm(_command(program, directory, *arguments), typed.encode())
    return subprocess.CompletedProcess(
        ran.args, ran.returncode, ran.stdout.decode(), ran.stderr.decode()
    )


@contextmanager
def running(program: Path, directory: Path, *arguments: str) -> Generator[Running]:
    """Run a program during the block; kill it at the end."""
    with kill_at_exit(Running(_command(program, directory, *arguments))) as process:
        yield process


@contextmanager
def served_by(program: Path, directory: Path) -> Generator[httpx.Client]:
    """Run a service in a separate process during the block; yield an HTTP client for it."""
    with kill_at_exit(
        Running(
            Command([], directory, os.environ, uses_network=True, program=_SERVE, served=program)
        )
    ) as served:
        port = served.stdout.readline()
        assert port, served.stderr.read()
        with httpx.Client(
            base_url=f"http://127.0.0.1:{int(port)}", timeout=120, trust_env=False
        ) as client:
            yield client


def _command(program: Path, directory: Path, *arguments: str) -> Command:
    return Command(arguments, directory, os.environ, uses_network=True, program=program)


def code_lines(path: Path) -> int:
    """Return the number of lines with code in a module, without empty lines, comments and
    docstrings.
    """
    text = path.read_text(encoding="utf-8")
    lines = {
        line
        for token in tokenize.generate_tokens(io.StringIO(text).readline)
        if token.type not in _LAYOUT
        for line in range(token.start[0], token.end[0] + 1)
    }
    for node in ast.walk(ast.parse(text)):
        if (
            isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef)
            and ast.get_docstring(node) is not None
        ):
            lines -= set(range(node.body[0].lineno, (node.body[0].end_lineno or 0) + 1))
    return len(lines)
