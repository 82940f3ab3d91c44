from __future__ import annotations

from pathlib import Path

import pytest

from support.cli import CommandLine
from support.hooks import Session
from support.invented_decisions import no_invented_decisions

__all__ = ["no_invented_decisions"]  # runs for every test here


@pytest.fixture
def midturn(tmp_path: Path) -> CommandLine:
    """A user with a home and a workspace."""
    return CommandLine(tmp_path)


@pytest.fixture
def claude(midturn: CommandLine) -> Session:
    """A session of Claude Code at a terminal."""
    return Session(
        midturn, "claude", CLAUDE_CODE_ENTRYPOINT="cli", CLAUDE_CODE_SESSION_ATTENDED="1"
    )


@pytest.fixture
def headless(midturn: CommandLine) -> Session:
    """A session of `claude -p`."""
    return Session(
        midturn, "claude", CLAUDE_CODE_ENTRYPOINT="sdk-cli", CLAUDE_CODE_SESSION_ATTENDED="0"
    )
