from __future__ import annotations

import fcntl
import os
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
    program.parents[2].mkdir(parents=True, exist_ok=True)
    with (INSTALLED / "lock").open("w") as lock:  # the tests run in several processes
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not program.exists():
            _install(program.parents[2])
    return program


def _install(folder: Path) -> None:
    """Install with npm as this machine has it set up; what the package's own scripts take for a home is none of the user's."""
    own = {"HOME": str(INSTALLED), "npm_config_userconfig": str(Path.home() / ".npmrc")}
    command = ["npm", "install", "--no-audit", "--no-fund", "--prefix", str(folder), CLAUDE]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=600, env={**os.environ, **own})
    if done.returncode != 0:
        pytest.skip(f"{CLAUDE} cannot be installed: {done.stderr[-500:]}")


@pytest.fixture
def midturn(tmp_path: Path) -> CommandLine:
    """A user with a home and a workspace."""
    return CommandLine(tmp_path)
