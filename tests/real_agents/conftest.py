from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from support.cli import CommandLine

INSTALLED = Path(sys.prefix) / "agents"
CLAUDE = "@anthropic-ai/claude-code@2.1.330"


@pytest.fixture(scope="session")
def claude_program() -> Path:
    """Claude Code from npm, beside the packages of the virtual environment."""
    program = INSTALLED / "claude" / "node_modules" / ".bin" / "claude"
    if not program.exists():
        program.parents[2].mkdir(parents=True, exist_ok=True)
        home = {"HOME": str(INSTALLED), "PATH": "/usr/local/bin:/usr/bin:/bin"}
        command = ["npm", "install", "--no-audit", "--no-fund", "--prefix", str(program.parents[2]), CLAUDE]
        done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=600, env=home)
        if done.returncode != 0:
            pytest.skip(f"{CLAUDE} cannot be installed: {done.stderr[-500:]}")
    return program


@pytest.fixture
def midturn(tmp_path: Path) -> CommandLine:
    """A user with a home and a workspace."""
    return CommandLine(tmp_path)
