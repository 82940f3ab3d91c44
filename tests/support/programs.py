"""Programs in a process of their own, as people start them; and how long they are."""

from __future__ import annotations

import ast
import io
import subprocess
import sys
import tokenize
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

import httpx

from support.documents import ROOT

PROGRAMS = ROOT / "examples" / "programs"
SAME_ELSEWHERE = ROOT / "benchmarks" / "programs"
"""The same programs on other frameworks: `rows_langgraph.py` is `rows.py`."""

_SERVE = """
import importlib, socket, sys, uvicorn
sys.path.insert(0, sys.argv[1])
app = importlib.import_module(sys.argv[2]).app
listening = socket.create_server(("127.0.0.1", 0))
print(listening.getsockname()[1], flush=True)
uvicorn.Server(uvicorn.Config(app, log_level="error")).run(sockets=[listening])
"""
_LAYOUT = {tokenize.COMMENT, tokenize.NL, tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT, tokenize.ENDMARKER}


def play(
    program: Path, directory: Path, *arguments: str, options: tuple[str, ...] = (), typed: str = ""
) -> subprocess.CompletedProcess[str]:
    """Run a program to its end in a directory."""
    command = [sys.executable, *options, str(program), *arguments]
    return subprocess.run(
        command, cwd=directory, input=typed, capture_output=True, text=True, timeout=90, start_new_session=True, check=False
    )


@contextmanager
def served_by(program: Path, directory: Path) -> Generator[httpx.Client]:
    """Run a service in a process of its own; yield a client of it."""
    command = [sys.executable, "-c", _SERVE, str(program.parent), program.stem]
    with subprocess.Popen(command, cwd=directory, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as served:
        try:
            assert served.stdout
            assert served.stderr
            port = served.stdout.readline()
            assert port, served.stderr.read()
            with httpx.Client(base_url=f"http://127.0.0.1:{int(port)}", timeout=60, trust_env=False) as client:
                yield client
        finally:
            served.kill()


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
