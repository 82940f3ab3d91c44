from __future__ import annotations

from pathlib import Path

import pytest

from support.cli import CommandLine
from support.installed import installed, or_skip
from support.invented_decisions import no_invented_decisions

__all__ = ["no_invented_decisions"]  # runs for every test here


@pytest.fixture(scope="session")
def claude_program() -> Path:
    """Claude Code from npm, installed next to the packages of the virtual environment."""
    return or_skip(lambda: installed("claude", "@anthropic-ai/claude-code@2.1.330")) / "claude"


@pytest.fixture
def midturn(tmp_path: Path) -> CommandLine:
    """A user with a home and a workspace."""
    return CommandLine(tmp_path)
