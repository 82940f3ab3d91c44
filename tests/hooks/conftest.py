from __future__ import annotations

from pathlib import Path

import pytest

from support.cli import CommandLine
from support.hooks import Session
from support.no_lie import nothing_is_on_record_that_nobody_decided

__all__ = ["nothing_is_on_record_that_nobody_decided"]  # of every test here


@pytest.fixture
def midturn(tmp_path: Path) -> CommandLine:
    """A user with a home and a workspace."""
    return CommandLine(tmp_path)


@pytest.fixture
def claude(midturn: CommandLine) -> Session:
    """A session of Claude Code at a terminal."""
    return Session(midturn, "claude", CLAUDE_CODE_ENTRYPOINT="cli", CLAUDE_CODE_SESSION_ATTENDED="1")


@pytest.fixture
def headless(midturn: CommandLine) -> Session:
    """A session of `claude -p`."""
    return Session(midturn, "claude", CLAUDE_CODE_ENTRYPOINT="sdk-cli", CLAUDE_CODE_SESSION_ATTENDED="0")
