from __future__ import annotations

from pathlib import Path

import pytest

from support.cli import CommandLine
from support.installed import Missing, installed


@pytest.fixture(scope="session")
def claude_program() -> Path:
    """Claude Code from npm, beside the packages of the virtual environment."""
    try:
        return installed("claude", "@anthropic-ai/claude-code@2.1.330") / "claude"
    except Missing as missing:
        pytest.skip(str(missing))


@pytest.fixture
def midturn(tmp_path: Path) -> CommandLine:
    """A user with a home and a workspace."""
    return CommandLine(tmp_path)
